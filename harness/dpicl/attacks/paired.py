"""Lower bounds on epsilon from pairs of runs that were sampled with the same randomness, with and without the canary.

Run i gives two probabilities (or shares of noise resamples) of the decision "in": p_i with the canary and q_i without.
They have most of their randomness in common, so a difference p_i - a q_i varies far less than p_i or q_i. Every
statement of differential privacy is about such differences (E p = TPR, E q = FPR):

* (epsilon, delta)-DP: E[p - e^epsilon q] <= delta, and the same for the complements (1 - q, 1 - p)
  (Kairouz, Oh & Viswanath 2015, theorem 2.1);
* mu-GDP: E[p - e^x q] <= delta(x; mu) for every real x, the Gaussian's curve (Dong, Roth & Su 2022, corollary 2.13).

One lower limit of one mean, by betting and at full level alpha, refutes them. For rates a fixed list of rising epsilons
is tested one after the other, each by its own limit, up to the first that is not refuted; the bound is the one before.
A bound above the truth needs the first listed epsilon above it to be refuted: one event, at level alpha. For mu the
slope x is fixed on the choosing runs, and one limit L gives the mu with delta(x; mu) = L. Threshold, side and slope
come from the choosing runs; the bound comes from the others alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from dpicl.attacks.limits import mean_lower
from dpicl.attacks.lower_bounds import (
    Bound,
    Decide,
    checked_alpha,
    decision_of,
    decisions,
    with_limits,
)
from dpicl.attacks.trade_offs import delta_of_mu, epsilon_of_mu
from dpicl.core.errors import UsageError

#: Epsilons that are tested in this order, so many at a time.
_TESTED = np.arange(1501) / 100
_BLOCK = 25
#: Epsilons that a rule is chosen by.
_COARSE = np.linspace(0.0, 15.0, 61)
#: Slopes beyond this have one of both rates at the end of its range.
_STEEPEST = 8.0
#: How cautiously a slope is chosen: steep ones, and thresholds far out, look best where runs are few.
_CAUTION = 3.0
#: mu beyond this is one that no run can show.
_LARGEST_MU = 40.0

#: (index of the threshold, above, slope, whether it is the statement about complements).
Rule = tuple[int, bool, float, bool]


@dataclass(frozen=True)
class PairedBound(Bound):
    """A bound on the judging runs. The limits of its decision are what they alone show at alpha/2 each: the bound comes
    from the difference of the pairs, and says more. mu is 0 where the bound is one of rates.

    slope: x of the difference p - e^x q that refutes. limit: lower limit of its mean.
    """

    slope: float
    limit: float


def paired_bound(
    members: np.ndarray,
    others: np.ndarray,
    decide: Decide,
    candidates: Decide,
    delta: float,
    confidence: float,
    seed: int,
    gaussian: bool,
) -> PairedBound:
    """The bound from runs members[i], others[i] that belong together; the pairs are independent of each other.

    decide, candidates: see `lower_bounds.decisions`; decisions are probabilities. Raises UsageError where the sides
    differ in length, and as `lower_bounds.split_bound` does.
    """
    if len(members) != len(others):
        raise UsageError("Paired runs need as many runs with the canary as without.")
    alpha = checked_alpha(delta, confidence)
    tried, choosing, judging = decisions(members, others, decide, candidates, seed)
    p, q = (side.astype(np.float64) for side in choosing)
    index, above, slope, swapped = _mu_rule(p, q) if gaussian else _rates_rule(p, q, delta)
    p, q = (side[:, [index]].astype(np.float64) for side in judging)
    decision = decision_of(tried[index], with_limits((p, q), alpha / 2), 0, above, judging)
    if not above:
        p, q = 1 - p, 1 - q
    if swapped:
        p, q = 1 - q, 1 - p
    if not gaussian:
        epsilon, limit = _refuted(p, q, delta, alpha)
        return PairedBound(epsilon, 0.0, decision, epsilon, limit)
    limit = float(_limits(p, q, np.array([slope]), alpha)[0])
    mu = _mu_at(limit, slope)
    return PairedBound(epsilon_of_mu(mu, delta), mu, decision, slope, limit)


def _refuted(p: np.ndarray, q: np.ndarray, delta: float, alpha: float) -> tuple[float, float]:
    """(the last epsilon of _TESTED before the first that is not refuted, the lower limit of E[p - e^epsilon q])."""
    refuted = 0
    for start in range(0, len(_TESTED), _BLOCK):
        block = _TESTED[start : start + _BLOCK]
        kept = _first_kept(_limits(p, q, block, alpha) > delta)
        refuted += kept
        if kept < len(block):
            break
    epsilon = _TESTED[[max(refuted - 1, 0)]]
    return float(epsilon[0]), float(_limits(p, q, epsilon, alpha)[0])


def _mu_rule(p: np.ndarray, q: np.ndarray) -> Rule:
    """The threshold, side and slope with the largest mu on the choosing runs, by rough limits.

    The slope of the Gaussian trade-off curve at (FPR, TPR) is exp((ppf(FPR)^2 - ppf(TPR)^2) / 2).
    """
    best: tuple[float, Rule] = (-1.0, (0, True, 0.0, False))
    for above, left, right in ((True, p, q), (False, 1 - p, 1 - q)):
        tpr, fpr = (ndtri(side.mean(axis=0).clip(1e-6, 1 - 1e-6)) for side in (left, right))
        slopes = ((fpr**2 - tpr**2) / 2).clip(-_STEEPEST, _STEEPEST)
        limits = np.diagonal(_rough_limits(left, right, slopes, _CAUTION))
        found = [_mu_at(float(limit), float(x)) for limit, x in zip(limits, slopes, strict=True)]
        at = int(np.argmax(found))
        best = max(best, (found[at], (at, above, float(slopes[at]), False)), key=lambda one: one[0])
    return best[1]


def _rates_rule(p: np.ndarray, q: np.ndarray, delta: float) -> Rule:
    """The threshold, side and statement that refute most on the choosing runs, by rough limits.

    Compared by the number of refuted epsilons, cautiously; where these are as many, less cautiously.
    """
    best: tuple[tuple[float, ...], Rule] = ((-1, -1, -math.inf), (0, True, 0.0, False))
    for above, left, right in ((True, p, q), (False, 1 - p, 1 - q)):
        for swapped, a, b in ((False, left, right), (True, 1 - right, 1 - left)):
            careful, bold = (_rough_limits(a, b, _COARSE, caution) for caution in (_CAUTION, 1.0))
            for at in range(len(careful)):
                value = (_first_kept(careful[at] > delta), _first_kept(bold[at] > delta), float(careful[at, 0]))
                best = max(best, (value, (at, above, 0.0, swapped)), key=lambda one: one[0])
    return best[1]


def _rough_limits(p: np.ndarray, q: np.ndarray, slopes: np.ndarray, caution: float) -> np.ndarray:
    """float64[k, s]: about the lower limits of E[p - e^x q] for k rules and s slopes, from moments alone (Bernstein's
    inequality with the empirical variance at level exp(-caution)). They only choose; nothing is claimed by them."""
    runs, a = len(p), np.exp(slopes)
    left, right = p - p.mean(axis=0), q - q.mean(axis=0)
    moments = ((left**2).mean(axis=0), (left * right).mean(axis=0), (right**2).mean(axis=0))
    own, both, other = (moment[:, None] for moment in moments)
    variance = np.maximum(own - 2 * a * both + a**2 * other, 0.0)
    means: np.ndarray = p.mean(axis=0)[:, None] - a * q.mean(axis=0)[:, None]
    return means - np.sqrt(2 * variance * caution / runs) - (1 + a) * caution / (3 * runs)


def _first_kept(refuted: np.ndarray) -> int:
    """How many are refuted before the first that is not."""
    return len(refuted) if refuted.all() else int(np.argmin(refuted))


def _limits(p: np.ndarray, q: np.ndarray, slopes: np.ndarray, alpha: float) -> np.ndarray:
    """float64[k]: lower limits of E[p - e^x q] for slopes x[k]; p, q are [n, 1]."""
    a = np.exp(slopes)
    scaled = ((p - a * q + a) / (1 + a)).clip(0.0, 1.0)  # in [0, 1] but for rounding
    return mean_lower(scaled, alpha) * (1 + a) - a


def _mu_at(limit: float, slope: float) -> float:
    """The mu with delta(slope; mu) = limit; 0 where mu = 0 already has it."""
    if limit <= max(0.0, -math.expm1(slope)):
        return 0.0
    if delta_of_mu(_LARGEST_MU, slope) <= limit:
        return _LARGEST_MU
    return float(brentq(lambda mu: delta_of_mu(mu, slope) - limit, 1e-9, _LARGEST_MU, xtol=1e-9))
