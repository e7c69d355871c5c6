"""From scores of runs with and without a canary to a lower bound on epsilon, at a stated confidence.

Run i gives two probabilities of the decision "in" (or shares of noise resamples, or plain decisions, 0 or 1): p_i with
the canary and q_i without. Runs that were sampled with the same randomness have most of it in common, so a difference
p_i - a q_i varies far less than p_i or q_i. Every statement of differential privacy is about such differences
(E p = TPR, E q = FPR), so one limit of one mean refutes it, at full level alpha:

* (epsilon, delta)-DP: E[p - e^epsilon q] <= delta, and the same for the complements (1 - q, 1 - p)
  (Kairouz, Oh & Viswanath 2015, theorem 2.1);
* mu-GDP: E[p - e^x q] <= delta(x; mu) for every real x, the Gaussian's curve (Dong, Roth & Su 2022, corollary 2.13).

The caller says by what the mechanism is which of them it wants (`gaussian`), and not by what the numbers are: epsilon
of mu is right only for a mechanism whose curve is Gaussian, such as a composition of Gaussian releases without
subsampling; (epsilon, delta)-DP is refuted of every mechanism.

The limit is one by betting (dpicl.attacks.limits), valid for every n and every distribution of the pairs, which need
not have anything in common. For (epsilon, delta)-DP a fixed list of rising epsilons is tested one after the other, up
to the first that is not refuted; the bound is the one before. A bound above the truth needs the first listed epsilon
above it to be refuted: one event, at level alpha. For mu the slope x is fixed, and one limit L gives the mu with
delta(x; mu) = L. Threshold, side and slope are chosen on one half of the runs; the bound comes from the others alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import ndtri

from dpicl.attacks.audit_rules import Rule
from dpicl.attacks.limits import mean_lower, mean_upper
from dpicl.attacks.results import Decision
from dpicl.attacks.trade_offs import check_delta, delta_of_mu, epsilon_of_mu
from dpicl.core.errors import UsageError

#: Fewer independent runs on a side cannot be halved into anything.
FEWEST_RUNS: Final = 4
#: Epsilons that are tested in this order, so many at a time.
_TESTED: Final = np.arange(1501) / 100
_BLOCK: Final = 25
#: Epsilons that a rule is chosen by.
_COARSE: Final = np.linspace(0.0, 15.0, 61)
#: Slopes beyond this have one of both rates at the end of its range.
_STEEPEST: Final = 8.0
#: How cautiously a slope is chosen: steep ones, and thresholds far out, look best where runs are few.
_CAUTION: Final = 3.0
#: mu beyond this is one that no run can show.
_LARGEST_MU: Final = 40.0

#: (index of the threshold, above, slope, whether it is the statement about complements).
_Choice = tuple[int, bool, float, bool]


@dataclass(frozen=True)
class Bound:
    """A lower bound on epsilon at delta. mu: on that of Gaussian DP; 0 where the bound is not about it.

    decision: the rule on the judging runs, with what its rates alone show at alpha/2 each: the bound comes from the
    difference of the pairs, and says more. slope: x of the difference p - e^x q that refutes. limit: lower limit of its
    mean.
    """

    epsilon: float
    mu: float
    decision: Decision
    slope: float
    limit: float


def lower_bound(
    members: ArrayLike,
    others: ArrayLike,
    delta: float,
    confidence: float = 0.95,
    seed: int = 0,
    *,
    gaussian: bool = False,
    rule: Rule | None = None,
) -> Bound:
    """The bound from runs members[i], others[i] [n, ...]; the pairs are independent of each other.

    rule: how a run becomes a decision; None: runs are scores [n], and a larger one speaks for membership. ``seed``
    shuffles the pairs before they are halved.
    Raises UsageError for fewer than 4 pairs, sides of different lengths, NaN, a delta outside [0, 1), a confidence
    outside (0, 1).
    """
    sides, rule = (np.asarray(members), np.asarray(others)), rule or Rule()
    check_delta(delta)
    if not 0 < confidence < 1:
        raise UsageError(f"The confidence must lie between 0 and 1, not {confidence}.")
    if len({len(side) for side in sides}) > 1:
        raise UsageError("Paired runs need as many runs with the canary as without.")
    alpha, halved = 1 - confidence, [halves(checked_runs(side), seed) for side in sides]
    tried = rule.candidates(*(choosing for choosing, _ in halved))
    p, q = (rule.decide(choosing, tried).astype(np.float64) for choosing, _ in halved)
    index, above, slope, swapped = _mu_rule(p, q) if gaussian else _rates_rule(p, q, delta)
    p, q = (rule.decide(judging, tried)[:, [index]].astype(np.float64) for _, judging in halved)
    if not above:
        p, q = 1 - p, 1 - q
    decision = Decision(
        threshold=float(tried[index]),
        side="above" if above else "below",
        tpr=float(p.mean()),
        tpr_lower=float(mean_lower(p, alpha / 2)[0]),
        fpr=float(q.mean()),
        fpr_upper=float(mean_upper(q, alpha / 2)[0]),
        trials_in=len(p),
        trials_out=len(q),
    )
    if swapped:
        p, q = 1 - q, 1 - p
    if not gaussian:
        epsilon, limit = _refuted(p, q, delta, alpha)
        return Bound(epsilon, 0.0, decision, epsilon, limit)
    limit = float(_limits(p, q, np.array([slope]), alpha)[0])
    mu = _mu_at(limit, slope)
    return Bound(epsilon_of_mu(mu, delta), mu, decision, slope, limit)


def checked_runs(runs: np.ndarray) -> np.ndarray:
    """n independent runs [n, ...]; raises UsageError for fewer than 4, and for NaN."""
    if runs.ndim < 1 or len(runs) < FEWEST_RUNS:
        raise UsageError(f"At least {FEWEST_RUNS} independent runs on each side are needed.")
    if np.isnan(runs).any():
        raise UsageError("A trial returned NaN; dropping it would bias the bound. `dpicl check` looks for the reason.")
    return runs


def halves(runs: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(choosing, judging): a random half of the runs, and the rest. Sides of the same size are shuffled alike."""
    order = np.random.default_rng(seed).permutation(len(runs))
    return runs[order[: len(runs) // 2]], runs[order[len(runs) // 2 :]]


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


def _mu_rule(p: np.ndarray, q: np.ndarray) -> _Choice:
    """The threshold, side and slope with the largest mu on the choosing runs, by rough limits.

    The slope of the Gaussian trade-off curve at (FPR, TPR) is exp((ppf(FPR)^2 - ppf(TPR)^2) / 2).
    """
    best: tuple[float, _Choice] = (-1.0, (0, True, 0.0, False))
    for above, left, right in ((True, p, q), (False, 1 - p, 1 - q)):
        tpr, fpr = (ndtri(side.mean(axis=0).clip(1e-6, 1 - 1e-6)) for side in (left, right))
        slopes = ((fpr**2 - tpr**2) / 2).clip(-_STEEPEST, _STEEPEST)
        limits = np.diagonal(_rough_limits(left, right, slopes, _CAUTION))
        found = [_mu_at(float(limit), float(x)) for limit, x in zip(limits, slopes, strict=True)]
        at = int(np.argmax(found))
        best = max(best, (found[at], (at, above, float(slopes[at]), False)), key=lambda one: one[0])
    return best[1]


def _rates_rule(p: np.ndarray, q: np.ndarray, delta: float) -> _Choice:
    """The threshold, side and statement that refute most on the choosing runs, by rough limits.

    Compared by the number of refuted epsilons, cautiously; where these are as many, less cautiously.
    """
    best: tuple[tuple[float, ...], _Choice] = ((-1, -1, -math.inf), (0, True, 0.0, False))
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
