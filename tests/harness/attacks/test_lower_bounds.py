"""The promises of an audit's bound: validity over repetitions, closed forms, and what it must not depend on.

Tolerance: of 200 repetitions at 95% confidence, a valid bound exceeds the truth more than MOST_MISSES times with
probability 0.1% (binomial, 5% each).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.stats import binom

from dpicl.attacks.audit_rules import Rule, as_it_is
from dpicl.attacks.lower_bounds import audit_bound, exact_bound, exceedance, halves, split_bound
from dpicl.attacks.trade_offs import epsilon_of_mu
from dpicl.core.errors import UsageError

REPETITIONS = 200
MOST_MISSES = int(binom.ppf(0.999, REPETITIONS, 0.05))
DELTA = 1e-5


def generators() -> list[np.random.Generator]:
    return [np.random.default_rng([11, repetition]) for repetition in range(REPETITIONS)]


@pytest.mark.parametrize("gaussian", [True, False])
@pytest.mark.parametrize("digits", [8, 0], ids=["continuous", "many_ties"])
@pytest.mark.parametrize("confidence", [0.95, 0.5])  # at 50% an uncorrected choice of the threshold shows at once
def test_null_scores_give_zero(digits: int, confidence: float, gaussian: bool) -> None:
    positive = 0
    for repetition, g in enumerate(generators()):
        scores = g.normal(size=(2, 100)).round(digits)
        positive += audit_bound(scores[0], scores[1], DELTA, confidence, repetition, gaussian).epsilon > 0
    assert positive <= binom.ppf(0.999, REPETITIONS, 1 - confidence)


def test_gaussian_pair_is_never_overstated() -> None:
    mu = 1.5
    scores = [(g.normal(mu, 1, 400), g.normal(0, 1, 400)) for g in generators()]
    found = [audit_bound(*each, DELTA, seed=r, gaussian=True).mu for r, each in enumerate(scores)]
    assert sum(own > mu for own in found) <= MOST_MISSES
    assert np.mean(found) > 0.6 * mu  # and it has power
    plain = [audit_bound(*each, DELTA, seed=r).epsilon for r, each in enumerate(scores)]
    assert sum(own > epsilon_of_mu(mu, DELTA) for own in plain) <= MOST_MISSES


def test_subsampled_gaussian_is_never_overstated_by_rates() -> None:
    rate, noise = 0.1, 0.5
    distribution = pld.from_gaussian_mechanism(noise, value_discretization_interval=1e-4, sampling_prob=rate)
    truth = distribution.get_epsilon_for_delta(DELTA)
    plain = []
    for repetition, g in enumerate(generators()):
        members = (g.random(2000) < rate) + noise * g.normal(size=2000)
        plain.append(audit_bound(members, noise * g.normal(size=2000), DELTA, seed=repetition).epsilon)
    assert sum(value > truth for value in plain) <= MOST_MISSES
    assert np.mean(plain) > 0.5


def test_randomised_response_is_overstated_by_the_gaussian_bound_only() -> None:
    """Why the kind of release must be said: ln 3 is its true epsilon, whatever delta."""
    truth = math.log(3)
    found: dict[bool, list[float]] = {True: [], False: []}
    for repetition, g in enumerate(generators()):
        members, others = (g.random(500) < 0.75).astype(float), (g.random(500) < 0.25).astype(float)
        for gaussian, own in found.items():
            own.append(audit_bound(members, others, DELTA, seed=repetition, gaussian=gaussian).epsilon)
    assert sum(value > truth for value in found[False]) <= MOST_MISSES
    assert np.mean(found[False]) > 0.5 * truth
    assert np.min(found[True]) > truth


@pytest.mark.parametrize("gaussian", [True, False])
def test_swapped_labels_and_mirrored_scores_change_nothing(gaussian: bool) -> None:
    g = np.random.default_rng(4)
    members, others = g.normal(1.2, 1, 150), g.normal(0, 2, 150)
    one = audit_bound(members, others, DELTA, gaussian=gaussian)
    two = audit_bound(others, members, DELTA, gaussian=gaussian)
    three = audit_bound(-members, -others, DELTA, gaussian=gaussian)
    assert one.epsilon > 0
    assert (two.epsilon, three.epsilon) == (pytest.approx(one.epsilon), pytest.approx(one.epsilon))
    assert one.decision.side != two.decision.side == three.decision.side
    assert (two.decision.tpr, two.decision.fpr) == pytest.approx((1 - one.decision.fpr, 1 - one.decision.tpr))


def test_equal_scores_fall_on_the_same_side() -> None:
    same = audit_bound([1.0] * 50, [1.0] * 50, DELTA)
    assert same.epsilon == 0.0
    assert same.decision.tpr == same.decision.fpr == (0.0 if same.decision.side == "above" else 1.0)
    half = np.array([0.0, 1.0] * 100)
    bound = audit_bound(half + 1, half, DELTA, gaussian=True)  # 1 or 2 against 0 or 1: no rule parts the ones
    assert bound.epsilon > 0
    assert 1.0 in (bound.decision.tpr, 1 - bound.decision.fpr)
    assert min(bound.decision.tpr, 1 - bound.decision.fpr) == pytest.approx(0.5, abs=0.15)


def test_the_runs_that_did_not_choose_give_the_rates() -> None:
    g = np.random.default_rng(8)
    members, others = g.normal(-1, 1, 301).round(1), g.normal(0, 1, 200).round(1)
    bound = audit_bound(members, others, DELTA, seed=3).decision
    assert bound.side == "below"
    judging_in, judging_out = (halves(side, 3)[1] for side in (members, others))
    assert bound.tpr == pytest.approx(float((judging_in <= bound.threshold).mean()))
    assert bound.fpr == pytest.approx(float((judging_out <= bound.threshold).mean()))
    assert bound.tpr_lower < bound.tpr and bound.fpr < bound.fpr_upper
    assert (bound.trials_in, bound.trials_out) == (151, 100)


def test_infinite_scores_are_scores() -> None:
    """The log-probability of an impossible text is -inf."""
    members, others = np.r_[np.zeros(100), np.inf], np.r_[np.full(100, -np.inf), 0.0]
    bound = audit_bound(members, others, DELTA, gaussian=True)
    assert bound.mu > 2 and math.isfinite(bound.epsilon)


# --- known clean values


@pytest.mark.parametrize("T", [2, 4, 10, 40])
def test_ideal_voting_audit_reaches_its_mu(T: int) -> None:
    """[1, T - 1] votes with the canary, [0, T] without, and noise s on each count: mu = sqrt(2)/s for any T."""
    s = 1.5290  # epsilon = 4 at delta = 1e-5
    votes = (np.full(100, 2.0 - T), np.full(100, -1.0 * T), s * math.sqrt(2), DELTA)
    gaussian, rates = (exact_bound(*votes, gaussian=each) for each in (True, False))
    assert gaussian.mu == pytest.approx(math.sqrt(2) / s, rel=1e-9)
    assert gaussian.epsilon == pytest.approx(4.0, abs=1e-3)
    assert rates.epsilon == pytest.approx(4.0, abs=1e-3)  # the grid finds the curve's own test


def test_the_exact_bound_is_the_epsilon_of_a_subsampled_gaussian() -> None:
    """One clean value of ten is moved by 1: a Poisson sample at rate 0.1; both directions of its known curve."""
    members = np.array([1.0] + [0.0] * 9)
    truth = pld.from_gaussian_mechanism(0.8, value_discretization_interval=1e-4, sampling_prob=0.1)
    found = exact_bound(members, np.zeros(10), 0.8, DELTA).epsilon
    assert found == pytest.approx(truth.get_epsilon_for_delta(DELTA), abs=1e-3)


def test_published_text_of_esa_cannot_reach_the_published_epsilon() -> None:
    """Nominal epsilon 8 by the classical noise for sensitivity 2/T, and answers 0.7476 apart: 2.52 at most, not 4."""
    T, distance = 10, 0.7476
    for delta, most in ((1e-5, 2.52), (1e-3, 2.36)):
        sd = 2 / T * math.sqrt(2 * math.log(1.25 / delta)) / 8
        found = exact_bound(np.full(8, distance / T), np.zeros(8), sd, delta, gaussian=True)
        assert found.epsilon == pytest.approx(most, abs=0.005)


def test_a_split_of_the_runs_is_never_overstated_and_the_collected_runs_alone_are() -> None:
    """Clean values N(1, 0.5^2) against N(0, 0.5^2) and noise of 1: the truth over further runs is a Gaussian pair."""
    truth = 1 / math.hypot(1, 0.5)
    split, conditional = 0, 0
    for repetition in range(200):
        g = np.random.default_rng([3, repetition])
        members, others = g.normal(1, 0.5, 30), g.normal(0, 0.5, 30)
        rule = Rule({"score": as_it_is}, sd=1.0)
        split += split_bound(members, others, rule.decide, rule.candidates, DELTA, 0.95, repetition, True).mu > truth
        conditional += exact_bound(members, others, 1.0, DELTA, gaussian=True).mu > truth
    assert split <= MOST_MISSES
    assert conditional > 100


def test_without_noise_a_run_is_a_decision_and_separated_runs_have_no_finite_bound() -> None:
    above = exceedance(np.array([0.0, 1.0]), 0.0, np.array([0.0, -1.0]))
    assert above.dtype == np.bool_ and above.tolist() == [[False, True], [True, True]]
    assert exact_bound([1.0] * 40, [0.0] * 40, 0.0, DELTA, gaussian=True).mu == math.inf


@pytest.mark.parametrize(
    "wrong",
    [
        {"members": [1.0, 2, 3]},
        {"non_members": []},
        {"members": [1.0, 2, 3, math.nan]},
        {"members": np.zeros((4, 2))},
        {"delta": 1.0},
        {"confidence": 1.0},
        {"confidence": 0.0},
    ],
)
def test_senseless_audits_are_refused(wrong: dict[str, Any]) -> None:
    audit: Callable[..., object] = audit_bound
    good = {"members": [1.0, 2, 3, 4], "non_members": [0.0, 1, 2, 3], "delta": DELTA}
    audit(**good)
    with pytest.raises(UsageError):
        audit(**{**good, **wrong})
