"""Computes a lower bound on epsilon, at a stated confidence, from scores of runs with and without a canary.

Run i gives two probabilities of the decision "in" (or shares of draws of the noise, or plain decisions, 0 or 1): p_i
with the canary and q_i without. Runs that were sampled with the same randomness have most of it in common, so a
difference p_i - a q_i varies far less than p_i or q_i. (epsilon, delta)-DP is a statement about such a difference
(E p = TPR, E q = FPR), so one limit of one mean refutes it, at full level alpha: E[p - e^epsilon q] <= delta, and the
same for the complements (1 - q, 1 - p) (Kairouz, Oh & Viswanath 2015, theorem 2.1).

The limit is one by betting (`mean_lower`), valid for every n and every distribution of the pairs, which need
not have anything in common. A fixed list of rising epsilons is tested one after the other, up to the first that is not
refuted; the bound is the one before. A bound above the truth needs the first listed epsilon above it to be refuted: one
event, at level alpha. Score, threshold and side are chosen on one half of the runs; the bound comes from the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from dpicl.attacks.results import Decision, LowerBound
from dpicl.core.errors import UsageError

#: Runs -> scores, [n] or [n, m] for m draws of the noise in each; a larger one speaks for membership.
Score = Callable[[np.ndarray], np.ndarray]
#: Learns a score from runs with and without the canary.
Learn = Callable[[np.ndarray, np.ndarray], Score]

#: Of the intervals and the bound of every attack.
CONFIDENCE: Final = 0.95
#: A bet stakes at most this part of what keeps the capital positive. Waudby-Smith & Ramdas use 1/2 or 3/4; more
#: narrows the limits for values that vary little, which are the ones that an audit with known noise sees.
LARGEST_STAKE: Final = 0.9
#: Halvings of [0, 1] in the search for a limit: it is off by less than 1e-9, to the safe side.
_HALVINGS: Final = 30
#: Fewer independent runs on a side cannot be halved into anything.
FEWEST_RUNS: Final = 4
#: Thresholds that the runs that choose try, at most.
MOST_THRESHOLDS: Final = 200
#: Epsilons that are tested in this order, so many at a time.
_TESTED: Final = np.arange(1501) / 100
_BLOCK: Final = 25
#: Epsilons that a rule is chosen by.
_COARSE: Final = np.linspace(0.0, 15.0, 61)
#: How cautiously a rule is chosen: thresholds far out look best where runs are few.
_CAUTION: Final = 3.0


def runs_are_scores(members: np.ndarray, others: np.ndarray) -> Score:
    """A larger one speaks for membership; nothing is learned."""
    return lambda runs: runs


def lower_bound(
    members: ArrayLike,
    others: ArrayLike,
    delta: float,
    confidence: float = 0.95,
    seed: int = 0,
    learn: Learn = runs_are_scores,
) -> LowerBound:
    """The bound from runs members[i], others[i] [n, ...]; the pairs are independent of each other. Its decision is the
    rule on the judging runs, with what its rates alone show at alpha/2 each: the bound comes from the difference of the
    pairs, and says more.

    learn: makes a score of the runs that choose. ``seed`` shuffles the pairs before they are halved.
    Raises UsageError for fewer than 4 pairs, sides of different lengths, NaN, a delta outside [0, 1), a confidence
    outside (0, 1).
    """
    sides = np.asarray(members), np.asarray(others)
    if not (0 <= delta < 1 and 0 < confidence < 1):
        raise UsageError(f"delta must lie in [0, 1) and the confidence in (0, 1), not {delta} and {confidence}.")
    if len({len(side) for side in sides}) > 1:
        raise UsageError("Paired runs need as many runs with the canary as without.")
    alpha, halved = 1 - confidence, [halves(check_runs(side), seed) for side in sides]
    score = learn(*(choosing for choosing, _ in halved))
    choosing, judging = ([score(side[half]) for side in halved] for half in (0, 1))
    tried = score_thresholds(*choosing)
    p, q = (_shares_above(scores, tried) for scores in choosing)
    index, above, swapped = _rule(p, q, delta)
    p, q = (_shares_above(scores, tried[[index]]) for scores in judging)
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
    p, q = (1 - q, 1 - p) if swapped else (p, q)
    epsilon = _find_refuted(p, q, delta, alpha)
    return LowerBound(epsilon=epsilon, delta=delta, confidence=confidence, method="rates", decision=decision)


def check_runs(runs: np.ndarray) -> np.ndarray:
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


def score_thresholds(members: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Thresholds between neighbouring distinct scores, 200 at most, denser at both ends; the score if all agree."""
    distinct = np.unique(np.concatenate([members.ravel(), others.ravel()]))
    if len(distinct) == 1:
        return distinct
    lower, upper = distinct[:-1], distinct[1:]
    with np.errstate(invalid="ignore"):
        middle = lower / 2 + upper / 2
    between = np.where((middle > lower) & (middle < upper), middle, lower)  # infinite or adjacent scores: the lower one
    number = len(between)
    if number <= MOST_THRESHOLDS:
        return between
    near = np.unique(np.geomspace(1, number / 2, MOST_THRESHOLDS // 2).round().astype(int))
    return between[np.unique(np.concatenate([near, number + 1 - near])) - 1]


def _shares_above(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """float64[n, k]: of every run the share of its scores above each threshold; equal scores fall on the same side."""
    if scores.ndim == 1:
        return (scores[:, None] > thresholds).astype(np.float64)
    at_most = np.stack([np.searchsorted(row, thresholds, side="right") for row in np.sort(scores, axis=1)])
    return 1 - at_most / scores.shape[1]


def _find_refuted(p: np.ndarray, q: np.ndarray, delta: float, alpha: float) -> float:
    """The last epsilon of _TESTED before the first that is not refuted; p, q are [n, 1]."""
    refuted = 0
    for start in range(0, len(_TESTED), _BLOCK):
        block = _TESTED[start : start + _BLOCK]
        kept = _count_refuted(_limits(p, q, block, alpha) > delta)
        refuted += kept
        if kept < len(block):
            break
    return float(_TESTED[max(refuted - 1, 0)])


def _rule(p: np.ndarray, q: np.ndarray, delta: float) -> tuple[int, bool, bool]:
    """(index of the threshold, whether scores above it are "in", whether complements are compared): what refutes most
    on the choosing runs, by rough limits.

    Compared by the number of refuted epsilons, cautiously; where these are as many, less cautiously.
    """
    best: tuple[tuple[float, ...], tuple[int, bool, bool]] = ((-1, -1, -math.inf), (0, True, False))
    for above, left, right in ((True, p, q), (False, 1 - p, 1 - q)):
        for swapped, a, b in ((False, left, right), (True, 1 - right, 1 - left)):
            careful, bold = (_rough_limits(a, b, caution) for caution in (_CAUTION, 1.0))
            for at in range(len(careful)):
                value = (_count_refuted(careful[at] > delta), _count_refuted(bold[at] > delta), float(careful[at, 0]))
                best = max(best, (value, (at, above, swapped)), key=lambda one: one[0])
    return best[1]


def _rough_limits(p: np.ndarray, q: np.ndarray, caution: float) -> np.ndarray:
    """float64[k, s]: about the lower limits of E[p - e^x q] for k rules and the epsilons x of _COARSE, from moments
    alone (Bernstein's inequality with the empirical variance at level exp(-caution)). They only choose; nothing is
    claimed by them."""
    runs, a = len(p), np.exp(_COARSE)
    left, right = p - p.mean(axis=0), q - q.mean(axis=0)
    moments = ((left**2).mean(axis=0), (left * right).mean(axis=0), (right**2).mean(axis=0))
    own, both, other = (moment[:, None] for moment in moments)
    variance = np.maximum(own - 2 * a * both + a**2 * other, 0.0)
    means: np.ndarray = p.mean(axis=0)[:, None] - a * q.mean(axis=0)[:, None]
    return means - np.sqrt(2 * variance * caution / runs) - (1 + a) * caution / (3 * runs)


def _count_refuted(refuted: np.ndarray) -> int:
    """How many are refuted before the first that is not."""
    return len(refuted) if refuted.all() else int(np.argmin(refuted))


def _limits(p: np.ndarray, q: np.ndarray, epsilons: np.ndarray, alpha: float) -> np.ndarray:
    """float64[k]: lower limits of E[p - e^x q] for epsilons x[k]; p, q are [n, 1]."""
    a = np.exp(epsilons)
    scaled = ((p - a * q + a) / (1 + a)).clip(0.0, 1.0)  # in [0, 1] but for rounding
    return mean_lower(scaled, alpha) * (1 + a) - a


def mean_lower(values: ArrayLike, alpha: float) -> np.ndarray:
    """Lower limit of the mean of independent variables in [0, 1]: values[n] or [n, k] (k means at once) -> [] or [k].

    A gambler bets against "the mean is m or less": his capital is multiplied by 1 + bet_i (x_i - m), so under that
    hypothesis it is a supermartingale and passes 1/alpha with probability alpha at most (Ville's inequality). The limit
    is the largest m at which it passes 1/alpha after any number of values. The bets are the predictable plug-in ones
    for a fixed sample size, one-sided (Waudby-Smith & Ramdas 2024, JRSS B 86(1), "Estimating means of bounded random
    variables by betting": hedged capital).

    Values are taken in the order of rows, which must not depend on them; another order gives a slightly different, just
    as valid limit. Raises UsageError without a value, for one outside [0, 1] and for alpha outside (0, 1).
    """
    if not 0 < alpha < 1:
        raise UsageError(f"The error probability of a limit must lie between 0 and 1, not {alpha}.")
    x = np.asarray(values, dtype=np.float64)
    if x.ndim not in (1, 2) or not len(x) or not bool(((x >= 0) & (x <= 1)).all()):
        raise UsageError("A limit of a mean needs at least one value, and every value must lie between 0 and 1.")
    bets = np.sqrt(2 * math.log(1 / alpha) / (len(x) * _earlier_variances(x)))
    low, high = np.zeros(x.shape[1:]), np.ones(x.shape[1:])
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        growth = 1 + np.minimum(bets, LARGEST_STAKE / middle) * (x - middle)  # at least 1 - LARGEST_STAKE
        with np.errstate(over="ignore", under="ignore"):
            refuted = np.cumprod(growth, axis=0).max(axis=0) >= 1 / alpha  # the less, the larger m: halving finds it
        low, high = np.where(refuted, middle, low), np.where(refuted, high, middle)
    return low


def mean_upper(values: ArrayLike, alpha: float) -> np.ndarray:
    """Upper limit of the mean of independent variables in [0, 1]; as `mean_lower`."""
    return 1 - mean_lower(1 - np.asarray(values, dtype=np.float64), alpha)


def _earlier_variances(x: np.ndarray) -> np.ndarray:
    """[n, ...]: before each value, the variance of those before it; one made-up value 1/2 of variance 1/4 starts it."""
    seen = np.arange(2, len(x) + 2).reshape(-1, *[1] * (x.ndim - 1))
    means = (0.5 + np.cumsum(x, axis=0)) / seen
    variances = (0.25 + np.cumsum((x - means) ** 2, axis=0)) / seen
    return np.concatenate([np.full_like(x[:1], 0.25), variances[:-1]])
