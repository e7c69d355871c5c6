"""Bounds from pairs of runs: above the truth no more often than stated, close to it, better than separate limits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from dpicl.attacks.audit_rules import Rule, as_it_is
from dpicl.attacks.lower_bounds import split_bounds
from dpicl.attacks.paired import paired_bounds
from dpicl.attacks.trade_offs import epsilon_of_mu
from dpicl.core.errors import UsageError

DELTA = 1e-5
#: More failures than this in 200 repetitions have a probability below 1e-3 where each has 5%.
MOST_FAILURES = 20


def gaussian_pair(generator: np.random.Generator, runs: int, mu: float, flips: float, spread: float):
    """Clean scores of coupled runs: a common part, and a shift of mu (in units of the noise) in a share of them."""
    common = generator.normal(scale=spread, size=runs)
    return common + mu * (generator.random(runs) < flips), common


def bounds_of(members, others, sd=1.0, confidence=0.95, seed=0):
    rule = Rule({"score": as_it_is}, sd)
    return paired_bounds(members, others, rule.decide, rule.candidates, DELTA, confidence, seed)


def test_null_runs_give_zero_but_for_the_stated_share() -> None:
    generator = np.random.default_rng(0)
    above = {"gdp": 0, "approximate": 0}
    for repetition in range(200):
        members, others = generator.normal(size=60), generator.normal(size=60)
        found = bounds_of(members, others, sd=0.5, seed=repetition)
        above["gdp"] += found.gdp.epsilon > 0
        above["approximate"] += found.approximate.epsilon > 0
    assert max(above.values()) <= MOST_FAILURES


@pytest.mark.parametrize(("mu", "flips"), [(0.654, 1.0), (2.0, 0.5)])
def test_the_bound_stays_below_what_is_true(mu: float, flips: float) -> None:
    """Coverage over 200 repetitions: the ideal pair has mu itself, and a mixture never more."""
    generator = np.random.default_rng(1)
    over = 0
    for repetition in range(200):
        found = bounds_of(*gaussian_pair(generator, 60, mu, flips, 0.3), seed=repetition)
        over += found.gdp.mu > mu
        assert found.approximate.epsilon <= epsilon_of_mu(mu, DELTA)
    assert over <= MOST_FAILURES


def test_the_level_is_spent_where_the_truth_is_tight() -> None:
    """At a low confidence some of 200 bounds of the true mean difference must fail: the test could."""
    generator = np.random.default_rng(2)
    failures = 0
    for repetition in range(200):
        shift = np.where(generator.random(40) < 0.5, 2.0, 0.0)  # the mean exceedance is that of a mixture
        found = bounds_of(shift, np.zeros(40), confidence=0.5, seed=repetition)
        p = (ndtr(2.0 - found.gdp.decision.threshold) + ndtr(-found.gdp.decision.threshold)) / 2
        q = ndtr(-found.gdp.decision.threshold)
        if found.gdp.decision.side == "below":
            p, q = 1 - p, 1 - q
        failures += found.gdp.limit > p - np.exp(found.gdp.slope) * q
    assert 0 < failures <= 125  # 100 expected at most; 125 is 3.5 standard deviations above


def test_many_pairs_come_close_to_the_truth_and_closer_than_separate_limits() -> None:
    members, others = gaussian_pair(np.random.default_rng(3), 2_000, 0.654, 1.0, 0.1)
    rule = Rule({"score": as_it_is}, 1.0)
    separate = split_bounds(members, others, rule.decide, rule.candidates, DELTA, 0.95, 0)
    paired = bounds_of(members, others)
    truth = epsilon_of_mu(0.654, DELTA)
    assert separate.gdp.epsilon < paired.gdp.epsilon <= truth
    assert paired.gdp.epsilon > 0.85 * truth
    assert paired.approximate.epsilon > 0.9 * separate.approximate.epsilon


def test_swapping_labels_and_scores_changes_nothing() -> None:
    members, others = gaussian_pair(np.random.default_rng(4), 100, 2.0, 1.0, 0.3)
    straight, swapped = bounds_of(members, others), bounds_of(-others, -members)
    assert straight.gdp.mu == pytest.approx(swapped.gdp.mu, rel=0.02)
    below = bounds_of(others, members)  # now small scores speak for membership
    assert below.gdp.decision.side == "below"
    assert below.gdp.mu == pytest.approx(straight.gdp.mu, rel=0.02)


def test_a_subsampled_pair_is_bounded_by_its_rates() -> None:
    """The canary is in one run of ten, with hardly any noise: a Gaussian bound would not be one on epsilon."""
    generator = np.random.default_rng(5)
    truth_at_zero_fpr = np.log((0.1 - DELTA) / ndtr(-4.0))
    for repetition in range(50):
        members = np.where(generator.random(200) < 0.1, 8.0, 0.0)
        found = bounds_of(members, np.zeros(200), seed=repetition).approximate
        assert found.epsilon <= truth_at_zero_fpr
    assert found.epsilon > 0.5


def test_sides_must_be_pairs() -> None:
    with pytest.raises(UsageError, match="as many runs"):
        bounds_of(np.zeros(10), np.zeros(12))
