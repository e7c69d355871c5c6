"""The synthetic corpora: a function of the seed, distinct, and shaped like the real ones."""

from __future__ import annotations

import importlib
import random
from itertools import islice

import pytest

from harness.data_sources import normalised
from harness.errors import DataError
from harness.task import TASKS, Task, keywords, load_config
from tasks.synthetic import agnews, dbpedia, trec
from tasks.synthetic.grammar import _FIELD, Grammar, parse
from tasks.synthetic.movies import GRAMMAR as MOVIES

GRAMMARS = {"agnews": agnews.GRAMMAR, "dbpedia": dbpedia.GRAMMAR, "trec": trec.GRAMMAR, "movies": MOVIES}
TOPICS = [(task, label) for task in ("agnews", "dbpedia", "trec") for label in load_config(task)["doc_to_choice"]]


def corpus(task: str, label: str | None, split: str = "train", seed: int = 0):
    return importlib.import_module(load_config(task)["metadata"]["data"]["synthetic"]["module"]).records(
        label, split, seed
    )


@pytest.mark.parametrize("name", GRAMMARS)
def test_every_alternative_is_well_formed_and_every_symbol_exists(name):
    for alternatives in GRAMMARS[name].rules.values():
        assert alternatives
        for alternative in alternatives:
            assert not set("{}[]") & set(_FIELD.sub("", alternative)), alternative
            assert all(m["name"] in GRAMMARS[name].rules for m in _FIELD.finditer(alternative) if m["name"])


@pytest.mark.parametrize(("task", "label"), TOPICS)
def test_records_look_like_one_line_of_text(task, label):
    for text, written in islice(corpus(task, label), 300):
        assert written == label
        assert text == " ".join(text.split())
        assert 8 <= len(text) <= 500
        assert not set("{}[]|#") & set(text)


@pytest.mark.parametrize(("task", "label"), [("dbpedia", "Village"), ("agnews", "Technology")])
def test_a_class_has_thirty_thousand_distinct_records(task, label):
    distinct = {normalised(text) for text, _ in islice(corpus(task, label), 36_000)}
    assert len(distinct) >= 30_000


@pytest.mark.slow
@pytest.mark.parametrize(("task", "label"), TOPICS)
def test_every_class_has_thirty_thousand_distinct_records(task, label):
    assert len({normalised(text) for text, _ in islice(corpus(task, label), 200_000)}) >= 30_000


def test_a_record_is_a_function_of_seed_split_and_index():
    def first(**where):
        return [text for text, _ in islice(corpus("trec", "Entity", **where), 50)]

    assert first() == first()
    assert first() != first(seed=1)
    assert first() != first(split="test")


def test_smaller_corpora_are_the_beginning_of_larger_ones():
    small, large = (Task.load("agnews", source="synthetic", limit_train=n) for n in (3, 30))
    for label in small.labels:
        texts = [[r.text for r in task.train if r.label == label] for task in (small, large)]
        assert len(texts[0]) == 3
        assert set(texts[0]) <= set(texts[1])


def test_the_limit_sets_the_size_of_a_class_exactly_and_nothing_is_dropped():
    task = Task.load("dbpedia", source="synthetic", limit_train=70, limit_test=800)
    assert set(task.sizes(task.labels).records.values()) == {70}
    assert len(task.test) == 800
    assert not any(task.dropped.values())


def test_asking_for_more_than_the_grammar_holds_is_an_error(monkeypatch):
    monkeypatch.setattr("tasks.synthetic.trec.records", lambda label, split, seed: iter([("same", label)] * 9999))
    with pytest.raises(DataError, match="fewer train records"):
        Task.load("trec", source="synthetic")


@pytest.mark.parametrize("name", ["mit_g", "mit_d"])
def test_the_phrase_is_part_of_its_sentence_and_of_the_public_list(name):
    for text, phrase in islice(corpus(name, None), 300):
        assert f" {phrase} " in f" {text} "
        assert phrase in keywords(name)
        assert text == text.lower()


def test_shipped_corpora_are_small():
    assert sum(path.stat().st_size for path in (TASKS / "synthetic").glob("*.txt")) < 100_000


def test_grammar_notation():
    grammar = Grammar(parse("# note\n[s]\n{n#1} and {n#1|cap} {n#1|title} a {v} {3-3}.\n\nn: red fox\n\nv: apple\n"))
    assert grammar.expand("s", random.Random(0)) == "red fox and Red fox Red Fox an apple 3."
    with pytest.raises(ValueError, match="not a rule"):
        parse("no rule at all")
