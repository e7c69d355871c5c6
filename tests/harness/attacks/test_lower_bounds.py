"""The promises of an audit's bound: above the truth no more often than stated, close to it, and equal for equal runs.

Tolerance: of 200 repetitions at 95% confidence, a valid bound exceeds the truth more than MOST_MISSES times with
probability 0.1% (binomial, 5% each).
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.special import ndtr
from scipy.stats import binom

from dpicl.attacks.audit_rules import Rule
from dpicl.attacks.lower_bounds import halves, lower_bound
from dpicl.attacks.trade_offs import epsilon_of_mu
from dpicl.core.errors import UsageError

REPETITIONS = 200
MOST_MISSES = int(binom.ppf(0.999, REPETITIONS, 0.05))
DELTA = 1e-5


def generators() -> list[np.random.Generator]:
    return [np.random.default_rng([11, repetition]) for repetition in range(REPETITIONS)]


def known_noise(members, others, gaussian, confidence=0.95, seed=0, sd=1.0):
    """Of clean scores, to which N(0, sd^2) is added."""
    return lower_bound(members, others, DELTA, confidence, seed, gaussian=gaussian, rule=Rule(sd=sd))


def coupled(generator, runs, mu, flips, spread):
    """Clean scores of coupled runs: a common part, and a shift of mu (in units of the noise) in a share of them."""
    common = generator.normal(scale=spread, size=runs)
    return common + mu * (generator.random(runs) < flips), common


@pytest.mark.parametrize("gaussian", [True, False])
@pytest.mark.parametrize("digits", [8, 0], ids=["continuous", "many_ties"])
@pytest.mark.parametrize("confidence", [0.95, 0.5])  # at 50% an uncorrected choice of the threshold shows at once
def test_null_scores_give_zero(digits, confidence, gaussian) -> None:
    positive = 0
    for repetition, g in enumerate(generators()):
        scores = g.normal(size=(2, 60)).round(digits)
        positive += lower_bound(*scores, DELTA, confidence, repetition, gaussian=gaussian).epsilon > 0
    assert positive <= binom.ppf(0.999, REPETITIONS, 1 - confidence)


@pytest.mark.parametrize(("mu", "flips"), [(0.654, 1.0), (2.0, 0.5)])
def test_the_bound_stays_below_what_is_true(mu, flips) -> None:
    """Of known noise: the ideal pair has mu itself, and a mixture never more."""
    over = 0
    for repetition, generator in enumerate(generators()):
        pair = coupled(generator, 60, mu, flips, 0.3)
        over += known_noise(*pair, True, seed=repetition).mu > mu
        assert known_noise(*pair, False, seed=repetition).epsilon <= epsilon_of_mu(mu, DELTA)
    assert over <= MOST_MISSES


def test_decisions_on_noisy_scores_stay_below_what_is_true_and_have_power() -> None:
    mu, rate, noise = 1.5, 0.1, 0.5
    distribution = pld.from_gaussian_mechanism(noise, value_discretization_interval=1e-4, sampling_prob=rate)
    truth, found = distribution.get_epsilon_for_delta(DELTA), []
    for repetition, g in enumerate(generators()[::2]):
        whole = lower_bound(g.normal(mu, 1, 300), g.normal(0, 1, 300), DELTA, seed=repetition, gaussian=True)
        sampled = (g.random(1000) < rate) + noise * g.normal(size=1000), noise * g.normal(size=1000)
        found.append((whole.mu, lower_bound(*sampled, DELTA, seed=repetition).epsilon))
    assert sum(own > mu for own, _ in found) <= MOST_MISSES and sum(own > truth for _, own in found) <= MOST_MISSES
    assert np.mean(found, axis=0)[0] > 0.6 * mu and np.mean(found, axis=0)[1] > 0.5


def test_randomised_response_is_overstated_by_the_gaussian_bound_only() -> None:
    """Why the kind of release must be said: ln 3 is its true epsilon, whatever delta."""
    truth = math.log(3)
    found: dict[bool, list[float]] = {True: [], False: []}
    for repetition, g in enumerate(generators()[::2]):
        members, others = (g.random(500) < 0.75).astype(float), (g.random(500) < 0.25).astype(float)
        for gaussian, own in found.items():
            own.append(lower_bound(members, others, DELTA, seed=repetition, gaussian=gaussian).epsilon)
    assert sum(value > truth for value in found[False]) <= MOST_MISSES
    assert np.mean(found[False]) > 0.5 * truth
    assert np.min(found[True]) > truth


def test_the_level_is_spent_where_the_truth_is_tight() -> None:
    """At a low confidence some of 200 bounds of the true mean difference must fail: the test could."""
    generator = np.random.default_rng(2)
    failures = 0
    for repetition in range(200):
        shift = np.where(generator.random(40) < 0.5, 2.0, 0.0)  # the mean exceedance is that of a mixture
        found = known_noise(shift, np.zeros(40), True, confidence=0.5, seed=repetition)
        p = (ndtr(2.0 - found.decision.threshold) + ndtr(-found.decision.threshold)) / 2
        q = ndtr(-found.decision.threshold)
        if found.decision.side == "below":
            p, q = 1 - p, 1 - q
        failures += found.limit > p - np.exp(found.slope) * q
    assert 0 < failures <= 125  # 100 expected at most; 125 is 3.5 standard deviations above


def test_many_pairs_come_close_to_the_truth() -> None:
    pair = coupled(np.random.default_rng(3), 2_000, 0.654, 1.0, 0.1)
    truth = epsilon_of_mu(0.654, DELTA)
    assert 0.85 * truth < known_noise(*pair, True).epsilon <= truth
    assert 0 < known_noise(*pair, False).epsilon <= truth


def test_a_subsampled_pair_is_bounded_by_its_rates() -> None:
    """The canary is in one run of ten, with hardly any noise: a Gaussian bound would not be one on epsilon."""
    truth_at_zero_fpr = np.log((0.1 - DELTA) / ndtr(-4.0))
    for repetition, generator in enumerate(generators()[:50]):
        members = np.where(generator.random(200) < 0.1, 8.0, 0.0)
        found = known_noise(members, np.zeros(200), False, seed=repetition)
        assert found.epsilon <= truth_at_zero_fpr
    assert found.epsilon > 0.5


@pytest.mark.parametrize("gaussian", [True, False])
def test_swapped_labels_and_mirrored_scores_change_nothing(gaussian) -> None:
    g = np.random.default_rng(4)
    members, others = g.normal(1.2, 1, 150), g.normal(0, 2, 150)
    one, two, three = (
        lower_bound(*sides, DELTA, gaussian=gaussian)
        for sides in ((members, others), (others, members), (-members, -others))
    )
    assert one.epsilon > 0
    assert (two.epsilon, three.epsilon) == pytest.approx((one.epsilon, one.epsilon), rel=0.02)
    assert one.decision.side != two.decision.side == three.decision.side


def test_equal_scores_fall_on_the_same_side() -> None:
    same = lower_bound([1.0] * 50, [1.0] * 50, DELTA)
    assert same.epsilon == 0.0
    assert same.decision.tpr == same.decision.fpr == (0.0 if same.decision.side == "above" else 1.0)
    half = np.array([0.0, 1.0] * 100)
    bound = lower_bound(half + 1, half, DELTA)  # 1 or 2 against 0 or 1: no rule parts the ones
    assert bound.epsilon > 0
    assert 1.0 in (bound.decision.tpr, 1 - bound.decision.fpr)
    assert min(bound.decision.tpr, 1 - bound.decision.fpr) == pytest.approx(0.5, abs=0.15)


def test_the_runs_that_did_not_choose_give_the_rates() -> None:
    g = np.random.default_rng(8)
    members, others = g.normal(-1, 1, 301).round(1), g.normal(0, 1, 301).round(1)
    bound = lower_bound(members, others, DELTA, seed=3).decision
    assert bound.side == "below"
    judging_in, judging_out = (halves(side, 3)[1] for side in (members, others))
    assert bound.tpr == pytest.approx(float((judging_in <= bound.threshold).mean()))
    assert bound.fpr == pytest.approx(float((judging_out <= bound.threshold).mean()))
    assert bound.tpr_lower < bound.tpr and bound.fpr < bound.fpr_upper
    assert bound.trials_in == bound.trials_out == 151


def test_infinite_scores_are_scores() -> None:
    """The log-probability of an impossible text is -inf."""
    members, others = np.r_[np.zeros(100), np.inf], np.r_[np.full(100, -np.inf), 0.0]
    assert 2 < lower_bound(members, others, DELTA).epsilon < math.inf


def test_without_noise_a_run_is_a_decision() -> None:
    found = Rule(sd=0.0).decide(np.array([0.0, 1.0]), np.array([0.0, -1.0]))
    assert found.dtype == np.bool_ and found.tolist() == [[False, True], [True, True]]


@pytest.mark.parametrize(
    "wrong",
    [
        {"members": [1.0, 2, 3], "others": [1.0, 2, 3]},
        {"others": [1.0, 2, 3, 4, 5]},
        {"members": [1.0, 2, 3, math.nan]},
        {"delta": 1.0},
        {"confidence": 1.0},
        {"confidence": 0.0},
    ],
)
def test_senseless_audits_are_refused(wrong) -> None:
    good = {"members": [1.0, 2, 3, 4], "others": [0.0, 1, 2, 3], "delta": DELTA}
    lower_bound(**good)
    with pytest.raises(UsageError):
        lower_bound(**{**good, **wrong})
