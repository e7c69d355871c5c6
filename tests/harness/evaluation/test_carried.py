"""What texts carry: classifiers of demonstrations by two readers that no mechanism uses, and MiniLM's beside them."""

import dataclasses
import importlib.metadata
import math

import numpy as np
import pytest

from dpicl.core.errors import DataError, ModelError, UsageError
from dpicl.core.vocabulary import Demonstration, Record
from dpicl.evaluation import carried
from dpicl.evaluation.carried import (
    INDEPENDENT,
    READERS,
    carried_by,
    choose_worse,
    find_readers_used,
    require_independent,
)
from dpicl.mechanism.registry import load_mechanisms
from dpicl.models import embeddings, static_vectors
from tests.harness.helpers import refuse

LABELS = ("Red", "Blue")
SHOWN = [
    Demonstration("The team won the football match", "Red"),
    Demonstration("A goal in the last minute of the match", "Red"),
    Demonstration("The bank raised its interest rate", "Blue"),
    Demonstration("Shares of the bank fell on the market", "Blue"),
]
ASKED = [
    Record("Football team scores a goal", "Red"),
    Record("Interest in shares of a bank", "Blue"),
    Record("The match", "Blue"),
]
#: A plug-in that reads no record, and names a reader.
PLUGIN = '''
"""Repeats labels."""
from dataclasses import dataclass
import dpicl
from dpicl import dp_event as dp
{}

@dataclass(frozen=True)
class Mine(dpicl.DemonstrationMechanism):
    name = "mine"
    knob = None
    source = "ours"
    weights: str = "plain"

    def events(self, knob, sizes):
        return dp.NoOpDpEvent()

    def release(self, private, context):
        return [dpicl.Demonstration(label, label) for label in context.shots]
'''


def defaults_of(cls):
    return (
        {one.name: one.default for one in dataclasses.fields(cls)}
        if dataclasses.is_dataclass(cls)
        else {}
    )


@pytest.mark.parametrize("reader", INDEPENDENT)
def test_a_record_counts_where_the_classifier_gives_its_label(reader):
    outcomes = carried_by(reader, SHOWN, ASKED, LABELS)
    assert outcomes.dtype == np.int8 and outcomes.tolist() == [1, 1, 0]
    pairs = [(one.text, one.label) for one in SHOWN]
    assert carried_by(reader, pairs, ASKED[:1], LABELS).tolist() == [1]


@pytest.mark.parametrize("reader", INDEPENDENT)
def test_demonstrations_without_a_word_count_for_nothing(reader):
    silent = Demonstration(" \n", "Blue")
    for none in ([], [silent]):
        assert carried_by(reader, none, ASKED, LABELS).tolist() == [1, 0, 0]  # the first label
    assert carried_by(reader, [silent, SHOWN[0]], ASKED, LABELS).tolist() == [
        1,
        0,
        0,
    ]  # the only one
    assert carried_by(
        reader,
        [*SHOWN, silent],
        ASKED,
        LABELS,
    ).tolist() == [1, 1, 0]
    assert carried_by(reader, SHOWN, [], LABELS).shape == (0,)


def test_tfidf_is_the_textbooks_in_any_script_and_case():
    texts = ["Red red cat", "cat 天気"]
    rows = carried._use_tfidf(texts, ["RED dog"])
    known, queries = (one.toarray() for one in rows)
    grams = [
        ["red", "red", "cat", "red red", "red cat"],
        ["cat", "天", "気", "cat 天", "天 気"],
    ]
    vocabulary = sorted({gram for text_grams in grams for gram in text_grams})
    inverse = {
        gram: math.log(3 / (1 + sum(gram in text_grams for text_grams in grams))) + 1
        for gram in vocabulary
    }
    expected = np.array(
        [
            [
                (1 + math.log(text_grams.count(gram))) * inverse[gram] if gram in text_grams else 0
                for gram in vocabulary
            ]
            for text_grams in grams
        ]
    )
    assert known == pytest.approx(expected / np.linalg.norm(expected, axis=1, keepdims=True))
    assert queries.tolist() == [[float(gram == "red") for gram in vocabulary]]


def test_a_static_vector_is_the_mean_of_the_texts_tokens():
    model = static_vectors.load_static_vectors()
    words = model.encode(
        ["cat", "cat cat", "", "a lone \ud800 surrogate", "The longest text of them all, by far."]
    )
    assert words.shape == (5, model.dimension) == (5, 256)
    assert np.linalg.norm(words, axis=1) == pytest.approx([1, 1, 0, 1, 1])
    assert words[0] == pytest.approx(words[1])
    assert (model.encode(["cat"])[0] == words[0]).all()
    near, far = (
        model.encode(["a small kitten"])[0] @ words[0],
        model.encode(["interest rates"])[0] @ words[0],
    )
    assert near > far + 0.2


def test_a_missing_wheel_and_other_weights_are_one_sentence(monkeypatch):
    monkeypatch.setattr(static_vectors, "load_static_vectors", static_vectors.StaticVectors)
    monkeypatch.setattr(carried, "load_static_vectors", static_vectors.StaticVectors)
    carried._static_vectors.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(static_vectors, "_WEIGHTS", "0" * 64)
        with pytest.raises(
            ModelError,
            match=r"not the expected ones; run `pip install --no-deps wordllama==\S+ --force",
        ):
            carried_by("wordllama", SHOWN, ASKED, LABELS)

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    with pytest.raises(
        ModelError,
        match=r"wordllama .* is not installed; run `pip install --no-deps wordllama==[\w.]+`\.$",
    ):
        carried_by("wordllama", SHOWN, ASKED, LABELS)
    assert carried_by("tfidf", SHOWN, ASKED, LABELS).tolist() == [1, 1, 0]


def test_what_the_task_does_not_have_is_one_sentence():
    with pytest.raises(UsageError, match=r"Unknown reader 'wordlama'.*wordllama"):
        carried_by("wordlama", SHOWN, ASKED, LABELS)
    with pytest.raises(
        DataError, match=r"A demonstration has the label 'Green', which is none .*Red and Blue"
    ):
        carried_by("tfidf", [*SHOWN, Demonstration("a text", "Green")], ASKED, LABELS)
    with pytest.raises(DataError, match="A test record has the label 'Green'"):
        carried_by("tfidf", SHOWN, [("a text", "Green")], LABELS)


def test_the_worse_of_the_independent_readers_decides():
    assert choose_worse({"wordllama": 0.5, "tfidf": 0.4, "minilm": 0.1}) == "tfidf"
    assert choose_worse({"wordllama": 0.3, "tfidf": 0.4}) == "wordllama"
    with pytest.raises(KeyError):  # one alone decides nothing
        choose_worse({"tfidf": 0.4, "minilm": 0.1})


def test_no_shipped_mechanism_uses_an_independent_reader():
    used = {
        name: find_readers_used(defaults_of(one.cls), one.cls)
        for name, one in load_mechanisms().items()
    }
    with_option = {name for name, one in load_mechanisms().items() if hasattr(one.cls, "embedding")}
    assert {"private_evolution", "one_vote", "embedding_centroids"} <= with_option
    assert used == {name: ["minilm"] if name in with_option else [] for name in used}


def test_options_tell_which_reader_is_used():
    cls = load_mechanisms()["private_evolution"].cls
    assert find_readers_used({"embedding": "embedded"}, cls) == ["minilm"]
    assert find_readers_used({"embedding": "st:sentence-transformers/all-MiniLM-L6-v2"}) == [
        "minilm"
    ]
    assert find_readers_used({"encoders": [["st:dleemiller/word-llama-l2-supercat"]]}) == [
        "wordllama"
    ]
    assert find_readers_used({"embedding": "st:BAAI/bge-small"}, cls) == []
    require_independent("private_evolution", {"embedding": "embedded"}, cls)
    with pytest.raises(UsageError, match="mine uses TF-IDF, by which boards read"):
        require_independent("mine", {"weights": "tfidf"})


@pytest.mark.usefixtures("no_plugins_before")
@pytest.mark.parametrize(
    ("line", "title"),
    [
        ('WORDS = "wordllama"', "WordLlama"),
        ("def count():\n    from sklearn.feature_extraction.text import TfidfVectorizer", "TF-IDF"),
        ("from dpicl.models.static_vectors import load_static_vectors", "WordLlama"),
    ],
)
def test_a_plan_refuses_plugins_that_name_an_independent_reader(dpicl, tmp_path, line, title):
    plan = plan_of(dpicl, tmp_path, line)
    refuse(plan("agnews"), "mine.yaml", "mine uses", title)
    assert plan("mit_g").code == 0  # its texts are read by the model alone


@pytest.mark.usefixtures("no_plugins_before")
def test_what_a_plugin_only_says_of_a_reader_is_no_use_of_it(dpicl, tmp_path):
    lines = '# unlike WordLlama\n"""No TfidfVectorizer."""\nfrom sklearn.feature_extraction.text import CountVectorizer'
    assert plan_of(dpicl, tmp_path, lines)("agnews").code == 0


def plan_of(dpicl, folder, lines):
    """Plans a suite of the plug-in with these lines on a task."""
    plugin, suite = folder / "mine.py", folder / "mine.yaml"
    plugin.write_text(PLUGIN.format(lines))

    def plan(task):
        text = (
            "name: mine\nversion: 1\nsource: synthetic\nmodels: [sim]\nseeds: [0]\nepsilons: [1]\n"
        )
        suite.write_text(f"{text}tasks: [{task}]\nmechanisms: [mine]\n")
        return dpicl(f"plan {suite} --plugin {plugin}")

    return plan


@pytest.mark.model
@pytest.mark.slow
def test_minilm_is_the_classifier_of_acc_logistic():
    embed = embeddings.load_embeddings("embedded").encode
    answers = carried.logistic(
        embed([one.text for one in ASKED]),
        embed([one.text for one in SHOWN]),
        [one.label for one in SHOWN],
    )
    right = [int(answer == one.label) for answer, one in zip(answers, ASKED, strict=True)]
    assert carried_by("minilm", SHOWN, ASKED, LABELS).tolist() == right
    assert set(READERS) == {*INDEPENDENT, "minilm"}
