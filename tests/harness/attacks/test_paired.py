"""Bounds from pairs of runs: above the truth no more often than stated, close to it, better than separate limits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from dpicl.attacks.audit_rules import Rule, as_it_is
from dpicl.attacks.lower_bounds import split_bound
from dpicl.attacks.paired import paired_bound
from dpicl.attacks.trade_offs import epsilon_of_mu
from dpicl.core.errors import UsageError

DELTA = 1e-5
#: More failures than this in 200 repetitions have a probability below 1e-3 where each has 5%.
MOST_FAILURES = 20


def gaussian_pair(generator: np.random.Generator, runs: int, mu: float, flips: float, spread: float):
    """Clean scores of coupled runs: a common part, and a shift of mu (in units of the noise) in a share of them."""
    common = generator.normal(scale=spread, size=runs)
    return common + mu * (generator.random(runs) < flips), common


def bound_of(members, others, gaussian, sd=1.0, confidence=0.95, seed=0, by=paired_bound):
    rule = Rule({"score": as_it_is}, sd)
    return by(members, others, rule.decide, rule.candidates, DELTA, confidence, seed, gaussian)


@pytest.mark.parametrize("gaussian", [True, False])
def test_null_runs_give_zero_but_for_the_stated_share(gaussian) -> None:
    generator = np.random.default_rng(0)
    pairs = [(generator.normal(size=60), generator.normal(size=60)) for _ in range(200)]
    found = [bound_of(*pair, gaussian, sd=0.5, seed=seed) for seed, pair in enumerate(pairs)]
    assert sum(each.epsilon > 0 for each in found) <= MOST_FAILURES


@pytest.mark.parametrize(("mu", "flips"), [(0.654, 1.0), (2.0, 0.5)])
def test_the_bound_stays_below_what_is_true(mu: float, flips: float) -> None:
    """Coverage over 200 repetitions: the ideal pair has mu itself, and a mixture never more."""
    generator = np.random.default_rng(1)
    over = 0
    for repetition in range(200):
        pair = gaussian_pair(generator, 60, mu, flips, 0.3)
        over += bound_of(*pair, True, seed=repetition).mu > mu
        assert bound_of(*pair, False, seed=repetition).epsilon <= epsilon_of_mu(mu, DELTA)
    assert over <= MOST_FAILURES


def test_the_level_is_spent_where_the_truth_is_tight() -> None:
    """At a low confidence some of 200 bounds of the true mean difference must fail: the test could."""
    generator = np.random.default_rng(2)
    failures = 0
    for repetition in range(200):
        shift = np.where(generator.random(40) < 0.5, 2.0, 0.0)  # the mean exceedance is that of a mixture
        found = bound_of(shift, np.zeros(40), True, confidence=0.5, seed=repetition)
        p = (ndtr(2.0 - found.decision.threshold) + ndtr(-found.decision.threshold)) / 2
        q = ndtr(-found.decision.threshold)
        if found.decision.side == "below":
            p, q = 1 - p, 1 - q
        failures += found.limit > p - np.exp(found.slope) * q
    assert 0 < failures <= 125  # 100 expected at most; 125 is 3.5 standard deviations above


def test_many_pairs_come_close_to_the_truth_and_closer_than_separate_limits() -> None:
    pair = gaussian_pair(np.random.default_rng(3), 2_000, 0.654, 1.0, 0.1)
    separate, paired = (
        [bound_of(*pair, g, by=by).epsilon for g in (True, False)] for by in (split_bound, paired_bound)
    )
    truth = epsilon_of_mu(0.654, DELTA)
    assert separate[0] < paired[0] <= truth
    assert paired[0] > 0.85 * truth
    assert paired[1] > 0.9 * separate[1]


def test_swapping_labels_and_scores_changes_nothing() -> None:
    members, others = gaussian_pair(np.random.default_rng(4), 100, 2.0, 1.0, 0.3)
    straight, swapped = bound_of(members, others, True), bound_of(-others, -members, True)
    assert straight.mu == pytest.approx(swapped.mu, rel=0.02)
    below = bound_of(others, members, True)  # now small scores speak for membership
    assert below.decision.side == "below"
    assert below.mu == pytest.approx(straight.mu, rel=0.02)


def test_a_subsampled_pair_is_bounded_by_its_rates() -> None:
    """The canary is in one run of ten, with hardly any noise: a Gaussian bound would not be one on epsilon."""
    generator = np.random.default_rng(5)
    truth_at_zero_fpr = np.log((0.1 - DELTA) / ndtr(-4.0))
    for repetition in range(50):
        members = np.where(generator.random(200) < 0.1, 8.0, 0.0)
        found = bound_of(members, np.zeros(200), False, seed=repetition)
        assert found.epsilon <= truth_at_zero_fpr
    assert found.epsilon > 0.5


def test_sides_must_be_pairs() -> None:
    with pytest.raises(UsageError, match="as many runs"):
        bound_of(np.zeros(10), np.zeros(12), True)
