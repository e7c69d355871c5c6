"""Audits of a Gaussian release whose clean values are known: closed forms, and the published bootstrap.

The auditor's score is a linear statistic of the release, so run i scores s_i + N(0, sd^2) with s_i known. TPR and FPR
are then Gaussian mixtures in closed form, and no trial of the noise is needed. Here the runs that were collected are
the whole population, each with the same weight. Exact; no confidence is involved, and none about further runs follows.
(That they are a sample of those that the mechanism can make is what dpicl.attacks.paired takes into account.)

The published audit (Xia et al. 2025, algorithm 1) draws clean values with replacement, adds noise, and takes
Clopper-Pearson limits over 400,000 such trials, five times. That is a conditional bound too: it ignores that the clean
values are few (`clean_share` says how much of the uncertainty that leaves out), its threshold is chosen on the trials
that it is evaluated on, and a mean of lower bounds is no lower bound at their confidence. It is here for comparison.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import CubicSpline
from scipy.special import expit, logit, ndtr, ndtri

from dpicl.attacks.limits import clopper_pearson_lower
from dpicl.attacks.lower_bounds import (
    LowerBounds,
    Rates,
    best_bounds,
    checked_alpha,
    checked_runs,
    estimated,
    score_thresholds,
    shares_above,
)
from dpicl.attacks.trade_offs import check_delta
from dpicl.core.errors import UsageError

#: Thresholds of the closed forms, from REACH standard deviations below the smallest clean value to as many above.
GRID = 4001
REACH = 8.0
#: Rates below this (or above one minus this) are not used: 1 - rate has lost its digits.
SMALLEST_RATE = 1e-12
#: Where delta is smaller, mu of a mixture is read off at rates of at least this.
SMALLEST_MU_RATE = 1e-9
#: Counts at which limits are computed exactly before they are interpolated; half of them near each end.
KNOTS = 4000


@dataclass(frozen=True)
class BootstrapBounds:
    """The published audit, all of it conditional on the collected clean values.

    repeats: each repeat's bounds, threshold chosen on the trials it is evaluated on: its confidence is not kept.
    mean_epsilon: mean over repeats of the gdp bounds, as published; not a bound at any stated confidence.
    split: the first repeat with the rule chosen on half of its trials and evaluated on the other half.
    """

    repeats: tuple[LowerBounds, ...]
    mean_epsilon: float
    split: LowerBounds


@dataclass(frozen=True)
class CleanShare:
    """Where the variance of an estimated mu comes from, at one threshold.

    share: clean_std^2 over the sum of both squares. clean_std, noise_std: standard deviations of mu because of the few
    clean values, and of the finite trials of the noise.
    """

    share: float
    clean_std: float
    noise_std: float


def exceedance(clean: np.ndarray, sd: float, thresholds: np.ndarray) -> np.ndarray:
    """P(s_i + N(0, sd^2) > t): clean[n], thresholds[k] -> float64[n, k]; decisions bool[n, k] where sd is 0.

    Raises UsageError for a negative sd.
    """
    _check_noise(sd)
    if sd == 0:
        return clean[:, None] > thresholds
    return ndtr((clean[:, None] - thresholds) / sd)


def exact_bound(members_clean: ArrayLike, non_members_clean: ArrayLike, sd: float, delta: float) -> LowerBounds:
    """The exact bounds of clean scores [n] that were collected on each side, and the noise's standard deviation.

    The bounds are maximal over a fine grid of thresholds. The approximate one is then the epsilon at delta of the two
    mixtures themselves, up to the grid. The mu is taken over rates in [delta, 1 - delta]: further out the mu of a
    mixture tends to that of its most extreme clean value, however rare.
    Raises UsageError as `audit_bound` does, and for a negative sd.
    """
    inside, outside = _clean(members_clean), _clean(non_members_clean)
    check_delta(delta)
    thresholds = _grid(inside, outside, sd)
    tpr, fpr = (np.tile(exceedance(clean, sd, thresholds).mean(axis=0), (3, 1)) for clean in (inside, outside))
    rates = Rates(thresholds, tpr, fpr, len(inside), len(outside))
    if sd == 0:
        return best_bounds(rates, rates.at, delta)
    moderate, usable = _within(rates, max(delta, SMALLEST_MU_RATE)), _within(rates, SMALLEST_RATE)
    gdp = best_bounds(moderate, moderate.at, delta).gdp
    return LowerBounds(gdp, best_bounds(usable, usable.at, delta).approximate)


def bootstrap_bound(
    members_clean: ArrayLike,
    non_members_clean: ArrayLike,
    sd: float,
    delta: float,
    trials: int = 400_000,
    confidence: float = 0.95,
    repeats: int = 5,
    seed: int = 0,
) -> BootstrapBounds:
    """The published audit: ``trials`` noisy draws a side from clean scores [n], at all thresholds, ``repeats`` times.

    Each limit is one-sided at alpha/2 with alpha = 1 - confidence (published: alpha each). Raises UsageError as
    `exact_bound` does, and for fewer than 4 trials or no repeat.
    """
    inside, outside = _clean(members_clean), _clean(non_members_clean)
    alpha = checked_alpha(delta, confidence)
    _check_noise(sd)
    if trials < 4 or repeats < 1:
        raise UsageError(f"A bootstrap needs at least 4 trials and a repeat, not {trials} and {repeats}.")
    generator = np.random.default_rng(seed)
    done = []
    for repeat in range(repeats):
        draws = _draws(inside, sd, trials, generator), _draws(outside, sd, trials, generator)
        done.append(_resampled(draws, draws, delta, alpha))
        if repeat == 0:
            halves = [tuple(side[part] for side in draws) for part in (slice(trials // 2), slice(trials // 2, None))]
            split = _resampled(halves[0], halves[1], delta, alpha)
    return BootstrapBounds(tuple(done), float(np.mean([bounds.gdp.epsilon for bounds in done])), split)


def clean_share(
    members_clean: ArrayLike, non_members_clean: ArrayLike, sd: float, threshold: float, trials: int = 400_000
) -> CleanShare:
    """How much of the variance of mu at a fixed threshold is due to the few clean values (delta method).

    mu = ppf(P) - ppf(Q) with P, Q the means of exceedances p_i, q_j over n and l clean values, so
    Var(mu) = [S_p^2/n + P(1 - P)/trials] / phi(ppf(P))^2 + [S_q^2/l + Q(1 - Q)/trials] / phi(ppf(Q))^2
    with S^2 the sample variances of exceedances: the first term of each bracket is the clean values' part, the second
    that of ``trials`` draws of the noise. Raises UsageError where P or Q is 0 or 1 (mu is infinite) or trials < 1.
    """
    if trials < 1:
        raise UsageError(f"The number of trials must be at least 1, not {trials}.")
    clean_part = noise_part = 0.0
    for clean in (_clean(members_clean), _clean(non_members_clean)):
        above = exceedance(clean, sd, np.array([threshold])).astype(np.float64)[:, 0]
        rate = float(above.mean())
        if not 0 < rate < 1:
            raise UsageError(f"At threshold {threshold:g} a rate is {rate:g}; choose a threshold inside the scores.")
        slope = math.sqrt(2 * math.pi) * math.exp(float(ndtri(rate)) ** 2 / 2)
        clean_part += slope**2 * float(above.var(ddof=1)) / len(above)
        noise_part += slope**2 * rate * (1 - rate) / trials
    return CleanShare(clean_part / (clean_part + noise_part), clean_part**0.5, noise_part**0.5)


def _within(rates: Rates, floor: float) -> Rates:
    """The thresholds at which both rates lie in [floor, 1 - floor]; all of them where there is none."""
    usable = np.logical_and.reduce([(r >= floor) & (r <= 1 - floor) for r in (rates.members[0], rates.others[0])])
    return rates.at(usable) if usable.any() else rates


def _grid(inside: np.ndarray, outside: np.ndarray, sd: float) -> np.ndarray:
    """Thresholds around all clean values; those between them where there is no noise."""
    _check_noise(sd)
    if sd == 0:
        return score_thresholds(inside, outside)
    both = np.concatenate([inside, outside])
    return np.linspace(both.min() - REACH * sd, both.max() + REACH * sd, GRID)


def _draws(clean: np.ndarray, sd: float, trials: int, generator: np.random.Generator) -> np.ndarray:
    """float64[trials]: clean values with replacement, plus noise."""
    return clean[generator.integers(len(clean), size=trials)] + sd * generator.standard_normal(trials)


def _resampled(
    choosing: tuple[np.ndarray, ...], judging: tuple[np.ndarray, ...], delta: float, alpha: float
) -> LowerBounds:
    """Chooses the rules on one pair of samples (with and without the canary) at all its scores; judges on another.

    The choice uses interpolated limits, the bound exact ones.
    """
    inside, outside = np.sort(choosing[0]), np.sort(choosing[1])
    thresholds = np.sort(np.concatenate([inside, outside]), kind="stable")  # stable: a merge of two sorted runs
    sides = []
    for scores in (inside, outside):
        above = len(scores) - np.searchsorted(scores, thresholds, side="right")
        limits = _interpolated_lower(len(scores), alpha / 2)
        sides.append(np.stack([above / len(scores), limits[above], 1 - limits[len(scores) - above]]))
    chosen = Rates(thresholds, sides[0], sides[1], len(inside), len(outside))

    def judge(index: list[int]) -> Rates:
        above = [shares_above(scores, thresholds[index]) for scores in judging]
        return estimated(above[0], above[1], thresholds[index], alpha / 2)

    return best_bounds(chosen, judge, delta)


def _interpolated_lower(trials: int, alpha: float) -> np.ndarray:
    """float64[trials + 1]: Clopper-Pearson lower limits of all counts, by a cubic spline of their log-odds.

    The inverse beta function at every one of 400,000 counts would take a second; the log-odds are smooth in log-odds.
    """
    near = np.geomspace(1, max(1.0, trials / 2), KNOTS // 2).round()
    knots = np.unique(np.concatenate([near, trials + 1 - near]))
    counts = np.arange(1, trials + 1)
    spline = CubicSpline(np.log(knots / (trials + 1 - knots)), logit(clopper_pearson_lower(knots, trials, alpha)))
    return np.concatenate([[0.0], expit(spline(np.log(counts / (trials + 1 - counts))))])


def _check_noise(sd: float) -> None:
    if not 0 <= sd < math.inf:
        raise UsageError(f"The standard deviation of the noise must be a number of at least 0, not {sd}.")


def _clean(scores: ArrayLike) -> np.ndarray:
    """float64[n], finite; raises UsageError otherwise."""
    clean = checked_runs(scores)
    if clean.ndim != 1 or np.isinf(clean).any():
        raise UsageError("Clean scores must be one finite number a run.")
    return clean
