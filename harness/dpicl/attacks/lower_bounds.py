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
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpicl.attacks.results import Decision, LowerBound
from dpicl.core.errors import UsageError

#: Runs -> scores, [n] or [n, m] for m draws of the noise in each; a larger one speaks for membership.
Score = Callable[[np.ndarray], np.ndarray]
#: Learns a score from runs with and without the canary.
Learn = Callable[[np.ndarray, np.ndarray], Score]

#: Confidence of the intervals and the bound of every attack.
CONFIDENCE = 0.95
#: A bet stakes at most this part of what keeps the capital positive. Waudby-Smith & Ramdas use 1/2 or 3/4; more
#: narrows the limits for values that vary little, which are the ones that an audit with known noise sees.
LARGEST_STAKE = 0.9
#: Halvings of [0, 1] in the search for a limit: it is off by less than 1e-9, to the safe side.
_HALVINGS = 30
#: The fewest independent runs on a side that can be halved.
FEWEST_RUNS = 4
#: The largest number of thresholds that are compared on the choosing runs.
MOST_THRESHOLDS = 200
#: Epsilons in the order in which they are tested, and how many at a time.
_TESTED = np.arange(1501) / 100
_BLOCK = 25
#: Epsilons by which a rule is chosen.
_COARSE = np.linspace(0.0, 15.0, 61)
#: How cautiously a rule is chosen: thresholds far out look best where runs are few.
_CAUTION = 3.0


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
        raise UsageError(
            f"delta must lie in [0, 1) and the confidence in (0, 1), not {delta} and {confidence}."
        )
    if len({len(side) for side in sides}) > 1:
        raise UsageError("Paired runs need as many runs with the canary as without.")
    alpha = 1 - confidence
    choosing_in, judging_in = halves(check_runs(sides[0]), seed)
    choosing_out, judging_out = halves(check_runs(sides[1]), seed)
    score = learn(choosing_in, choosing_out)
    scores_in, scores_out = score(choosing_in), score(choosing_out)
    thresholds = score_thresholds(scores_in, scores_out)
    rule = _choose_rule(
        _shares_above(scores_in, thresholds), _shares_above(scores_out, thresholds), delta
    )
    threshold = thresholds[[rule.place]]
    p = _shares_above(score(judging_in), threshold)
    q = _shares_above(score(judging_out), threshold)
    if not rule.above:
        p, q = 1 - p, 1 - q
    decision = Decision(
        threshold=float(threshold[0]),
        side="above" if rule.above else "below",
        tpr=float(p.mean()),
        tpr_lower=float(mean_lower(p, alpha / 2)[0]),
        fpr=float(q.mean()),
        fpr_upper=float(mean_upper(q, alpha / 2)[0]),
        trials_in=len(p),
        trials_out=len(q),
    )
    if rule.swapped:
        p, q = 1 - q, 1 - p
    epsilon = _find_refuted(p, q, delta, alpha)
    return LowerBound(
        epsilon=epsilon, delta=delta, confidence=confidence, method="rates", decision=decision
    )


def check_runs(runs: np.ndarray) -> np.ndarray:
    """n independent runs [n, ...]; raises UsageError for fewer than 4, and for NaN."""
    if runs.ndim < 1 or len(runs) < FEWEST_RUNS:
        raise UsageError(f"At least {FEWEST_RUNS} independent runs on each side are needed.")
    if np.isnan(runs).any():
        raise UsageError(
            "A trial returned NaN; dropping it would bias the bound. `dpicl check` looks for the reason."
        )
    return runs


def halves(
    runs: np.ndarray,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
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
    is_between = (middle > lower) & (middle < upper)
    thresholds = np.where(is_between, middle, lower)  # infinite or adjacent scores: the lower one
    number = len(thresholds)
    if number <= MOST_THRESHOLDS:
        return thresholds
    places = np.geomspace(1, number / 2, MOST_THRESHOLDS // 2).round().astype(int)
    both_ends = np.unique(np.concatenate([places, number + 1 - places]))
    return thresholds[both_ends - 1]


def _shares_above(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """float64[n, k]: of every run the share of its scores above each threshold; equal scores fall on the same side."""
    if scores.ndim == 1:
        return (scores[:, None] > thresholds).astype(np.float64)
    rows = np.sort(scores, axis=1)
    at_most = np.stack([np.searchsorted(row, thresholds, side="right") for row in rows])
    return 1 - at_most / scores.shape[1]


def _find_refuted(
    p: np.ndarray,
    q: np.ndarray,
    delta: float,
    alpha: float,
) -> float:
    """The last epsilon of _TESTED before the first that is not refuted; p, q are [n, 1]."""
    refuted = 0
    for start in range(0, len(_TESTED), _BLOCK):
        block = _TESTED[start : start + _BLOCK]
        refuted_here = _count_refuted(_limits(p, q, block, alpha) > delta)
        refuted += refuted_here
        if refuted_here < len(block):
            break
    return float(_TESTED[max(refuted - 1, 0)])


class _Rule(NamedTuple):
    """place: of the threshold. above: whether scores above it are "in". swapped: whether complements are compared."""

    place: int
    above: bool
    swapped: bool


def _choose_rule(p: np.ndarray, q: np.ndarray, delta: float) -> _Rule:
    """What refutes most on the choosing runs, by rough limits.

    Compared by the number of refuted epsilons, cautiously; where these are as many, less cautiously.
    """
    best, best_value = _Rule(0, True, False), (-1, -1, -math.inf)
    for above, left, right in ((True, p, q), (False, 1 - p, 1 - q)):
        for swapped, first, second in ((False, left, right), (True, 1 - right, 1 - left)):
            cautious = _rough_limits(first, second, _CAUTION)
            bold = _rough_limits(first, second, 1.0)
            for place, limits in enumerate(cautious):
                by_cautious = _count_refuted(limits > delta)
                by_bold = _count_refuted(bold[place] > delta)
                value = (by_cautious, by_bold, float(limits[0]))
                if value > best_value:
                    best, best_value = _Rule(place, above, swapped), value
    return best


def _rough_limits(p: np.ndarray, q: np.ndarray, caution: float) -> np.ndarray:
    """float64[k, s]: about the lower limits of E[p - e^x q] for k rules and the epsilons x of _COARSE, from moments
    alone (Bernstein's inequality with the empirical variance at level exp(-caution)). They only choose; nothing is
    claimed by them."""
    runs, factor = len(p), np.exp(_COARSE)
    mean_p, mean_q = p.mean(axis=0), q.mean(axis=0)
    left, right = p - mean_p, q - mean_q
    variance_p = (left**2).mean(axis=0)[:, None]
    covariance = (left * right).mean(axis=0)[:, None]
    variance_q = (right**2).mean(axis=0)[:, None]
    variance = np.maximum(variance_p - 2 * factor * covariance + factor**2 * variance_q, 0.0)
    means: np.ndarray = mean_p[:, None] - factor * mean_q[:, None]
    return means - np.sqrt(2 * variance * caution / runs) - (1 + factor) * caution / (3 * runs)


def _count_refuted(refuted: np.ndarray) -> int:
    """How many are refuted before the first that is not."""
    return len(refuted) if refuted.all() else int(np.argmin(refuted))


def _limits(
    p: np.ndarray,
    q: np.ndarray,
    epsilons: np.ndarray,
    alpha: float,
) -> np.ndarray:
    """float64[k]: lower limits of E[p - e^x q] for epsilons x[k]; p, q are [n, 1]."""
    factor = np.exp(epsilons)
    scaled = (p - factor * q + factor) / (1 + factor)  # in [0, 1] but for rounding
    return mean_lower(scaled.clip(0.0, 1.0), alpha) * (1 + factor) - factor


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
        raise UsageError(
            "A limit of a mean needs at least one value, and every value must lie between 0 and 1."
        )
    bets = np.sqrt(2 * math.log(1 / alpha) / (len(x) * _earlier_variances(x)))
    low, high = np.zeros(x.shape[1:]), np.ones(x.shape[1:])
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        stakes = np.minimum(bets, LARGEST_STAKE / middle)
        growth = 1 + stakes * (x - middle)  # at least 1 - LARGEST_STAKE
        with np.errstate(over="ignore", under="ignore"):
            # the less, the larger m: halving finds it
            largest_capital = np.cumprod(growth, axis=0).max(axis=0)
        refuted = largest_capital >= 1 / alpha
        low = np.where(refuted, middle, low)
        high = np.where(refuted, high, middle)
    return low


def mean_upper(values: ArrayLike, alpha: float) -> np.ndarray:
    """Upper limit of the mean of independent variables in [0, 1]; as `mean_lower`."""
    return 1 - mean_lower(1 - np.asarray(values, dtype=np.float64), alpha)


def _earlier_variances(x: np.ndarray) -> np.ndarray:
    """[n, ...]: before each value, the variance of those before it; one made-up value 1/2 of variance 1/4 starts it."""
    numbers = np.arange(2, len(x) + 2).reshape(-1, *[1] * (x.ndim - 1))
    means = (0.5 + np.cumsum(x, axis=0)) / numbers
    variances = (0.25 + np.cumsum((x - means) ** 2, axis=0)) / numbers
    return np.concatenate([np.full_like(x[:1], 0.25), variances[:-1]])
