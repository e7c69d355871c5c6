"""The bound of one run by a curve: against the linear programme that it solves, against mechanisms whose right guesses
have known chances, and its power beside (epsilon, delta)."""

import math

import numpy as np
import pytest
from dp_accounting import gaussian_mechanism
from scipy import stats
from scipy.optimize import linprog
from scipy.special import ndtr

from dpicl.accounting import dp_event as dp
from dpicl.attacks.one_run import guess_by_rules
from dpicl.attacks.trade_off import TradeOff, curve_bound, curve_of, is_refuted

DELTA = 1e-5


def gaussians(multiplier):
    return lambda factor: [dp.GaussianDpEvent(multiplier * factor)]


def largest_tail(curve, candidates, guesses, correct):
    """The most that P[W >= c] can be under what the curve says of every number of right guesses."""
    sizes = np.arange(guesses + 1)
    rows, limits = [], []
    for a in range(1, guesses + 1):
        right = np.where(sizes >= a, sizes, 0) / candidates
        wrong = np.where(sizes >= a - 1, guesses - sizes, 0) / candidates
        for epsilon, delta in zip(curve.epsilons, curve.deltas, strict=True):
            rows += [
                right - math.exp(epsilon) * wrong,
                right - math.exp(-epsilon) * wrong,
            ]
            limits += [delta, 1 - math.exp(-epsilon) * (1 - delta)]
    solution = linprog(
        -1.0 * (sizes >= correct),
        rows,
        limits,
        np.ones((1, guesses + 1)),
        [1.0],
    )
    return -solution.fun


@pytest.mark.parametrize("candidates", [6, 9])
@pytest.mark.parametrize(
    "curve",
    [
        ([0.7], [0.0]),
        ([0.0, 0.5, 1.5], [0.3, 0.1, 0.01]),
    ],
)
def test_it_refutes_what_the_linear_programme_cannot_reach(curve, candidates):
    curve = TradeOff(*map(np.array, curve))
    for correct in range(1, 7):
        most = largest_tail(curve, candidates, 6, correct)
        assert not is_refuted(curve, candidates, 6, correct, most * (1 - 1e-6))
        assert most > 1 - 1e-4 or is_refuted(
            curve,
            candidates,
            6,
            correct,
            most * (1 + 1e-4),
        )


@pytest.mark.parametrize("multiplier", [0.3, 1.0, 4.0])
def test_no_tail_of_a_gaussian_is_refuted_by_its_own_curve(multiplier):
    """Exactly: every record with noise of its own, guessed by which half it is in."""
    curve = curve_of(gaussians(multiplier)(1.0))
    for number in (1, 5, 20, 80):
        tails = stats.binom.sf(np.arange(number), number, ndtr(0.5 / multiplier))
        assert not any(
            is_refuted(curve, number, number, at + 1, tail) for at, tail in enumerate(tails)
        )


def test_no_tail_of_telling_all_with_chance_delta_is_refuted():
    """Guesses about records are as dependent as they can be."""
    curve = TradeOff(np.zeros(1), np.array([0.03]))
    tails = 0.03 + 0.97 * stats.binom.sf(np.arange(30), 30, 0.5)
    assert not any(is_refuted(curve, 30, 30, at + 1, tail) for at, tail in enumerate(tails))
    assert is_refuted(curve, 30, 30, 30, 0.04)


def test_a_perfect_attack_shows_twice_what_epsilon_and_delta_can():
    inside = np.arange(100) % 2 == 0
    runs = guess_by_rules(inside.astype(float), inside, DELTA)
    assert max(run.epsilon for run in runs) == pytest.approx(3.04)
    little, much = (curve_bound(gaussians(multiplier), runs, DELTA) for multiplier in (0.5, 2.0))
    assert 6.0 < little < 6.2 and much == pytest.approx(little, rel=0.01)


def test_a_blind_attack_shows_nothing_and_asks_no_accountant():
    inside = np.arange(40) % 2 == 0
    runs = guess_by_rules(np.zeros(40), inside, DELTA)
    assert curve_bound(lambda factor: pytest.fail("no curve is needed"), runs, DELTA) == 0.0


@pytest.mark.slow
def test_a_sound_gaussian_is_refuted_in_5_percent_at_most():
    multiplier, generator = (
        gaussian_mechanism.get_sigma_gaussian(8.0, DELTA),
        np.random.default_rng(3),
    )
    curve = curve_of(gaussians(multiplier)(1.0))
    refuted, by_delta, by_curve = 0, [], []
    for number in range(400):
        inside = generator.random(100) < 0.5
        runs = guess_by_rules(inside / multiplier + generator.normal(size=100), inside, DELTA)
        refuted += any(
            is_refuted(curve, run.candidates, run.guesses, run.correct, 0.01) for run in runs
        )
        if number < 20:
            by_delta.append(max(run.epsilon for run in runs))
            by_curve.append(curve_bound(gaussians(multiplier), runs, DELTA))
    assert refuted <= stats.binom.isf(1e-3, 400, 0.05)
    assert max(by_curve) <= 8.0
    assert np.mean(by_curve) > 1.5 * np.mean(by_delta) > 0
