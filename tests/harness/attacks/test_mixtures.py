"""Audits with known clean values against closed forms, slow obvious code, and repetitions of the whole sampling.

Tolerance as in test_lower_bounds: a number of misses that a 95% bound exceeds with probability 0.1%.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy import stats

from dpicl.attacks.audit_rules import Rule, as_it_is
from dpicl.attacks.lower_bounds import split_bounds
from dpicl.attacks.mixtures import bootstrap_bound, clean_share, exact_bound, exceedance
from dpicl.attacks.trade_offs import epsilon_of_mu
from dpicl.core.errors import UsageError

DELTA = 1e-5
SPLIT = 0.97  # how near the ideal audit must come


def ideal_votes(T: int, runs: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """yes - no of [1, T - 1] votes with the canary, and of [0, T] without."""
    return np.full(runs, 2.0 - T), np.full(runs, -1.0 * T)


def test_no_noise_is_a_decision() -> None:
    above = exceedance(np.array([0.0, 1.0]), 0.0, np.array([0.0, -1.0]))
    assert above.dtype == np.bool_
    assert above.tolist() == [[False, True], [True, True]]


@pytest.mark.parametrize("T", [2, 4, 10, 40])
def test_ideal_voting_audit_reaches_its_mu_from_below(T: int) -> None:
    """Noise of standard deviation s on each count: mu = sqrt(2)/s, whatever T."""
    s = 1.5290  # epsilon = 4 at delta = 1e-5
    mu = math.sqrt(2) / s
    votes = (*ideal_votes(T), s * math.sqrt(2), DELTA)
    exact = exact_bound(*votes)
    assert exact.gdp.mu == pytest.approx(mu, rel=1e-9)
    assert exact.gdp.epsilon == pytest.approx(4.0, abs=1e-3)
    assert exact.approximate.epsilon == pytest.approx(4.0, abs=1e-3)  # the grid finds the curve's own test
    bootstrap = bootstrap_bound(*votes, repeats=1)
    assert SPLIT * mu < bootstrap.split.gdp.mu < mu
    assert bootstrap.repeats[0].gdp.mu == pytest.approx(mu, rel=0.03)
    assert bootstrap.split.approximate.epsilon < 4.0


def test_conditional_approximate_bound_is_the_epsilon_of_a_subsampled_gaussian() -> None:
    """One clean value of ten is moved by 1: a Poisson sample at rate 0.1; both directions of its known curve."""
    members = np.array([1.0] + [0.0] * 9)
    truth = pld.from_gaussian_mechanism(0.8, value_discretization_interval=1e-4, sampling_prob=0.1)
    exact = exact_bound(members, np.zeros(10), 0.8, DELTA)
    assert exact.approximate.epsilon == pytest.approx(truth.get_epsilon_for_delta(DELTA), abs=1e-3)


def test_published_text_of_esa_cannot_reach_the_published_epsilon() -> None:
    """Nominal epsilon 8 by the classical noise for sensitivity 2/T, and answers 0.7476 apart: 2.52 at most, not 4."""
    T, distance = 10, 0.7476
    for delta, most in ((1e-5, 2.52), (1e-3, 2.36)):
        sd = 2 / T * math.sqrt(2 * math.log(1.25 / delta)) / 8
        conditional = exact_bound(np.full(8, distance / T), np.zeros(8), sd, delta)
        assert conditional.gdp.epsilon == pytest.approx(most, abs=0.005)


def test_a_split_of_the_runs_is_never_overstated_and_the_collected_runs_alone_are() -> None:
    """Clean values N(1, 0.5^2) against N(0, 0.5^2) and noise of 1: the truth over further runs is a Gaussian pair."""
    truth = 1 / math.hypot(1, 0.5)
    split, conditional = 0, 0
    for repetition in range(200):
        g = np.random.default_rng([3, repetition])
        members, others = g.normal(1, 0.5, 30), g.normal(0, 0.5, 30)
        rule = Rule({"score": as_it_is}, sd=1.0)
        split += split_bounds(members, others, rule.decide, rule.candidates, DELTA, 0.95, repetition).gdp.mu > truth
        conditional += exact_bound(members, others, 1.0, DELTA).gdp.mu > truth
    assert split <= stats.binom.ppf(0.999, 200, 0.05)
    assert conditional > 100


def test_published_choice_of_the_threshold_overstates_and_the_split_does_not() -> None:
    """Of 100 audits with small bootstraps of a Gaussian pair, at 95% each."""
    published, split = 0, 0
    for repetition in range(100):
        bounds = bootstrap_bound([1.0] * 4, [0.0] * 4, 1.0, DELTA, trials=1000, repeats=1, seed=repetition)
        published += bounds.repeats[0].gdp.mu > 1
        split += bounds.split.gdp.mu > 1
    allowed = stats.binom.ppf(0.999, 100, 0.05)
    assert split <= allowed
    assert published > split


def test_bootstrap_is_the_slow_search_over_all_thresholds() -> None:
    members, others, trials = np.array([0.0, 1.0, 2.0, 0.5]), np.array([0.0, -1.0, 0.3, 0.0]), 100
    fast = bootstrap_bound(members, others, 0.5, DELTA, trials=trials, repeats=1, seed=6).repeats[0]
    g = np.random.default_rng(6)
    noisy = [side[g.integers(4, size=trials)] + 0.5 * g.standard_normal(trials) for side in (members, others)]
    best = -math.inf
    for threshold in np.concatenate(noisy):
        tp, fp = (int((scores > threshold).sum()) for scores in noisy)
        tpr, fpr = (stats.binomtest(k, trials).proportion_ci(0.95, method="exact") for k in (tp, fp))
        above = stats.norm.ppf(tpr.low) - stats.norm.ppf(fpr.high)
        below = stats.norm.ppf(1 - tpr.high) - stats.norm.ppf(1 - fpr.low)
        best = max(best, above, below)
    assert fast.gdp.mu == pytest.approx(best, rel=1e-9)
    assert fast.gdp.epsilon == pytest.approx(epsilon_of_mu(best, DELTA), rel=1e-6)


def test_mean_over_repeats_is_reported_as_published_and_promises_nothing() -> None:
    bounds = bootstrap_bound([1.0] * 4, [0.0] * 4, 1.0, DELTA, trials=500, repeats=3)
    assert bounds.mean_epsilon == pytest.approx(np.mean([b.gdp.epsilon for b in bounds.repeats]))
    assert len({b.gdp.mu for b in bounds.repeats}) == 3


def test_without_noise_separated_runs_have_no_finite_bound() -> None:
    exact = exact_bound([1.0] * 40, [0.0] * 40, 0.0, DELTA)
    assert exact.gdp.mu == math.inf


def test_clean_share_is_the_spread_over_repeated_collections() -> None:
    """Standard deviations of mu at a fixed threshold, over 4000 collections and over 4000 bootstraps of one of them."""
    g, runs, trials, threshold = np.random.default_rng(7), 60, 500, 0.4

    def mu(share_in: np.ndarray, share_out: np.ndarray) -> np.ndarray:
        return stats.norm.ppf(share_in) - stats.norm.ppf(share_out)

    collections = g.normal([[[1.0]], [[0.0]]], 0.8, size=(2, 4000, runs))
    shares = stats.norm.sf(threshold, collections, 1.0).mean(axis=2)
    estimates = [clean_share(*collections[:, i], 1.0, threshold, trials) for i in range(50)]
    assert np.mean([e.clean_std for e in estimates]) == pytest.approx(float(mu(*shares).std()), rel=0.05)
    noisy = g.binomial(trials, shares[:, 0][:, None], size=(2, 4000)) / trials
    assert estimates[0].noise_std == pytest.approx(float(mu(*noisy).std()), rel=0.05)
    one = estimates[0]
    assert one.share == pytest.approx(one.clean_std**2 / (one.clean_std**2 + one.noise_std**2))


def test_equal_clean_values_leave_all_doubt_to_the_noise() -> None:
    assert clean_share(*ideal_votes(4), 2.0, -3.0).share == pytest.approx(0.0, abs=1e-20)


@pytest.mark.parametrize(
    "attempt",
    [
        lambda good: exact_bound(*good, -1.0, DELTA),
        lambda good: exact_bound(*good, math.inf, DELTA),
        lambda good: exact_bound(*good, 1.0, 1.0),
        lambda good: exact_bound([1.0, 2.0, 3.0], good[1], 1.0, DELTA),
        lambda good: exact_bound([1.0, 2.0, 3.0, math.inf], good[1], 1.0, DELTA),
        lambda good: exact_bound(np.ones((4, 2)), good[1], 1.0, DELTA),
        lambda good: bootstrap_bound(*good, -1.0, DELTA),
        lambda good: bootstrap_bound(*good, 1.0, DELTA, trials=3),
        lambda good: bootstrap_bound(*good, 1.0, DELTA, repeats=0),
        lambda good: clean_share(*good, 0.0, 99.0),
        lambda good: clean_share(*good, 1.0, 0.0, trials=0),
    ],
)
def test_senseless_audits_are_refused(attempt: Callable[[Any], object]) -> None:
    good = ([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 1.0, 2.0])
    exact_bound(*good, 1.0, DELTA)
    with pytest.raises(UsageError):
        attempt(good)
