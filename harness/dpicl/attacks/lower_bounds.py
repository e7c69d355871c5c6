"""From scores of runs with and without a canary to lower bounds on epsilon, at a stated confidence.

A larger score speaks for membership ("the canary is in"). A rule says "in" above a threshold (score > t), or, where
scores point the other way, at or below it (score <= t): equal scores always fall on the same side, and swapping the
labels together with the rule changes nothing.

A bound is one of two kinds, because they say different things (see `dpicl.attacks.trade_offs`):

* gaussian: the mechanism is not mu-GDP for a smaller mu. This needs no assumption. Its epsilon at delta is right only
  for a mechanism whose curve is Gaussian, such as a composition of Gaussian releases without subsampling.
* else (epsilon, delta)-DP by ln((TPR - delta)/FPR), in both directions. It is valid for every mechanism.

The caller says which one it wants by what the mechanism is, not by what the numbers are.

The threshold must not be chosen on the runs that the bound is computed from: threshold and direction maximise the bound
on one half of the runs, and the other half, alone, gives the bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from dpicl.attacks.limits import rate_limits
from dpicl.attacks.results import Decision
from dpicl.attacks.trade_offs import check_delta, epsilon_of_mu, epsilon_of_rates, log_ratio, mu_lower
from dpicl.core.errors import UsageError

#: Runs with and without the canary.
Sides = tuple[np.ndarray, np.ndarray]
Decide = Callable[[np.ndarray, np.ndarray], np.ndarray]

#: Fewer independent runs on a side cannot be halved into anything.
FEWEST_RUNS: Final = 4
#: Thresholds that the selecting half tries, at most.
MOST_THRESHOLDS: Final = 200
#: Thresholds of `exact_bound`, from so many standard deviations below the smallest clean value to as many above.
_GRID, _REACH = 4001, 8.0
#: Rates that `exact_bound` uses are at least these, and at most 1 minus these; further out, 1 - rate loses its digits.
_SMALLEST_RATE, _SMALLEST_MU_RATE = 1e-12, 1e-9


@dataclass(frozen=True)
class Bound:
    """One lower bound: epsilon at delta, mu of Gaussian DP from the same two limits, and the rule that gave it."""

    epsilon: float
    mu: float
    decision: Decision


def audit_bound(
    members: ArrayLike,
    non_members: ArrayLike,
    delta: float,
    confidence: float = 0.95,
    seed: int = 0,
    gaussian: bool = False,
) -> Bound:
    """Lower bound on epsilon at delta from scores of independent runs: members, non_members [n].

    alpha = 1 - confidence is split evenly over the limits of TPR and FPR. ``seed`` shuffles the runs before they are
    halved; sides of the same size are shuffled alike, so that paired runs stay together. The sides need not be
    independent of each other.

    Raises UsageError for fewer than 4 runs on a side, NaN scores, a delta outside [0, 1), a confidence outside (0, 1).
    """
    sides = checked_runs(members), checked_runs(non_members)
    return split_bound(*sides, shares_above, score_thresholds, delta, confidence, seed, gaussian)


def split_bound(
    members: np.ndarray,
    non_members: np.ndarray,
    decide: Decide,
    candidates: Decide,
    delta: float,
    confidence: float,
    seed: int,
    gaussian: bool,
) -> Bound:
    """Chooses the rule on one half of the runs (rows) and evaluates it on the other; see `decisions`."""
    alpha = checked_alpha(delta, confidence)
    tried, choosing, judging = decisions(members, non_members, decide, candidates, seed)
    index, above = _best_rule(with_limits(choosing, alpha / 2), delta, gaussian)
    judged = with_limits((judging[0][:, [index]], judging[1][:, [index]]), alpha / 2)
    return _bound(decision_of(tried[index], judged, 0, above, judging), delta, gaussian)


def exact_bound(
    members_clean: ArrayLike, non_members_clean: ArrayLike, sd: float, delta: float, gaussian: bool = False
) -> Bound:
    """What clean scores [n] on each side say if they are all that there is, each with noise N(0, sd^2), in closed form.

    No confidence is involved, and none about further runs follows. The bound is maximal over a fine grid of
    thresholds. It is the epsilon at delta of the two Gaussian mixtures, up to the grid. gaussian: mu is taken over
    rates in [delta, 1 - delta]; further out it tends to that of the most extreme clean value, however rare.
    Raises UsageError as `audit_bound` does.
    """
    check_delta(delta)
    clean = checked_runs(members_clean), checked_runs(non_members_clean)
    both = np.concatenate(clean)
    tried = np.linspace(both.min() - _REACH * sd, both.max() + _REACH * sd, _GRID) if sd else score_thresholds(*clean)
    shares = [exceedance(side, sd, tried).mean(axis=0) for side in clean]
    floor = max(delta, _SMALLEST_MU_RATE) if gaussian else _SMALLEST_RATE
    usable = np.logical_and.reduce([(rate >= floor) & (rate <= 1 - floor) for rate in shares])
    kept = np.flatnonzero(usable if sd and usable.any() else np.ones(len(tried), dtype=bool))
    rates = np.stack([np.tile(share[kept], (3, 1)) for share in shares])
    index, above = _best_rule(rates, delta, gaussian)
    return _bound(decision_of(tried[kept][index], rates, index, above, clean), delta, gaussian)


def exceedance(clean: np.ndarray, sd: float, thresholds: np.ndarray) -> np.ndarray:
    """P(s_i + N(0, sd^2) > t): clean[n], thresholds[k] -> float64[n, k]; decisions bool[n, k] where sd is 0."""
    return ndtr((clean[:, None] - thresholds) / sd) if sd else clean[:, None] > thresholds


def decisions(
    members: np.ndarray, non_members: np.ndarray, decide: Decide, candidates: Decide, seed: int
) -> tuple[np.ndarray, Sides, Sides]:
    """(thresholds[k] to try, what the choosing half of the runs says at each, what the judging half says).

    decide(runs[n, ...], thresholds[k]) -> [n, k]: booleans, or probabilities of a score above each threshold.
    candidates(members, non_members) -> thresholds[k], from the choosing half. The larger half judges.
    """
    inside, outside = halves(members, seed), halves(non_members, seed)
    tried = candidates(inside[0], outside[0])
    choosing, judging = ((decide(own, tried), decide(other, tried)) for own, other in zip(inside, outside, strict=True))
    return tried, choosing, judging


def with_limits(sides: Sides, alpha: float) -> np.ndarray:
    """float64[2, 3, k]: shares of decisions or probabilities [n, k] with and without the canary, and their lower and
    upper limits, each one-sided at level alpha."""
    return np.stack([np.stack([side.mean(axis=0), *rate_limits(side, alpha)]) for side in sides])


def decision_of(threshold: float, rates: np.ndarray, index: int, above: bool, sides: Sides) -> Decision:
    """The rule that takes scores above a threshold, or those at most it, for members. rates: as `with_limits`."""
    (tpr, in_low, in_high), (fpr, out_low, out_high) = rates[:, :, index].tolist()
    if not above:
        tpr, in_low, fpr, out_high = 1 - tpr, 1 - in_high, 1 - fpr, 1 - out_low
    return Decision(
        threshold=float(threshold),
        side="above" if above else "below",
        tpr=tpr,
        tpr_lower=in_low,
        fpr=fpr,
        fpr_upper=out_high,
        trials_in=len(sides[0]),
        trials_out=len(sides[1]),
    )


def shares_above(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Decisions bool[n, k] of scores[n], or shares of resamples float64[n, k] of scores[n, m], above thresholds[k]."""
    if scores.ndim == 1:
        return scores[:, None] > thresholds
    at_most = np.stack([np.searchsorted(row, thresholds, side="right") for row in np.sort(scores, axis=1)])
    return 1 - at_most / scores.shape[1]


def score_thresholds(members: np.ndarray, non_members: np.ndarray) -> np.ndarray:
    """Thresholds between neighbouring distinct scores, 200 at most, denser at both ends; the score if all agree."""
    distinct = np.unique(np.concatenate([members.ravel(), non_members.ravel()]))
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


def checked_runs(scores: ArrayLike) -> np.ndarray:
    """float64[n]: scores of n independent runs; raises UsageError as `audit_bound` does."""
    runs = np.asarray(scores, dtype=np.float64)
    if runs.ndim != 1 or len(runs) < FEWEST_RUNS:
        raise UsageError(f"At least {FEWEST_RUNS} independent runs on each side are needed, each with one score.")
    if np.isnan(runs).any():
        raise UsageError("A score is NaN; fix the attack, since dropping the run would bias the bound.")
    return runs


def halves(runs: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(choosing, judging): a random half of the runs, and the rest."""
    order = np.random.default_rng(seed).permutation(len(runs))
    return runs[order[: len(runs) // 2]], runs[order[len(runs) // 2 :]]


def checked_alpha(delta: float, confidence: float) -> float:
    """1 - confidence; raises UsageError for a confidence outside (0, 1) or a delta outside [0, 1)."""
    check_delta(delta)
    if not 0 < confidence < 1:
        raise UsageError(f"The confidence must lie between 0 and 1, not {confidence}.")
    return 1 - confidence


def _best_rule(rates: np.ndarray, delta: float, gaussian: bool) -> tuple[int, bool]:
    """(index of the threshold, above) of the rule whose limits give the largest bound; of equal ones the first."""

    def value(tpr_lower: np.ndarray, fpr_upper: np.ndarray) -> np.ndarray:
        return mu_lower(tpr_lower, fpr_upper) if gaussian else log_ratio(tpr_lower, fpr_upper, delta)

    (_, in_low, in_high), (_, out_low, out_high) = rates
    above, below = value(in_low, out_high), value(1 - in_high, 1 - out_low)
    index = int(np.argmax(np.maximum(above, below)))
    return index, bool(above[index] >= below[index])


def _bound(decision: Decision, delta: float, gaussian: bool) -> Bound:
    """The bound that the limits of one rule give."""
    limits = decision.tpr_lower, decision.fpr_upper
    mu = max(0.0, float(mu_lower(*limits)))
    return Bound(epsilon_of_mu(mu, delta) if gaussian else float(epsilon_of_rates(*limits, delta)), mu, decision)
