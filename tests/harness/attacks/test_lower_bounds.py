"""The promises of an audit's bound: validity over repetitions, and what it must not depend on.

Tolerance: of 200 repetitions at 95% confidence, a valid bound exceeds the truth more than 21 times with probability
0.1% (binomial, 5% each).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.stats import binom

from dpicl.attacks.lower_bounds import audit_bound, halves
from dpicl.attacks.trade_offs import epsilon_of_mu
from dpicl.core.errors import UsageError

REPETITIONS = 200
MOST_MISSES = int(binom.ppf(0.999, REPETITIONS, 0.05))
DELTA = 1e-5


def generators() -> list[np.random.Generator]:
    return [np.random.default_rng([11, repetition]) for repetition in range(REPETITIONS)]


@pytest.mark.parametrize("digits", [8, 0], ids=["continuous", "many_ties"])
@pytest.mark.parametrize("confidence", [0.95, 0.5])  # at 50% an uncorrected choice of the threshold shows at once
def test_null_scores_give_zero(digits: int, confidence: float) -> None:
    positive = {"gdp": 0, "approximate": 0}
    for repetition, g in enumerate(generators()):
        scores = g.normal(size=(2, 100)).round(digits)
        bounds = audit_bound(scores[0], scores[1], DELTA, confidence, seed=repetition)
        positive["gdp"] += bounds.gdp.epsilon > 0
        positive["approximate"] += bounds.approximate.epsilon > 0
    assert max(positive.values()) <= binom.ppf(0.999, REPETITIONS, 1 - confidence)


def test_gaussian_pair_is_never_overstated() -> None:
    mu = 1.5
    audits = [audit_bound(g.normal(mu, 1, 400), g.normal(0, 1, 400), DELTA, seed=r) for r, g in enumerate(generators())]
    assert sum(a.gdp.mu > mu for a in audits) <= MOST_MISSES
    assert sum(a.approximate.epsilon > epsilon_of_mu(mu, DELTA) for a in audits) <= MOST_MISSES
    assert np.mean([a.gdp.mu for a in audits]) > 0.6 * mu  # and it has power


def test_noise_resamples_are_never_overstated_and_help() -> None:
    """Clean values vary between runs: N(mu, 0.3^2) + N(0, 1) noise is a Gaussian pair again, resamples or not."""
    mu = 1.5
    truth = mu / math.hypot(1, 0.3)
    many, single = [], []
    for repetition, g in enumerate(generators()):
        clean = g.normal([[mu], [0.0]], 0.3, size=(2, 60))
        scores = clean[:, :, None] + g.normal(size=(2, 60, 20))
        many.append(audit_bound(scores[0], scores[1], DELTA, seed=repetition).gdp.mu)
        single.append(audit_bound(scores[0, :, 0], scores[1, :, 0], DELTA, seed=repetition).gdp.mu)
    assert sum(value > truth for value in many) <= MOST_MISSES
    assert np.mean(many) > 1.3 * np.mean(single)


def test_subsampled_gaussian_is_never_overstated_by_the_approximate_bound() -> None:
    rate, noise = 0.1, 0.5
    distribution = pld.from_gaussian_mechanism(noise, value_discretization_interval=1e-4, sampling_prob=rate)
    truth = distribution.get_epsilon_for_delta(DELTA)
    plain = []
    for repetition, g in enumerate(generators()):
        members = (g.random(2000) < rate) + noise * g.normal(size=2000)
        bounds = audit_bound(members, noise * g.normal(size=2000), DELTA, seed=repetition)
        plain.append(bounds.approximate.epsilon)
    assert sum(value > truth for value in plain) <= MOST_MISSES
    assert np.mean(plain) > 0.5


def test_randomised_response_is_overstated_by_the_gaussian_bound_only() -> None:
    """Why `valid` asks for the kind of release: ln 3 is its true epsilon, whatever delta."""
    truth = math.log(3)
    plain, gdp = [], []
    for repetition, g in enumerate(generators()):
        members, others = (g.random(500) < 0.75).astype(float), (g.random(500) < 0.25).astype(float)
        bounds = audit_bound(members, others, DELTA, seed=repetition)
        plain.append(bounds.valid(gaussian=False).epsilon)
        gdp.append(bounds.valid(gaussian=True).epsilon)
    assert sum(value > truth for value in plain) <= MOST_MISSES
    assert np.mean(plain) > 0.5 * truth
    assert np.min(gdp) > truth


def test_swapped_labels_and_mirrored_scores_change_nothing() -> None:
    g = np.random.default_rng(4)
    members, others = g.normal(1.2, 1, 150), g.normal(0, 2, 150)
    plain = audit_bound(members, others, DELTA)
    swapped = audit_bound(others, members, DELTA)
    mirrored = audit_bound(-members, -others, DELTA)
    for name in ("gdp", "approximate"):
        one, two, three = (getattr(bounds, name) for bounds in (plain, swapped, mirrored))
        assert one.epsilon > 0
        assert (two.epsilon, three.epsilon) == (pytest.approx(one.epsilon), pytest.approx(one.epsilon))
        assert one.decision.side != two.decision.side == three.decision.side
        assert (two.decision.tpr, two.decision.fpr) == pytest.approx((1 - one.decision.fpr, 1 - one.decision.tpr))


def test_equal_scores_fall_on_the_same_side() -> None:
    same = audit_bound([1.0] * 50, [1.0] * 50, DELTA)
    assert (same.gdp.epsilon, same.approximate.epsilon) == (0.0, 0.0)
    assert same.gdp.decision.tpr == same.gdp.decision.fpr == (0.0 if same.gdp.decision.side == "above" else 1.0)
    redrawn = audit_bound(np.ones((50, 3)), np.ones((50, 3)), DELTA).gdp.decision
    assert redrawn.tpr == redrawn.fpr == (0.0 if redrawn.side == "above" else 1.0)
    half = np.array([0.0, 1.0] * 100)
    bound = audit_bound(half + 1, half, DELTA).gdp  # 1 or 2 against 0 or 1: no rule parts the ones
    assert bound.epsilon > 0
    assert 1.0 in (bound.decision.tpr, 1 - bound.decision.fpr)
    assert min(bound.decision.tpr, 1 - bound.decision.fpr) == pytest.approx(0.5, abs=0.15)


def test_the_rule_of_a_bound_gives_its_rates() -> None:
    g = np.random.default_rng(8)
    members, others = g.normal(-1, 1, 300).round(1), g.normal(0, 1, 300).round(1)
    bound = audit_bound(members, others, DELTA, seed=3).gdp.decision
    assert bound.side == "below"
    judging_in, judging_out = (halves(side, 3)[1] for side in (members, others))
    assert bound.tpr == pytest.approx(float((judging_in <= bound.threshold).mean()))
    assert bound.fpr == pytest.approx(float((judging_out <= bound.threshold).mean()))
    assert bound.tpr_lower < bound.tpr
    assert bound.fpr_upper > bound.fpr
    assert (bound.trials_in, bound.trials_out) == (150, 150)


def test_split_does_not_evaluate_on_the_runs_that_chose() -> None:
    g = np.random.default_rng(9)
    bound = audit_bound(g.normal(2, 1, 101), g.normal(0, 1, 60), DELTA).gdp.decision
    assert (bound.trials_in, bound.trials_out) == (51, 30)


def test_copies_of_a_score_are_no_evidence() -> None:
    g = np.random.default_rng(10)
    members, others = g.normal(1.5, 1, 200), g.normal(0, 1, 200)
    copied = audit_bound(np.repeat(members[:, None], 50, axis=1), np.repeat(others[:, None], 50, axis=1), DELTA)
    assert copied.gdp.decision.trials_in == 100
    assert copied.gdp.mu <= audit_bound(members, others, DELTA).gdp.mu + 0.05


def test_infinite_scores_are_scores() -> None:
    """The log-probability of an impossible text is -inf."""
    members, others = np.r_[np.zeros(100), np.inf], np.r_[np.full(100, -np.inf), 0.0]
    bound = audit_bound(members, others, DELTA).gdp
    assert bound.mu > 2
    assert math.isfinite(bound.epsilon)


GOOD = {"members": [1.0, 2, 3, 4], "non_members": [0.0, 1, 2, 3], "delta": DELTA}


@pytest.mark.parametrize(
    "wrong",
    [
        {"members": [1.0, 2, 3]},
        {"non_members": []},
        {"members": [1.0, 2, 3, math.nan]},
        {"members": np.zeros((2, 2, 2))},
        {"delta": 1.0},
        {"confidence": 1.0},
        {"confidence": 0.0},
    ],
)
def test_senseless_audits_are_refused(wrong: dict[str, Any]) -> None:
    audit: Callable[..., object] = audit_bound
    audit(**GOOD)
    with pytest.raises(UsageError):
        audit(**{**GOOD, **wrong})
