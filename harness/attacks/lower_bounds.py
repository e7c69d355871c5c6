"""From scores of runs with and without a canary to lower bounds on epsilon, at a stated confidence.

A larger score speaks for membership ("the canary is in"). A rule says "in" above a threshold (score > t), or, where
scores point the other way, at or below it (score <= t): equal scores always fall on the same side, and swapping the
labels together with the rule changes nothing.

`audit_bound` answers with two bounds, because they say different things (see `dpicl.harness.attacks.trade_offs`):

* gdp: the mechanism is not mu-GDP for a smaller mu. This needs no assumption. Its epsilon at delta is right only for a
  mechanism whose curve is Gaussian, such as a composition of Gaussian releases without subsampling.
* pure: the plain ln((TPR - delta)/FPR), in both directions. It is valid for every mechanism.

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

from dpicl.harness.attacks.limits import rate_limits
from dpicl.harness.attacks.trade_offs import check_delta, epsilon_of_mu, log_ratio, mu_lower, pure_epsilon_lower
from dpicl.harness.core.errors import UsageError

Method = Literal["gdp", "pure"]

#: Fewer independent runs on a side cannot be halved into anything.
FEWEST_RUNS = 4
#: Thresholds that the selecting half tries, at most.
MOST_THRESHOLDS = 200


@dataclass(frozen=True)
class Bound:
    """One lower bound, and the rule that gave it.

    epsilon: lower bound at delta. mu: lower bound on mu of Gaussian DP from the same two limits.
    threshold, above: the rule is "in" for scores > threshold if above, else for scores <= threshold.
    tpr, fpr: realised rates of the rule; tpr_lower, fpr_upper: their limits. trials_in, trials_out: the independent
    runs behind them.
    """

    epsilon: float
    mu: float
    threshold: float
    above: bool
    tpr: float
    tpr_lower: float
    fpr: float
    fpr_upper: float
    trials_in: int
    trials_out: int


@dataclass(frozen=True)
class LowerBounds:
    """Both bounds of one audit; each holds at its confidence, and only one of them may be reported as *the* bound."""

    gdp: Bound
    pure: Bound

    def valid(self, gaussian: bool) -> Bound:
        """The bound that holds for the release: gdp if it is a composition of Gaussian releases, else pure."""
        return self.gdp if gaussian else self.pure


@dataclass(frozen=True)
class Rates:
    """Shares of runs that score above each of k thresholds: all arrays [k].

    members, others: the shares with and without the canary; *_low, *_high: their one-sided limits.
    """

    thresholds: np.ndarray
    members: np.ndarray
    members_low: np.ndarray
    members_high: np.ndarray
    others: np.ndarray
    others_low: np.ndarray
    others_high: np.ndarray
    trials_in: int
    trials_out: int


def audit_bound(
    members: ArrayLike,
    non_members: ArrayLike,
    delta: float,
    confidence: float = 0.95,
    seed: int = 0,
) -> LowerBounds:
    """Lower bounds on epsilon at delta from scores of independent runs: members, non_members [n] or [n, m].

    m scores of a run are noise resamples on the same clean values: the run counts as one, with the share of its
    redraws above the threshold, and gets limits by betting instead of Clopper-Pearson ones. alpha = 1 - confidence is
    split evenly over the two limits. ``seed`` shuffles the runs before they are halved; sides of the same size are
    shuffled alike, so that paired runs stay together. The sides need not be independent of each other.

    Raises UsageError for fewer than 4 runs on a side, NaN scores, a delta outside [0, 1), a confidence outside (0, 1).
    """
    inside, outside = checked_runs(members), checked_runs(non_members)
    return split_bounds(inside, outside, shares_above, score_thresholds, delta, confidence, seed)


def split_bounds(
    members: np.ndarray,
    non_members: np.ndarray,
    decide: Callable[[np.ndarray, np.ndarray], np.ndarray],
    candidates: Callable[[np.ndarray, np.ndarray], np.ndarray],
    delta: float,
    confidence: float,
    seed: int,
) -> LowerBounds:
    """Chooses the rule on one half of the runs (rows) and evaluates it on the other.

    decide(runs[n, ...], thresholds[k]) -> [n, k]: booleans, or probabilities of a score above each threshold.
    candidates(members, non_members) -> thresholds[k], from the selecting half. The larger half evaluates.
    """
    alpha = checked_alpha(delta, confidence)
    choosing_in, judging_in = halves(members, seed)
    choosing_out, judging_out = halves(non_members, seed)

    def rates(inside: np.ndarray, outside: np.ndarray, thresholds: np.ndarray) -> Rates:
        return _estimated(decide(inside, thresholds), decide(outside, thresholds), thresholds, alpha / 2)

    tried = candidates(choosing_in, choosing_out)
    chosen = rates(choosing_in, choosing_out, tried)

    def judge(method: Method) -> Bound:
        index, above = best_rule(chosen, method, delta)
        judged = rates(judging_in, judging_out, tried[[index]])
        return bound_of(judged, 0, above, method, delta)

    return LowerBounds(judge("gdp"), judge("pure"))


def bounds_on_same(rates: Rates, delta: float) -> LowerBounds:
    """The best rules by the limits, and the bounds by the same limits: valid where they hold simultaneously."""
    gdp = bound_of(rates, *best_rule(rates, "gdp", delta), "gdp", delta)
    return LowerBounds(gdp, bound_of(rates, *best_rule(rates, "pure", delta), "pure", delta))


def best_rule(rates: Rates, method: Method, delta: float) -> tuple[int, bool]:
    """(index of the threshold, above): the rule whose limits give the largest bound; the first one of equals."""

    def value(tpr_lower: np.ndarray, fpr_upper: np.ndarray) -> np.ndarray:
        return mu_lower(tpr_lower, fpr_upper) if method == "gdp" else log_ratio(tpr_lower, fpr_upper, delta)

    above = value(rates.members_low, rates.others_high)
    below = value(1 - rates.members_high, 1 - rates.others_low)
    index = int(np.argmax(np.maximum(above, below)))
    return index, bool(above[index] >= below[index])


def bound_of(rates: Rates, index: int, above: bool, method: Method, delta: float) -> Bound:
    """The bound that one rule's limits give."""
    names = ("members", "members_low", "members_high", "others", "others_low", "others_high")
    tpr, in_low, in_high, fpr, out_low, out_high = (float(getattr(rates, name)[index]) for name in names)
    if above:
        low, high = in_low, out_high
    else:
        tpr, low, fpr, high = 1 - tpr, 1 - in_high, 1 - fpr, 1 - out_low
    mu = max(0.0, float(mu_lower(low, high)))
    epsilon = epsilon_of_mu(mu, delta) if method == "gdp" else float(pure_epsilon_lower(low, high, delta))
    return Bound(
        epsilon=epsilon,
        mu=mu,
        threshold=float(rates.thresholds[index]),
        above=above,
        tpr=tpr,
        tpr_lower=low,
        fpr=fpr,
        fpr_upper=high,
        trials_in=rates.trials_in,
        trials_out=rates.trials_out,
    )


def shares_above(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Decisions bool[n, k] of scores[n], or shares of redraws float64[n, k] of scores[n, m], above thresholds[k]."""
    if scores.ndim == 1:
        return scores[:, None] > thresholds
    redraws = np.sort(scores, axis=1)
    at_most = np.stack([np.searchsorted(row, thresholds, side="right") for row in redraws])
    return 1 - at_most / scores.shape[1]


def score_thresholds(members: np.ndarray, non_members: np.ndarray) -> np.ndarray:
    """Thresholds between neighbouring distinct scores, 200 at most, denser at the reference baselines; the score if all
    agree."""
    distinct = np.unique(np.concatenate([members.ravel(), non_members.ravel()]))
    if len(distinct) == 1:
        return distinct
    lower, upper = distinct[:-1], distinct[1:]
    with np.errstate(invalid="ignore"):
        middle = lower / 2 + upper / 2
    between = np.where((middle > lower) & (middle < upper), middle, lower)  # infinite or adjacent scores: the lower one
    return between[_ranks(len(between), MOST_THRESHOLDS) - 1]


def checked_runs(scores: ArrayLike) -> np.ndarray:
    """float64[n] or [n, m], n independent runs with m > 1 redraws; raises UsageError as `audit_bound` does."""
    runs = np.asarray(scores, dtype=np.float64)
    if runs.ndim == 2 and runs.shape[1] == 1:
        runs = runs[:, 0]
    if runs.ndim not in (1, 2) or runs.size == 0 or len(runs) < FEWEST_RUNS:
        raise UsageError(f"An audit needs at least {FEWEST_RUNS} independent runs on each side; run more trials.")
    if np.isnan(runs).any():
        raise UsageError("A score is NaN; fix the attack that gives it, since a run cannot be left out afterwards.")
    return runs


def _estimated(inside: np.ndarray, outside: np.ndarray, thresholds: np.ndarray, alpha: float) -> Rates:
    """Rates from decisions or probabilities [n, k] of both sides, every limit one-sided at level alpha."""
    low_in, high_in = rate_limits(inside, alpha)
    low_out, high_out = rate_limits(outside, alpha)
    share_in, share_out = inside.mean(axis=0), outside.mean(axis=0)
    return Rates(thresholds, share_in, low_in, high_in, share_out, low_out, high_out, len(inside), len(outside))


def _ranks(runs: int, most: int) -> np.ndarray:
    """Increasing ranks in 1..runs, a function of the two numbers alone: all, or ``most``, denser at the reference
    baselines."""
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
