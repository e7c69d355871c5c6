"""One vote: what a record moves, what is charged, and without noise the obvious slow answer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.accounting import accountants
from dpicl.accounting.events import compose
from dpicl.accounting.gaussians import exact_epsilon
from dpicl.core.vocabulary import Demonstration, Sizes
from dpicl.mechanisms.one_vote import OneVote, find_places, find_votes
from dpicl.mechanisms.private_evolution import PrivateEvolution
from dpicl.models.embeddings import embed_alone
from dpicl.models.simulated import SimulatedLM
from tests.mechanisms.answering import TinyTask
from tests.mechanisms.test_private_evolution import TEXTS, Run

SMALL = OneVote(candidates=6, tokens=6, embedding="sim")
RECORDS = ["", " ", "company", "river law", "the team", "@nan@"]


def test_without_noise_the_texts_are_those_with_most_of_a_slow_vote():
    run = Run(SMALL, TEXTS, knob=0.0, shots=("a",) * 3)
    records, texts = run.embedded
    assert records == TEXTS
    points, public = embed_alone(records, "sim"), embed_alone(texts, "sim")
    votes = [
        min(range(len(texts)), key=lambda at: ((point - public[at]) ** 2).sum()) for point in points
    ]
    (counts,) = run.counts
    assert counts.tolist() == [votes.count(at) for at in range(len(texts))]
    best = sorted(range(len(texts)), key=lambda at: -votes.count(at))[:3]
    assert [made.text for made in run.made] == [texts[at] for at in best]


@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("others", [[], TEXTS])
def test_one_more_record_adds_one_to_one_count_at_most_and_changes_no_candidate(record, others):
    size = {"a": len(others) + 1}
    without, with_it = (Run(SMALL, texts, sizes=size) for texts in (others, [*others, record]))
    moved = with_it.counts[0] - without.counts[0]
    assert sorted(moved.tolist()) == [0.0] * (len(moved) - 1) + [float(bool(record.strip()))]
    assert without.embedded[1] == with_it.embedded[1]


@given(st.integers(0, 4), st.integers(1, 5), st.integers(0, 2**32))
def test_a_vote_depends_on_its_own_record_alone(records, texts, seed):
    generator = np.random.default_rng(seed)
    public, points = generator.normal(size=(texts, 3)), generator.normal(size=(records, 3))
    alone = [int(find_votes(point[None], public)[0]) for point in points]
    assert find_votes(points, public).tolist() == alone
    assert find_votes(np.zeros((1, 3)), public).tolist() == [-1]


def test_the_ledger_is_one_gaussian_whatever_the_shots_texts_and_sizes():
    for shots, size in ((("a",), 6), (("a",) * 8, 1000)):
        run = Run(SMALL, TEXTS, shots=shots, sizes={"a": size})
        assert len(run.made) == len(shots) and len(run.counts) == 1
        event = SMALL.events(1.0, Sizes({"a": size}, {"a": len(shots)}))
        assert compose([run.ledger.event()]) == compose([event])
        assert accountants.epsilon(event, 1e-5).upper == pytest.approx(
            exact_epsilon(1.0, 1e-5), rel=1e-9
        )


def test_it_is_private_evolution_without_another_round():
    first = PrivateEvolution(rounds=1, candidates=3, variations=1, tokens=6, embedding="sim")
    one, other = (Run(mechanism, TEXTS, shots=("a", "a")) for mechanism in (SMALL, first))
    assert one.made == other.made and one.ledger.event() == other.ledger.event()
    assert one.counts[0].tolist() == other.counts[0].tolist()


def test_labels_that_are_no_groups_share_one_histogram():
    run = Run(SMALL, TEXTS, shots=("a", "b"), grouped=False)
    assert [made.label for made in run.made] == ["a", "b"] and len(run.counts) == 1
    assert compose([run.ledger.event()]) == compose(
        [SMALL.events(1.0, Sizes({None: 6}, {None: 2}))]
    )


def test_places_are_by_label_in_order():
    texts = [Demonstration(text, label) for text, label in (("x", "a"), ("y", "b"), ("z", "a"))]
    assert find_places(texts, ["b", "a", "c"]) == [[1], [0, 2], []]


def test_no_private_record_is_in_a_prompt():
    class Listening(SimulatedLM):
        heard = ""

        def log_probs_after(self, prompt):
            Listening.heard += self.decode(prompt)
            return super().log_probs_after(prompt)

    Run(SMALL, ["zqxjk"], model=Listening())
    assert Listening.heard and "zqxjk" not in Listening.heard


def test_only_an_input_with_its_output_is_none_of_its_texts():
    for kind in ("classification", "extraction", "continuation", "json"):
        assert SMALL.skip(TinyTask(kind)) is None
    assert "input with its output" in SMALL.skip(TinyTask("generation"))
