"""Exact losses: against closed forms, against brute force on tiny cases, and never above what is proved."""

import itertools
import math

import numpy as np
import pytest
from dp_accounting import dp_event as dp
from dp_accounting import gaussian_mechanism
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import ndtr, softmax

from dpicl.accounting import accountants
from dpicl.accounting.adversaries import WorstPair
from dpicl.accounting.events import AboveThresholdDpEvent
from dpicl.attacks import exact_pairs
from dpicl.attacks.exact_pairs import (
    SampleLoss,
    distance,
    exact_epsilon,
    label_only,
    label_only_ceiling,
    move,
    ordered_pair,
    require_same,
    sample_loss,
    winner_chances,
)
from dpicl.core.errors import UsageError
from dpicl.privacy.release_hooks import NoisyRelease
from tests.harness.accounting.makers import divergence, product

DELTA = 1e-5


def release(
    kind: str, *clean: float, bound: float = 1.0, scale: float = 1.0, count: int = 1
) -> NoisyRelease:
    return NoisyRelease(kind, np.array(clean, dtype=np.float64), bound, scale, count)


def brute_force(present: np.ndarray, absent: np.ndarray, delta: float) -> float:
    """The epsilon at delta of two distributions on the same outcomes, both directions."""
    ways = [(present, absent), (absent, present)]
    return max(
        0.0
        if divergence(p, q, 0.0) <= delta
        else float(
            brentq(
                lambda e, p=p, q=q: divergence(p, q, e) - delta,
                0.0,
                60.0,
            )
        )
        for p, q in ways
    )


@pytest.mark.parametrize(
    ("sigma", "rate", "count"),
    [
        (3.73, 1.0, 1),
        (0.94, 0.005, 1000),
        (1.0, 0.1, 20),
    ],
)
def test_a_canary_that_moves_all_shows_nearly_all_that_is_proved(sigma, rate, count):
    event = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma)), count)
    proved = accountants.epsilon(event, DELTA).upper
    shown = exact_epsilon([SampleLoss(rate, 1 / sigma)] * count, DELTA, proved)
    assert 0.97 * proved <= shown <= proved


@pytest.mark.parametrize("delta", [1e-5, 0.02])
@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_choices_agree_with_all_outcomes_counted_one_by_one(rate, delta):
    scores = [
        ((0.0, 0.4, -0.2), (0.3, 0.0, 0.1)),
        ((1.0, 0.0, 0.0), (0.2, 0.3, 0.0)),
    ]
    losses, pairs = [], []
    for with_it, without in scores:
        a = release("choice", *with_it, scale=0.5)
        b = release("choice", *without, scale=0.5)
        losses.append(sample_loss(rate, [(a, b), (b, b)]))
        p = softmax(a.clean / 0.5)
        q = softmax(b.clean / 0.5)
        pairs.append((rate * p + (1 - rate) * q, q))
    exact = brute_force(*product(pairs), delta)
    shown = exact_epsilon(losses, delta, exact)
    assert 0.98 * exact <= shown <= exact + 1e-9


def test_releases_from_one_sample_share_one_coin():
    """Two choices of one sample."""
    a = release("choice", 1.0, 0.0)
    b = release("choice", 0.0, 0.0)
    p, q = product(
        [
            (
                softmax(a.clean),
                softmax(b.clean),
            )
        ]
        * 2
    )
    together = brute_force(0.3 * p + 0.7 * q, q, DELTA)
    shown = exact_epsilon(
        [sample_loss(0.3, [(a, b), (a, b)])],
        DELTA,
        together,
    )
    assert 0.98 * together <= shown <= together + 1e-9


def test_an_outcome_of_one_world_alone_goes_into_delta():
    with_it = release("choice", 0.0, 0.0, -12.0)
    without = release("choice", 0.0, 0.0, -math.inf)
    mass = float(softmax(with_it.clean)[2])
    loss = [sample_loss(1.0, [(with_it, without)])]
    assert exact_epsilon(loss, mass / 2, 1.0) == math.inf
    assert exact_epsilon(loss, mass * 2, 1.0) < 0.1
    assert (
        exact_epsilon(
            [sample_loss(0.2, [(with_it, without)])],
            mass / 2,
            1.0,
        )
        < math.inf
    )


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_ordered_choices_agree_with_every_order(count):
    with_it = np.array([2.0, 1.0, 1.0, 0.0])
    without = np.array([1.0, 1.0, 1.0, 0.0])
    tau = 0.7

    def chances(scores: np.ndarray) -> np.ndarray:
        orders = []
        for order in itertools.permutations(range(4), count):
            left, chance = np.exp(scores / tau), 1.0
            for at in order:
                chance *= left[at] / left.sum()
                left[at] = 0.0
            orders.append(chance)
        return np.array(orders)

    exact = brute_force(chances(with_it), chances(without), 0.001)
    pair = ordered_pair(with_it, without, tau, count)
    assert pair.present.sum() == pytest.approx(1.0)
    assert pair.absent.sum() == pytest.approx(1.0)
    assert brute_force(pair.present, pair.absent, 0.001) == pytest.approx(exact, abs=1e-6)


def test_the_first_question_of_a_round_stays_below_its_proof():
    proved = accountants.epsilon(AboveThresholdDpEvent(0.7), DELTA).upper
    pair = release("threshold", 0.0, scale=1 / 0.7), release("threshold", -1.0, scale=1 / 0.7)
    assert 0 < exact_epsilon([sample_loss(1.0, [pair])], DELTA, proved) <= proved


def test_what_a_record_moves():
    assert move(release("gaussian", 3, 0), release("gaussian", 0, 4)) == 5
    assert (
        move(
            release("choice", 1.0, -1.0, -math.inf),
            release("choice", 0.0, 0.0, -math.inf),
        )
        == 2
    )
    assert move(release("choice", -math.inf), release("choice", 0.0)) == 0.0
    assert move(release("threshold", 0.2), release("threshold", 0.1)) == pytest.approx(0.1)
    assert move(release("threshold", 0.1), release("threshold", 0.2)) == math.inf
    for kind in ("gaussian", "choice", "threshold"):
        assert move(release(kind, math.nan), release(kind, 0.0)) == math.inf
    assert (
        distance(
            release("gaussian", 3.0, scale=2.0),
            release("gaussian", 0.0, scale=2.0),
        )
        == 1.5
    )
    assert (
        distance(release("gaussian", 3.0, scale=0.0), release("gaussian", 0.0, scale=0.0))
        == math.inf
    )


@pytest.mark.parametrize(
    "other",
    [
        release("gaussian", 0.0),
        release("choice", 0.0, 1.0),
        release("choice", 0, scale=2),
    ],
)
def test_releases_that_differ_beyond_their_values_are_refused(other):
    with pytest.raises(UsageError):
        require_same(release("choice", 0.0), other)


def test_no_noise_is_an_infinite_epsilon_and_no_move_is_none():
    bare = release("gaussian", 1.0, scale=0.0), release("gaussian", 0.0, scale=0.0)
    assert exact_epsilon([sample_loss(0.5, [bare])], DELTA, 1.0) == math.inf
    same = release("gaussian", 1.0), release("gaussian", 1.0)
    assert (
        exact_epsilon([sample_loss(0.5, [same])], DELTA, 1.0)
        == 0.0
        == exact_epsilon([], DELTA, 1.0)
    )


def test_an_infinite_claim_changes_nothing():
    losses = [SampleLoss(0.5, 1.0)]
    assert exact_epsilon(losses, 1e-5, math.inf) == pytest.approx(
        exact_epsilon(losses, 1e-5, 3.0), rel=0.01
    )


def test_the_winner_of_a_noisy_vote():
    assert winner_chances(np.array([1.0, 0.0]), 2.0)[0] == pytest.approx(
        ndtr(1 / (2 * math.sqrt(2))), abs=1e-9
    )
    noise = np.random.default_rng(0).normal(size=(200_000, 3)) + np.array([0.5, 0.0, -1.0])
    drawn = np.bincount(noise.argmax(axis=1), minlength=3) / len(noise)
    assert winner_chances(
        np.array([0.5, 0.0, -1.0]),
        1.0,
    ) == pytest.approx(drawn, abs=0.005)
    pair = label_only(
        1.0,
        release("gaussian", 1.0, 0.0),
        release("gaussian", 0.0, 1.0),
    ).pairs[0]
    assert isinstance(pair, WorstPair)
    assert pair.present[0] == pytest.approx(pair.absent[1])


@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_sums_beside_a_choice_on_one_sample_count_in_full(rate):
    choice = sample_loss(
        rate,
        [
            (
                release("choice", 0.0, 0.01),
                release("choice", 0.0, 0.0),
            )
        ],
    ).pairs
    alone = exact_epsilon([SampleLoss(rate, 2.0)], DELTA, 8.0)
    assert exact_epsilon([SampleLoss(rate, 2.0, choice)], DELTA, 8.0) > 0.9 * alone > 0


@given(st.floats(1e-5, 1e3))
def test_multipliers_are_never_rounded_up(mu):
    assert mu * (1 - 1e-4) <= exact_pairs._round_down(mu) <= mu


def test_no_winner_of_four_slots_shows_more_than_the_ceiling():
    """All clean votes for three labels, with abstentions, and every ballot that may be moved, added or taken away."""
    sd = math.sqrt(2) * gaussian_mechanism.get_sigma_gaussian(8.0, DELTA)
    all_votes = [votes for votes in itertools.product(range(5), repeat=3) if sum(votes) <= 4]
    chances = {
        votes: winner_chances(
            np.array(votes, dtype=float),
            sd,
        )
        for votes in all_votes
    }
    shown = [
        exact_pairs._one_shot(chances[one], chances[other], DELTA)
        for one, other in itertools.permutations(all_votes, 2)
        if max(np.abs(np.subtract(one, other))) == 1 and abs(sum(one) - sum(other)) <= 1
        if np.abs(np.subtract(one, other)).sum() <= 2
    ]
    assert max(shown) == pytest.approx(label_only_ceiling(sd, 4, 3, False, DELTA))
    assert label_only_ceiling(sd / math.sqrt(2), 4, 3, True, DELTA) < 8.0
