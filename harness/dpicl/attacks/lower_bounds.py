"""From scores of runs with and without a canary to lower bounds on epsilon, at a stated confidence.

A larger score speaks for membership ("the canary is in"). A rule says "in" above a threshold (score > t), or, where
scores point the other way, at or below it (score <= t): equal scores always fall on the same side, and swapping the
labels together with the rule changes nothing.

`audit_bound` answers with two bounds, because they say different things (see `dpicl.attacks.trade_offs`):

* gdp: the mechanism is not mu-GDP for a smaller mu. This needs no assumption. Its epsilon at delta is right only for a
  mechanism whose curve is Gaussian, such as a composition of Gaussian releases without subsampling.
* approximate: (epsilon, delta)-DP by ln((TPR - delta)/FPR), in both directions. It is valid for every mechanism.

The caller says which one counts (`LowerBounds.valid`) by what the mechanism is, not by what the numbers are.

The threshold must not be chosen on the runs that the bound is computed from: threshold and direction maximise the bound
on one half of the runs, and the other half, alone, gives the bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dpicl.attacks.limits import rate_limits
from dpicl.attacks.results import Decision
from dpicl.attacks.trade_offs import check_delta, epsilon_of_mu, epsilon_of_rates, log_ratio, mu_lower
from dpicl.core.errors import UsageError

Method = Literal["gdp", "approximate"]
#: Runs with and without the canary.
Sides = tuple[np.ndarray, np.ndarray]
Decide = Callable[[np.ndarray, np.ndarray], np.ndarray]

#: Fewer independent runs on a side cannot be halved into anything.
FEWEST_RUNS = 4
#: Thresholds that the selecting half tries, at most.
MOST_THRESHOLDS = 200


@dataclass(frozen=True)
class Bound:
    """One lower bound: epsilon at delta, mu of Gaussian DP from the same two limits, and the rule that gave it."""

    epsilon: float
    mu: float
    decision: Decision


@dataclass(frozen=True)
class LowerBounds:
    """Both bounds of one audit; each holds at its confidence, and only one of them may be reported as *the* bound."""

    gdp: Bound
    approximate: Bound

    def valid(self, gaussian: bool) -> Bound:
        """The bound that holds for the release: gdp if it is a composition of Gaussian releases, else approximate."""
        return self.gdp if gaussian else self.approximate


@dataclass(frozen=True)
class Rates:
    """Shares of runs with (members) and without (others) the canary that score above each of k thresholds, with their
    one-sided limits: float64[3, k], rows of shares, lower and upper limits."""

    thresholds: np.ndarray
    members: np.ndarray
    others: np.ndarray
    trials_in: int
    trials_out: int

    def at(self, chosen: np.ndarray | list[int]) -> Rates:
        """The rates at some of the thresholds: indices, or a mask bool[k]."""
        members, others = self.members[:, chosen], self.others[:, chosen]
        return Rates(self.thresholds[chosen], members, others, self.trials_in, self.trials_out)


def audit_bound(
    members: ArrayLike,
    non_members: ArrayLike,
    delta: float,
    confidence: float = 0.95,
    seed: int = 0,
) -> LowerBounds:
    """Lower bounds on epsilon at delta from scores of independent runs: members, non_members [n] or [n, m].

    m scores of a run are noise resamples on the same clean values: the run counts as one, with the share of its
    resamples above the threshold, and gets limits by betting instead of Clopper-Pearson ones. alpha = 1 - confidence is
    split evenly over the two limits. ``seed`` shuffles the runs before they are halved; sides of the same size are
    shuffled alike, so that paired runs stay together. The sides need not be independent of each other.

    Raises UsageError for fewer than 4 runs on a side, NaN scores, a delta outside [0, 1), a confidence outside (0, 1).
    """
    inside, outside = checked_runs(members), checked_runs(non_members)
    return split_bounds(inside, outside, shares_above, score_thresholds, delta, confidence, seed)


def split_bounds(
    members: np.ndarray,
    non_members: np.ndarray,
    decide: Decide,
    candidates: Decide,
    delta: float,
    confidence: float,
    seed: int,
) -> LowerBounds:
    """Chooses the rule on one half of the runs (rows) and evaluates it on the other. decide, candidates: see
    `decisions`."""
    alpha = checked_alpha(delta, confidence)
    tried, choosing, judging = decisions(members, non_members, decide, candidates, seed)
    chosen, judged = (estimated(*sides, tried, alpha / 2) for sides in (choosing, judging))
    return best_bounds(chosen, judged.at, delta)


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


def best_bounds(chosen: Rates, judge: Callable[[list[int]], Rates], delta: float) -> LowerBounds:
    """The bounds of the rules whose limits in ``chosen`` give the largest ones (the first of equal rules).

    judge([index of the threshold]) gives the rates that are reported. With ``chosen.at`` the same limits choose and
    judge, which is valid where they hold simultaneously.
    """

    def best(method: Method) -> Bound:
        def value(tpr_lower: np.ndarray, fpr_upper: np.ndarray) -> np.ndarray:
            return mu_lower(tpr_lower, fpr_upper) if method == "gdp" else log_ratio(tpr_lower, fpr_upper, delta)

        (_, in_low, in_high), (_, out_low, out_high) = chosen.members, chosen.others
        above, below = value(in_low, out_high), value(1 - in_high, 1 - out_low)
        index = int(np.argmax(np.maximum(above, below)))
        return _bound_of(judge([index]), bool(above[index] >= below[index]), method, delta)

    return LowerBounds(best("gdp"), best("approximate"))


def _bound_of(rates: Rates, above: bool, method: Method, delta: float) -> Bound:
    """The bound that the limits at one threshold give."""
    decision = decision_of(rates, above)
    limits = decision.tpr_lower, decision.fpr_upper
    mu = max(0.0, float(mu_lower(*limits)))
    epsilon = epsilon_of_mu(mu, delta) if method == "gdp" else float(epsilon_of_rates(*limits, delta))
    return Bound(epsilon, mu, decision)


def decision_of(rates: Rates, above: bool) -> Decision:
    """The rule with one threshold that takes scores above it, or those at most it, for members."""
    tpr, in_low, in_high = (float(each[0]) for each in rates.members)
    fpr, out_low, out_high = (float(each[0]) for each in rates.others)
    if not above:
        tpr, in_low, fpr, out_high = 1 - tpr, 1 - in_high, 1 - fpr, 1 - out_low
    return Decision(
        threshold=float(rates.thresholds[0]),
        side="above" if above else "below",
        tpr=tpr,
        tpr_lower=in_low,
        fpr=fpr,
        fpr_upper=out_high,
        trials_in=rates.trials_in,
        trials_out=rates.trials_out,
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
    return between[_ranks(len(between), MOST_THRESHOLDS) - 1]


def checked_runs(scores: ArrayLike) -> np.ndarray:
    """float64[n] or [n, m], n independent runs with m > 1 noise resamples; raises UsageError as `audit_bound` does."""
    runs = np.asarray(scores, dtype=np.float64)
    if runs.ndim == 2 and runs.shape[1] == 1:
        runs = runs[:, 0]
    if runs.ndim not in (1, 2) or runs.size == 0 or len(runs) < FEWEST_RUNS:
        raise UsageError(f"An audit needs at least {FEWEST_RUNS} independent runs on each side; run more trials.")
    if np.isnan(runs).any():
        raise UsageError("A score is NaN; fix the attack, since dropping the run would bias the bound.")
    return runs


def estimated(inside: np.ndarray, outside: np.ndarray, thresholds: np.ndarray, alpha: float) -> Rates:
    """Rates from decisions or probabilities [n, k] of both sides, every limit one-sided at level alpha."""
    members, others = (np.stack([side.mean(axis=0), *rate_limits(side, alpha)]) for side in (inside, outside))
    return Rates(thresholds, members, others, len(inside), len(outside))


def _ranks(runs: int, most: int) -> np.ndarray:
    """Increasing ranks in 1..runs, a function of the two numbers alone: all, or ``most``, denser at both ends."""
    if runs <= most:
        return np.arange(1, runs + 1)
    near = np.unique(np.geomspace(1, runs / 2, most // 2).round().astype(int))
    return np.unique(np.concatenate([near, runs + 1 - near]))


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
