"""What a slot says is a function of that slot alone, equals what lm-eval's prompt would give, and is asked once."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tokenizers.processors import TemplateProcessing

from dpicl import models
from dpicl.core.errors import ModelError, PromptTooLong
from dpicl.core.output_cache import OutputCache
from dpicl.data.task import CONTENT_FREE, Record, Task
from dpicl.evaluation import contextual_calibration as calibration
from dpicl.mechanism.bases import Query
from dpicl.models.base import NOT_FINITE
from dpicl.models.embeddings import SimulatedEmbeddings
from dpicl.privacy.sampling_schemes import SamplingScheme
from dpicl.releasing.prompts import SlotPrompts
from dpicl.releasing.reader import SlotReader

PER_QUERY = SamplingScheme(3, 2, "per_query")


@pytest.fixture
def tiny_with_bos(tmp_path, own_cache):
    """A random Llama whose tokenizer puts BOS before every text. What it imports no collection needs."""
    from transformers import AutoTokenizer

    from tests.harness.models.tiny import save_tiny_llama

    folder = save_tiny_llama(tmp_path, max_length=512)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.bos_token_id)]
    )
    tokenizer.save_pretrained(folder)
    return models.load(f"hf:{folder}", device="cpu", dtype="float32")


def reader(task, scheme=PER_QUERY, queries=(), model=None, cache=None, **options):
    return SlotReader(
        task, model or models.load("sim"), cache or OutputCache(None), scheme, queries, **options
    )


def queries_of(task):
    return [Query(str(i), record.text) for i, record in enumerate(task.test)]


def say(slot_reader, task, query, slots):
    """What slots answer: label scores on a classification task, texts on another one."""
    if task.kind == "classification":
        return slot_reader.label_scores(query, slots, calibrated=False)
    return slot_reader.texts(query, slots)


PARTITIONS = pytest.mark.parametrize("partition", ["per_query", "once"])


@PARTITIONS
@pytest.mark.parametrize("name", ["agnews", "trec"])
def test_label_scores_are_those_of_the_few_shot_prompt(name, partition):
    model = models.load("sim")
    task = Task.load(name, "synthetic", limit_train=4, limit_test=4)
    slots = [task.train[:2], task.train[5:6], ()]
    queries = queries_of(task)
    query = queries[0]
    got = reader(task, SamplingScheme(3, 2, partition), queries, model).label_scores(
        query, slots, calibrated=False
    )
    for slot, row in zip(slots, got, strict=True):
        context = model.encode(task.icl_prefix(slot) + task.query(query.text))
        slow = []
        for label in task.labels:
            total, so_far = 0.0, list(context)
            for token in model.encode(" " + label):
                total += float(model.next_token_log_probs([so_far])[0][token])
                so_far.append(token)
            slow.append(total)
        np.testing.assert_allclose(row, slow, atol=1e-4)
    several = max(len(model.encode(" " + label)) for label in task.labels) > 1
    assert several == (name == "trec")  # labels of one token, and of several


@PARTITIONS
def test_calibration_inside_a_slot_is_the_bridges_own(agnews, partition):
    model = models.load("sim")
    slot, query = agnews.train[:2], queries_of(agnews)[0]
    plain = reader(agnews, model=model)
    raw = plain.label_scores(query, [slot], calibrated=False)
    blank = [
        plain.label_scores(
            Query("", text),
            [slot],
            calibrated=False,
        )[0]
        for text in CONTENT_FREE
    ]
    expected = calibration.predictions(raw, calibration.content_free_probabilities(blank))
    ask = reader(agnews, SamplingScheme(1, 2, partition), queries_of(agnews), model)
    got = ask.label_scores(query, [slot], calibrated=True)
    assert got.argmax(axis=1).tolist() == expected.tolist()
    np.testing.assert_allclose(
        got, raw - np.log(calibration.content_free_probabilities(blank)), atol=1e-5
    )


def test_another_model_record_or_setting_is_another_key(samsum, tmp_path):
    query = queries_of(samsum)[0]
    for model, slot, options in (
        (models.load("sim"), samsum.train[:1], {}),
        (models.load("sim:1"), samsum.train[:1], {}),
        (models.load("sim"), samsum.train[1:2], {}),
        (models.load("sim"), samsum.train[:1], {"record_tokens": 3}),
    ):
        reader(
            samsum,
            model=model,
            cache=OutputCache(tmp_path),
            **options,
        ).texts(query, [slot])
        assert model.usage.forward_calls > 0


@pytest.mark.parametrize("name", ["agnews", "samsum"])
def test_the_same_prompt_after_other_examples_is_another_key(name, tmp_path, monkeypatch):
    """A slot whose last record does not fit has the prompt of one without that record, but what is read before it is
    cut elsewhere, so its numbers may differ in their last bits. An output that is found must not tell which slot was
    there first."""
    model = models.load("sim")
    task = Task.load(name, "synthetic", limit_train=4, limit_test=2)
    query, short = queries_of(task)[0], task.train[:1]
    longer = (*short, Record("word " * 5000, task.train[1].label))
    prompts = SlotPrompts(task, model, None, None)
    assert prompts.of(short, query.text) == prompts.of(longer, query.text)
    assert prompts.examples(short) != prompts.examples(longer)
    read, prefix = list[int](), model.prefix

    def note_prefix(tokens, *after):
        read.append(len(tokens))
        return prefix(tokens, *after)

    monkeypatch.setattr(model, "prefix", note_prefix)

    def ask(cache, slot):
        """The numbers of tokens of all that is read before its prompt."""
        read.clear()
        say(reader(task, model=model, cache=cache), task, query, [slot])
        return list(read)

    alone = {slot: ask(OutputCache(None), slot) for slot in (short, longer)}
    assert alone[short] != alone[longer]
    for order in ((short, longer), (longer, short)):
        cache = OutputCache(tmp_path / str(len(order[0])))
        assert [ask(cache, slot) for slot in order] == [alone[slot] for slot in order]
        assert [ask(cache, slot) for slot in order] == [[], []]


def test_a_slot_that_is_too_long_loses_its_last_records(samsum):
    model = models.load("sim")
    roomy = SlotPrompts(samsum, model, None, None)
    short = samsum.train[:1]
    model.max_length = len(model.encode(roomy.of(short, "x"))) + roomy.room
    prompts = SlotPrompts(samsum, model, None, None)
    monster = Record("word " * 500, "label")
    assert prompts.of((*short, monster), "x") == roomy.of(short, "x")
    assert prompts.of((monster,), "x") == prompts.public("x")
    with pytest.raises(PromptTooLong, match="A public prompt of task samsum"):
        prompts.of((), "word " * 500)


def test_a_prompt_that_breaks_the_model_abstains(agnews, samsum):
    broken = models.load("sim:nan")
    query = Query("q", "text")
    assert np.isnan(
        reader(agnews, model=broken).label_scores(
            query,
            [agnews.train[:1], ()],
            calibrated=True,
        )
    ).all()
    assert reader(samsum, model=broken).texts(
        query,
        [samsum.train[:1], ()],
    ) == ["", ""]
    for task in (agnews, samsum):
        with pytest.raises(ModelError):
            reader(task, model=broken, queries=[query]).read_public()


@PARTITIONS
@pytest.mark.parametrize("name", ["agnews", "samsum"])
def test_a_failure_is_asked_about_once_a_release_and_never_kept(name, partition, tmp_path):
    task = Task.load(name, "synthetic", limit_train=2, limit_test=2)
    scheme, queries = SamplingScheme(1, 1, partition), queries_of(task)

    def ask(model, folder, times=1):
        slot_reader = reader(task, scheme, queries, model, OutputCache(folder))
        for _ in range(times):
            answers = say(slot_reader, task, queries[0], [task.train[:1]])
        return np.array(answers).tolist()

    sound = ask(models.load("sim"), None)
    model = models.load("sim")
    model._broken = float("nan")
    broken = ask(model, tmp_path, times=2)
    number = 1 if partition == "per_query" else len(queries)
    assert dict(model.usage.failures) == {NOT_FINITE: number}
    assert broken == [""] if name == "samsum" else np.isnan(broken).all()
    model._broken = None
    assert ask(model, tmp_path) == sound
    calls = model.usage.forward_calls
    assert ask(model, tmp_path) == sound and model.usage.forward_calls == calls


def test_an_empty_answer_is_an_answer(samsum, tmp_path, monkeypatch):
    model = models.load("sim")
    monkeypatch.setattr(
        model,
        "generate",
        lambda prompts, *_, **__: [""] * len(prompts),
    )
    slots = [samsum.train[:1]]
    query = queries_of(samsum)[0]
    assert reader(
        samsum,
        model=model,
        cache=OutputCache(tmp_path),
    ).texts(query, slots) == [""]
    monkeypatch.setattr(model, "generate", lambda *_, **__: pytest.fail("it is asked again"))
    assert reader(
        samsum,
        model=model,
        cache=OutputCache(tmp_path),
    ).texts(query, slots) == [""]


def test_an_embedding_that_failed_is_made_again(agnews, monkeypatch):
    cache = OutputCache(None)
    with monkeypatch.context() as patch:
        patch.setattr(
            SimulatedEmbeddings,
            "_raw",
            lambda self, texts: np.full(
                (len(texts), self.dimension),
                np.nan,
            ),
        )
        assert not reader(agnews, cache=cache).embed(["a word", ""], "sim").any()
    vectors = reader(agnews, cache=cache).embed(["a word", ""], "sim")
    assert vectors[0].any() and not vectors[1].any()


@pytest.mark.parametrize("partition", ["per_query", "one_sample"])
def test_empty_slots_ask_nothing_after_public_prompts(agnews, samsum, partition):
    scheme = SamplingScheme(3, 2, partition)
    for task in (agnews, samsum):
        model, queries = models.load("sim"), queries_of(task)
        public = reader(task, scheme, queries, model)
        public.read_public()
        calls = model.usage.forward_calls
        for query in queries:
            say(public, task, query, [(), ()])
        assert 0 < calls == model.usage.forward_calls


def test_a_slot_of_which_nothing_fits_is_read_as_an_empty_one(agnews):
    model = models.load("sim")
    monster = (Record("word " * 5000, agnews.labels[0]),)
    both = reader(agnews, model=model, queries=queries_of(agnews))
    both.read_public()
    calls = model.usage.forward_calls
    query = queries_of(agnews)[0]
    rows = both.label_scores(query, [monster, ()], calibrated=True)
    assert rows[0].tobytes() == rows[1].tobytes()
    assert model.usage.forward_calls == calls


def test_no_length_of_a_record_makes_a_model_with_bos_fail(samsum, tiny_with_bos):
    """A slot may fill the context up to the last token, the one that the model puts before every prompt included."""
    model = tiny_with_bos
    assert model.lead_tokens == 1
    prompts = SlotPrompts(samsum, model, None, None)
    query = Query("q", "x")
    frame = len(model.encode(samsum.icl_prefix([Record("", "y")]) + samsum.query("x")))
    for spare in (-2, -1, 0, 1, 2):
        length = model.max_length - prompts.room - model.lead_tokens - frame + spare
        record = Record("z" * length, "y")
        assert len(reader(samsum, model=model).texts(query, [(record,)])) == 1


def test_what_was_read_with_another_rounding_is_asked_again(agnews, tiny, tmp_path):
    """Other threads or settings on one machine may choose other sizes of passes: their bits are never mixed."""
    query = queries_of(agnews)[0]
    slots = slots_of(agnews, 2)
    calls = []
    for arithmetic in ("a", "b", "a"):
        tiny.identity = replace(tiny.identity, arithmetic=arithmetic)
        reader(agnews, model=tiny, cache=OutputCache(tmp_path)).label_scores(
            query, slots, calibrated=False
        )
        calls.append(tiny.usage.tokens_read)
    assert 0 < calls[0] < calls[1] == calls[2]


@pytest.fixture
def tiny(tiny_folder, own_cache):
    """A random Llama that has read nothing yet."""
    return models.load(f"hf:{tiny_folder}", device="cpu", dtype="float32")


def slots_of(task, count):
    return [task.train[i : i + 1 + i % 3] for i in range(count)]


LABELS = (
    lambda reader, query, slots: list(reader.label_scores(query, slots, calibrated=True)),
    lambda one, other: one.tobytes() == other.tobytes(),
)
TEXTS = (
    lambda reader, query, slots: reader.texts(query, slots),
    lambda one, other: one == other,
)


@pytest.mark.parametrize(
    ("name", "ask", "equal"),
    [("agnews", *LABELS), ("samsum", *TEXTS)],
)
@pytest.mark.parametrize("partition", ["per_query", "once"])
def test_slots_read_together_say_what_each_says_alone(tiny, name, ask, equal, partition):
    task = Task.load(name, "synthetic", limit_train=14, limit_test=2)
    slots, queries, scheme = (
        [*slots_of(task, 12), (), ()],
        queries_of(task),
        SamplingScheme(14, 2, partition),
    )
    alone: dict[str, list[Any]] = {query.id: [] for query in queries}
    for slot in slots:
        by_itself = reader(task, scheme, queries, tiny)
        by_itself.read_public()
        for query in queries:
            alone[query.id] += ask(by_itself, query, [slot])
    calls = tiny.usage.forward_calls
    together = reader(task, scheme, queries, tiny)
    together.read_public()
    for query in queries:
        for one, other in zip(
            ask(together, query, slots),
            alone[query.id],
            strict=True,
        ):
            assert equal(one, other)
    assert tiny.usage.forward_calls - calls < calls / 2


def test_a_slot_is_one_request_and_public_ones_are_one_together(samsum, monkeypatch):
    model, batches = models.load("sim"), []
    generate = model.generate

    def count(prompts, *rest, **options):
        batches.append((len(prompts), options["broken"]))
        return generate(prompts, *rest, **options)

    monkeypatch.setattr(model, "generate", count)
    slots = [
        samsum.train[:1],
        (),
        samsum.train[1:2],
        (),
    ]
    reader(samsum, model=model).texts(Query("q", "text"), slots)
    assert batches == [(1, "empty"), (1, "empty"), (1, "empty")]  # the public prompt is asked once
    batches.clear()
    together = reader(samsum, model=model).public_texts(Query("q", "text"), slots)
    assert batches == [(3, "raise")]
    assert together == reader(samsum, model=model).texts(Query("q", "text"), slots)


def test_candidates_begin_with_the_zero_shot_answer(samsum):
    ask = reader(samsum)
    one, two = queries_of(samsum)[:2]
    first = ask.candidates(one, 6, 0.9)
    assert first[0] == ask.texts(one, [()])[0]
    assert len(set(first)) > 1
    assert first == reader(samsum).candidates(one, 6, 0.9)
    assert first[:3] == reader(samsum).candidates(one, 3, 0.9)
    assert (
        ask.candidates(
            Query("other", one.text),
            6,
            0.9,
        )[1:]
        != first[1:]
    )
    assert ask.candidates(two, 1, 0.9) == ask.texts(two, [()])
