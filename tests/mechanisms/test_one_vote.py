"""One vote: what a record moves, what is charged, and without noise the obvious slow answer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.core.vocabulary import Demonstration
from dpicl.mechanisms.one_vote import OneVote, find_places, find_votes
from dpicl.mechanisms.private_evolution import PrivateEvolution
from tests.mechanisms.answering import TinyTask
from tests.mechanisms.test_private_evolution import TEXTS, Run

SMALL = OneVote(candidates=6, tokens=6, embedding="sim")
RECORDS = ["", " ", "company", "river law", "the team", "@nan@"]


@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("others", [[], TEXTS])
def test_one_more_record_adds_one_to_one_count_at_most(record, others):
    size = {"a": len(others) + 1}
    without, with_it = (Run(SMALL, texts, sizes=size) for texts in (others, [*others, record]))
    moved = with_it.counts[0] - without.counts[0]
    assert sorted(moved.tolist()) == [0.0] * (len(moved) - 1) + [float(bool(record.strip()))]
    assert without.embedded[1] == with_it.embedded[1]


@given(
    st.integers(0, 4),
    st.integers(1, 5),
    st.integers(0, 2**32),
)
def test_a_vote_depends_on_its_own_record_alone(records, texts, seed):
    generator = np.random.default_rng(seed)
    public = generator.normal(size=(texts, 3))
    points = generator.normal(size=(records, 3))
    alone = [int(find_votes(point[None], public)[0]) for point in points]
    assert find_votes(points, public).tolist() == alone
    assert find_votes(
        np.zeros((1, 3)),
        public,
    ).tolist() == [-1]


def test_it_is_private_evolution_without_another_round():
    first = PrivateEvolution(rounds=1, candidates=3, variations=1, tokens=6, embedding="sim")
    one, other = (Run(mechanism, TEXTS, shots=("a", "a")) for mechanism in (SMALL, first))
    assert one.made == other.made and one.ledger.event() == other.ledger.event()
    assert one.counts[0].tolist() == other.counts[0].tolist()


def test_places_are_by_label_in_order():
    texts = [
        Demonstration(text, label)
        for text, label in (
            ("x", "a"),
            ("y", "b"),
            ("z", "a"),
        )
    ]
    assert find_places(texts, ["b", "a", "c"]) == [
        [1],
        [0, 2],
        [],
    ]


def test_only_an_input_with_its_output_is_none_of_its_texts():
    for kind in ("classification", "extraction", "continuation", "json"):
        assert SMALL.skip(TinyTask(kind)) is None
    assert "input with its output" in SMALL.skip(TinyTask("generation"))
