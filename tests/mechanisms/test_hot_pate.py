"""Hot PATE: what one slot's vote is distributed as, how slots agree, and where the shared randomness comes from."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpicl.mechanisms import hot_pate
from dpicl.mechanisms.hot_pate import HotPATE, coordinated_ballots
from tests.examples import examples
from tests.harness.accounting.makers import WILD
from tests.mechanisms.adversarial import run

RECORDS = [f"record number {i}" for i in range(12)]


def ballots(weights, draws, seed=0):
    """[draws, M]: what every row votes for, with as many draws of the shared randomness."""
    generator, weights = np.random.default_rng(seed), np.array(weights)
    shared = generator.exponential(size=(draws, weights.shape[1]))
    return np.array([coordinated_ballots(weights, u).argmax(axis=1) for u in shared])


@pytest.mark.parametrize(
    "weights",
    [
        [0.5, 0.3, 0.15, 0.05],
        [0.97, 0.01, 0.01, 0.01],
        [0.4, 0.2, 0.0, 0.4],
    ],
)
def test_a_vote_is_a_draw_from_the_slots_own_distribution(weights):
    drawn = np.bincount(
        ballots([weights, [0.25] * 4], 6000)[:, 0],
        minlength=4,
    )
    positive = np.array(weights) > 0
    assert drawn[~positive].sum() == 0
    assert (
        stats.chisquare(
            drawn[positive],
            6000 * np.array(weights)[positive],
        ).pvalue
        > 1e-4
    )


def test_equal_distributions_vote_alike_and_close_ones_nearly():
    p = np.array([0.4, 0.3, 0.2, 0.1])
    near = np.array([0.38, 0.32, 0.2, 0.1])
    votes = ballots([p, 7 * p, near], 4000)
    assert (votes[:, 0] == votes[:, 1]).all()
    agree = (votes[:, 0] == votes[:, 2]).mean()
    distance = np.abs(p - near).sum() / 2
    assert agree > (1 - distance) / (1 + distance) - 0.02  # of weighted min-wise samples
    assert agree > np.square(p).sum() + 0.5  # independent draws agree that rarely
    assert len(np.unique(votes[:, 0])) == 4


@given(
    st.lists(
        st.lists(WILD, min_size=3, max_size=3),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 99),
)
@settings(max_examples=examples(200), deadline=None)
def test_every_row_has_one_vote_or_none_by_itself(rows, seed):
    rows = np.array(rows)
    shared = np.random.default_rng(seed).exponential(size=3)
    votes = coordinated_ballots(rows, shared)
    assert set(votes.ravel()) <= {0.0, 1.0}
    some = (np.where(np.isfinite(rows), rows, 0) > 0).any(axis=1)
    np.testing.assert_array_equal(votes.sum(axis=1), some.astype(float))
    for at in range(len(rows)):
        np.testing.assert_array_equal(
            coordinated_ballots(rows[[at]], shared)[0],
            votes[at],
        )


def shared_randomness(monkeypatch, mechanism, texts, **settings):
    draws, original = list[np.ndarray](), hot_pate.coordinated_ballots

    def note(weights, shared):
        draws.append(shared)
        return original(weights, shared)

    with monkeypatch.context() as patch:
        patch.setattr(hot_pate, "coordinated_ballots", note)
        run(mechanism, texts, **settings)
    return draws


def test_the_shared_randomness_is_public_and_fresh(monkeypatch):
    mechanism = HotPATE(slots=4, tokens=3, top_k=8)
    first = shared_randomness(monkeypatch, mechanism, RECORDS, shots=("a", "a"), knob=0.0)
    assert len({tuple(u) for u in first}) == len(first) > 2
    other = shared_randomness(monkeypatch, mechanism, ["nothing alike"] * 12, knob=50.0)
    np.testing.assert_array_equal(first[0], other[0])
    assert not np.array_equal(
        first[0], shared_randomness(monkeypatch, mechanism, RECORDS, seed=1)[0]
    )
