"""The demonstration mechanisms on generation and JSON tasks: what they release there, and why they skip."""

from dataclasses import replace

import pytest
from dp_accounting import dp_event as dp

from dpicl import models
from dpicl.accounting.events import flatten
from dpicl.accounting.ledger import Ledger
from dpicl.core.errors import DataError
from dpicl.core.seeds import Streams
from dpicl.data.task import Task
from dpicl.evaluation.lm_eval_bridge import evaluate
from dpicl.mechanism.bases import Context, Demonstration, DemonstrationMechanism
from dpicl.mechanisms.prism import Prism
from dpicl.mechanisms.pta import PTA
from dpicl.mechanisms.public_demonstrations import PublicDemonstrations
from dpicl.mechanisms.public_records import PublicRecords
from dpicl.mechanisms.real_demonstrations import EXAMPLES, RealDemonstrations
from dpicl.mechanisms.tang import Tang
from dpicl.mechanisms.zero_shot import ZeroShot
from dpicl.models.simulated import SimulatedLM
from tests.samples import GENERATION, private_set

pytestmark = pytest.mark.usefixtures("quick_embeddings")
WRITERS = {
    "tang": Tang(slots=3, tokens=4, top_k=20),
    "pta": PTA(slots=3, tokens=4),
    "prism": Prism(prompts=3, tokens=4),
}


class NotingLM(SimulatedLM):
    """Notes the prompts that it is asked to continue."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def generate(self, prompts, *args, **kwargs):
        self.asked += [self.decode(prompt) for prompt in prompts]
        return super().generate(prompts, *args, **kwargs)


def release(
    mechanism: DemonstrationMechanism,
    task: Task,
    *,
    shots: int = 3,
    seed: int = 0,
    model: SimulatedLM | None = None,
) -> tuple[list[Demonstration], Ledger]:
    plan = mechanism.plan_shots(task.public_view(), shots, Streams(seed).stream("shots"))
    private, ledger, public = private_set(task.train, task.sizes(plan).records, seed)
    context = Context(task.public_view(), model or SimulatedLM(), plan, 1.0, public)
    released = mechanism.release(private, context)
    assert isinstance(released, list)
    return released, ledger


def test_zero_shot_samples_public_texts_on_a_json_task_alone(tasks):
    task, model = tasks["wikimovies"], NotingLM()
    texts, ledger = release(ZeroShot(), task, model=model)
    assert model.asked == [task.generation_prompt("movie", ())] * 3
    assert len({demonstration.text for demonstration in texts}) == 3
    assert ledger.event() == dp.NoOpDpEvent()
    assert release(ZeroShot(), task)[0] == texts != release(ZeroShot(), task, seed=1)[0]
    for name in (*GENERATION, "trec"):
        assert release(ZeroShot(), tasks[name])[0] == []


def test_real_demonstrations_show_other_films_for_each_text(tasks):
    task, model = tasks["wikimovies"], NotingLM()
    texts, ledger = release(RealDemonstrations(), task, model=model)
    shown = [
        [record.text for record in task.train if record.text in prompt] for prompt in model.asked
    ]
    assert [len(part) for part in shown] == [EXAMPLES] * 3
    assert len({tuple(part) for part in shown}) == 3
    assert any(isinstance(event, dp.NonPrivateDpEvent) for event in flatten(ledger.event()))
    assert len(texts) == 3


def test_a_ceiling_of_matched_length_cuts_the_same_records(tasks):
    whole, cut = (
        release(row, tasks["trec"])[0]
        for row in (RealDemonstrations(), RealDemonstrations(matched_tokens=3))
    )
    assert [each.label for each in cut] == [each.label for each in whole]
    assert all(
        long.text.startswith(short.text) and short.tokens <= 3
        for long, short in zip(whole, cut, strict=True)
    )
    assert any(short.text != long.text for long, short in zip(whole, cut, strict=True))


def test_real_demonstrations_are_private_pairs(tasks):
    demonstrations, ledger = release(RealDemonstrations(), tasks["samsum"])
    private = {(record.text, record.label) for record in tasks["samsum"].train}
    assert len({(shown.text, shown.label) for shown in demonstrations} & private) == 3
    assert any(isinstance(event, dp.NonPrivateDpEvent) for event in flatten(ledger.event()))


def test_public_records_are_different_public_pairs_at_no_cost(tasks):
    task = tasks["samsum"]
    demonstrations, ledger = release(PublicRecords(), task, shots=8)
    public = {(record.text, record.label) for record in task.public}
    assert len({(shown.text, shown.label) for shown in demonstrations} & public) == 8
    assert ledger.event() == dp.NoOpDpEvent()
    assert release(PublicRecords(), task, shots=8)[0] == demonstrations
    assert release(PublicRecords(), task, shots=8, seed=1)[0] != demonstrations


def test_public_demonstrations_are_pairs_that_the_model_writes(tasks):
    task = tasks["samsum"]
    demonstrations, ledger = release(PublicDemonstrations(tokens=8), task, shots=4)
    bare = release(
        PublicDemonstrations(tokens=8),
        replace(task, public=()),
        shots=4,
    )[0]
    assert demonstrations == bare and ledger.event() == dp.NoOpDpEvent()
    assert len({d.text for d in demonstrations}) == 4
    assert all(d.label for d in demonstrations)
    assert (
        release(
            PublicDemonstrations(tokens=8),
            task,
            shots=4,
            seed=1,
        )[0]
        != demonstrations
    )


@pytest.mark.parametrize("greedy", [True, False])
def test_public_texts_of_a_label_continue_its_prompt(tasks, greedy):
    task, row, model = (
        tasks["trec"],
        PublicDemonstrations(tokens=6, greedy=greedy),
        models.load("sim"),
    )
    demonstrations, ledger = release(row, task, shots=6)
    assert ledger.event() == dp.NoOpDpEvent()
    assert release(row, task, shots=6)[0] == demonstrations
    texts, others = (
        {
            demonstration.label: demonstration.text
            for demonstration in release(row, task, shots=6, seed=seed)[0]
        }
        for seed in (0, 1)
    )
    assert (texts == others) == greedy
    if greedy:
        prompts = [model.encode(task.generation_prompt(label, ())) for label in texts]
        written = model.generate(
            prompts,
            6,
            [word for word in task.stop_strings if word.strip()],
        )
        for text, whole in zip(texts.values(), written, strict=True):
            assert whole.strip().startswith(text)


def test_public_controls_say_why_they_cannot(tasks):
    config = tasks["samsum"].config
    config = config.change(data=config.data.model_copy(update={"public": {}}))
    without_public = replace(tasks["samsum"], public=(), config=config)
    assert "zero_shot" in str(PublicDemonstrations().skip(tasks["wikimovies"]))
    assert PublicDemonstrations().skip(without_public) is None
    assert "no public records" in str(PublicRecords().skip(without_public))
    assert "generation" in str(PublicRecords().skip(tasks["trec"]))
    assert all(PublicDemonstrations().skip(tasks[name]) is None for name in (*GENERATION, "trec"))
    few = replace(tasks["samsum"], public=tasks["samsum"].public[:1])
    private, _, public = private_set([], {})
    context = Context(
        few.public_view(),
        SimulatedLM(),
        ("example",) * 2,
        0.0,
        public,
    )
    with pytest.raises(DataError, match="1 public records and 2 are to be shown"):
        PublicRecords().release(private, context)


@pytest.mark.parametrize("name", WRITERS)
def test_demonstration_mechanisms_write_films_and_skip_pairs(tasks, name):
    mechanism = WRITERS[name]
    for other in GENERATION:
        assert "an input with its output" in str(mechanism.skip(tasks[other]))
    assert mechanism.skip(tasks["wikimovies"]) is None
    assert mechanism.skip(tasks["trec"]) is None
    texts, ledger = release(mechanism, tasks["wikimovies"], shots=2)
    assert [demonstration.label for demonstration in texts] == ["movie"] * 2
    sizes = tasks["wikimovies"].sizes(("movie",) * 2)
    assert ledger.event() == flatten_event(mechanism.events(1.0, sizes))
    assert set(evaluate(tasks["wikimovies"], SimulatedLM(), texts).aggregates) == {
        "genre_distance",
        "year_distance",
    }


def flatten_event(event: dp.DpEvent) -> dp.DpEvent:
    ledger = Ledger(None, float("inf"))
    ledger.charge(event, None, note="all of it")
    return ledger.event()
