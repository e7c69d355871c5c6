"""The synthetic corpora: a function of the seed, distinct, and shaped like the real ones."""

import importlib
import random
from itertools import islice

import pytest

from dpicl.core.errors import DataError
from dpicl.data.task import Task, load_config
from dpicl.tasks.synthetic import agnews, chatdoctor, dbpedia, enron, samsum, trec, wikimovies, xsum
from dpicl.tasks.synthetic.grammar import _FIELD, Grammar, parse
from dpicl.tasks.synthetic.movies import GRAMMAR as MOVIES

pytestmark = pytest.mark.usefixtures("new_corpora")

GRAMMARS = {
    "agnews": agnews.GRAMMAR,
    "enron": enron.GRAMMAR,
    "dbpedia": dbpedia.GRAMMAR,
    "trec": trec.GRAMMAR,
    "movies": MOVIES,
}
GRAMMARS |= {
    module.__name__.rpartition(".")[2]: module.GRAMMAR
    for module in (samsum, xsum, chatdoctor, wikimovies)
}
TOPICS = [
    (task, label)
    for task in ("agnews", "dbpedia", "trec")
    for label in load_config(task).doc_to_choice
]


def corpus(task: str, label: str | None, split: str = "train", seed: int = 0):
    return importlib.import_module(load_config(task).data.synthetic.module).records(
        label, split, seed
    )


@pytest.mark.parametrize("name", GRAMMARS)
def test_every_alternative_of_a_grammar_is_well_formed(name):
    for alternatives in GRAMMARS[name].rules.values():
        assert alternatives
        for alternative in alternatives:
            assert not set("{}[]") & set(_FIELD.sub("", alternative)), alternative
            assert all(
                m["name"] in GRAMMARS[name].rules for m in _FIELD.finditer(alternative) if m["name"]
            )


@pytest.mark.parametrize(("task", "label"), TOPICS)
def test_records_look_like_one_line_of_text(task, label):
    for text, written in islice(corpus(task, label), 100):
        assert written == label
        assert text == " ".join(text.split())
        assert 8 <= len(text) <= 500
        assert not set("{}[]|#") & set(text)


def test_a_record_is_a_function_of_seed_split_and_index():
    def first(**where):
        return [text for text, _ in islice(corpus("trec", "Entity", **where), 50)]

    assert first() == first()
    assert first() != first(seed=1)
    assert first() != first(split="test")


def test_asking_for_more_than_the_grammar_holds_is_an_error(monkeypatch):
    monkeypatch.setattr(
        "dpicl.tasks.synthetic.trec.records",
        lambda label, split, seed: iter([("same", label)] * 9999),
    )
    with pytest.raises(DataError, match="fewer train records"):
        Task.load("trec", source="synthetic")


@pytest.mark.parametrize("name", ["mit_g", "mit_d"])
def test_a_phrase_is_in_its_sentence_and_the_public_list(name):
    for text, phrase in islice(corpus(name, None), 300):
        assert f" {phrase} " in f" {text} "
        assert phrase in load_config(name).labels
        assert text == text.lower()


PAIRS = ("samsum", "xsum", "chatdoctor")


@pytest.mark.parametrize("name", PAIRS)
def test_texts_and_outputs_are_single_lines_that_no_cut_touches(name):
    cut = load_config(name).data.max_words
    for text, output in islice(corpus(name, None), 500):
        for part, most in (
            (text, cut["text"]),
            (output, cut.get("label", 40)),
        ):
            assert part == " ".join(part.split())
            assert not set("{}[]|#") & set(part)
            assert "=>" not in part
            assert 4 <= len(part.split()) <= most


#: Words with which an output may speak about its text; all others are in the text.


def test_grammar_notation():
    grammar = Grammar(
        parse(
            "# note\n[s]\n{n#1} and {n#1|cap} {n#1|title} a {v} {3-3}.\n\nn: red fox\n\nv: apple\n"
        )
    )
    assert grammar.expand("s", random.Random(0)) == "red fox and Red fox Red Fox an apple 3."
    with pytest.raises(ValueError, match="not a rule"):
        parse("no rule at all")
