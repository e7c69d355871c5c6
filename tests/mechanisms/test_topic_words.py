"""Topic words: the public list, what a record moves, what is charged, and without noise the obvious counts."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl.accounting import accountants
from dpicl.accounting.events import BoundedRangeDpEvent, compose, flatten
from dpicl.core.vocabulary import Demonstration, Record, Sizes
from dpicl.mechanism.bases import Context
from dpicl.mechanisms.topic_words import TopicWords, list_words
from dpicl.models.simulated import SimulatedLM
from tests.examples import examples
from tests.mechanisms.adversarial import AdversarialModel
from tests.mechanisms.answering import TinyTask
from tests.samples import noisy_releases, private_set

WORDS = ("company", "market", "team", "river", "would", "law", "goal", "album", "actor")
MODEL = SimulatedLM(words=WORDS)
A = [
    "Company, company: the market",
    "market of a company",
    "the team. THE TEAM",
    "would the law",
    "",
]
B = ["a team by the river", "team", "an actor of the team"]


class Unasked(SimulatedLM):
    """Its tokenizer may be read, and nothing else."""

    def log_probs_after(self, prompt):
        pytest.fail("the model was asked")


class Run:
    """One release: made, ledger, counts (clean, of each label's choice)."""

    def __init__(self, mechanism, records, knob=1.0, shots=("a",), sizes=None, model=MODEL):
        sizes = sizes or Counter(label for _, label in records)
        private, self.ledger, public = private_set(
            [Record(text, label) for text, label in records], sizes
        )
        with noisy_releases() as releases:
            self.made = mechanism.release(
                private, Context(TinyTask(), model, tuple(shots), knob, public)
            )
        self.counts = [release.clean for release in releases]
        self.bounds = [release.bound for release in releases]


def label_with(label, texts):
    return [(text, label) for text in texts]


def test_the_public_list_is_of_words_without_stop_words():
    words = ["company", "market", "team", "river", "goal", "album", "actor"]
    assert list_words(SimulatedLM(words=(*WORDS, "q3rt"))) == words


def test_without_noise_the_words_are_those_of_most_records():
    run = Run(
        TopicWords(words=3),
        label_with("a", A),
        knob=0.0,
        shots=("a", "a"),
    )
    held = {word: sum(word in text.lower() for text in A) for word in list_words(MODEL)}
    (counts,) = run.counts
    assert counts.tolist() == [*held.values()]  # "Company, company" counts once
    assert run.made == [Demonstration("company market team", "a")] * 2


def test_words_that_several_labels_released_are_dropped():
    records = label_with("a", A) + label_with("b", B)
    run = Run(
        TopicWords(words=3),
        records,
        knob=0.0,
        shots=("b", "a", "b"),
    )
    b = Demonstration("river actor", "b")
    assert run.made == [b, Demonstration("company market", "a"), b]
    assert len(run.counts) == 2
    same = Run(
        TopicWords(words=3), label_with("a", A) + label_with("b", A), knob=0.0, shots=("a", "b")
    )
    assert [demonstration.text for demonstration in same.made] == ["", ""]


@given(
    st.lists(
        st.lists(
            st.sampled_from([*WORDS, "zebra", "@nan@"]),
            max_size=6,
        ),
        max_size=4,
    ),
    st.data(),
)
@settings(max_examples=examples(40), deadline=None)
def test_one_more_record_raises_each_count_by_one_at_most(records, data):
    added = data.draw(
        st.lists(
            st.sampled_from([*WORDS, "zebra"]),
            max_size=12,
        )
    )
    rows = label_with("a", map(" ".join, records)) + label_with("b", B)
    sizes = {"a": len(records) + 1, "b": len(B)}
    without, with_it = (
        Run(TopicWords(), more, shots=("a", "b"), sizes=sizes)
        for more in (rows, [*rows, (" ".join(added), "a")])
    )
    moves = [b - a for a, b in zip(without.counts, with_it.counts, strict=True)]
    assert set(moves[0].tolist()) <= {0.0, 1.0}
    assert np.ptp(moves[0]) <= without.bounds[0] == 1.0
    assert moves[0].sum() == len({*added} & {*list_words(MODEL)})
    assert not moves[1].any()


def test_k_choices_are_charged_a_label_whatever_the_shots():
    mechanism = TopicWords()
    for shots, size in (
        (("a",), 5),
        (("a",) * 4, 1000),
    ):
        run = Run(
            mechanism,
            label_with("a", A),
            knob=8.0,
            shots=shots,
            sizes={"a": size},
        )
        event = mechanism.events(
            8.0,
            Sizes(
                {"a": size},
                {"a": len(shots)},
            ),
        )
        assert compose([run.ledger.event()]) == compose([event])
        (branch,) = (each for _, each in event.branches)
        assert flatten(branch) == {BoundedRangeDpEvent(1 / 8): 12}
    two = mechanism.events(
        8.0,
        Sizes(
            {"a": 5, "b": 900},
            {"a": 1, "b": 3},
        ),
    )
    assert accountants.epsilon(two, 1e-5).upper == accountants.epsilon(event, 1e-5).upper
    assert accountants.epsilon(two, 1e-5).upper <= 12 / 8


def test_no_released_word_is_outside_the_public_list():
    model = Unasked(words=WORDS)
    run = Run(
        TopicWords(words=4), label_with("a", ["secret zebra company"] * 5), knob=0.0, model=model
    )
    assert run.made[0].text.split()[0] == "company"
    assert {*run.made[0].text.split()} <= {*list_words(model)}


def test_a_model_whose_tokens_are_no_words_is_refused():
    reason = TopicWords().unmet_needs(TinyTask("classification"), AdversarialModel())
    assert "adversarial" in reason and "4 letters" in reason
    assert TopicWords().unmet_needs(TinyTask("classification"), MODEL) is None
