"""Intervals of one score: over the test records of a cell, over seeds, of a ratio, of a share.
dpicl.evaluation.statistics compares two scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import special

from dpicl.core.errors import UsageError
from dpicl.evaluation.statistics import LEVEL, student_quantile, summarize

#: Bootstrap replicates. The limits of a 95% interval then move by well under a hundredth of its width between seeds.
DRAWS = 10_000


def bootstrap_interval(
    outcomes: Sequence[float] | np.ndarray,
    seed: int = 0,
) -> tuple[float, float]:
    """95% percentile bootstrap interval of the mean of outcomes[D] over documents; it says nothing about other seeds.
    Raises UsageError when there is no outcome, and for a NaN."""
    values = np.asarray(outcomes, dtype=np.float64)
    if values.ndim != 1 or not values.size or np.isnan(values).any():
        raise UsageError(
            "An interval needs at least one outcome, and every outcome must be a number."
        )
    count = len(values)
    draws = np.random.default_rng(seed).multinomial(
        count,
        np.full(count, 1 / count),
        size=DRAWS,
    )
    means = draws.astype(np.float64) @ values / count
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return low, high


def seeds_interval(scores: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Student's 95% interval of the mean of scores[S] of independent seeds; (-inf, inf) for fewer than two."""
    summary = summarize(np.asarray(scores, dtype=np.float64))
    if summary.seeds < 2:
        return -math.inf, math.inf
    half = float(summary.half_width(1 - LEVEL))
    return float(summary.mean) - half, float(summary.mean) + half


def ratio_interval(numerator: np.ndarray, denominator: np.ndarray) -> tuple[float, float]:
    """95% interval of mean(numerator) / mean(denominator), both float64[S], paired by seed.

    Fieller 1954 (JRSS B 16(2)): the ratios r at which Student's t does not exclude that the mean of numerator - r *
    denominator is 0. (-inf, inf) for fewer than two seeds, and where the denominator may be 0. Raises UsageError when
    the two differ in length.
    """
    if numerator.shape != denominator.shape:
        raise UsageError("The two means of a ratio need the same seeds.")
    count = len(numerator)
    if count < 2:
        return -math.inf, math.inf
    above, below = float(numerator.mean()), float(denominator.mean())
    (var_above, covariance), (_, var_below) = np.cov(numerator, denominator) / count
    squared = float(student_quantile(count - 1, 1 - LEVEL)) ** 2
    curvature = below**2 - squared * var_below  # of the quadratic inequality in r
    if curvature <= 0:
        return -math.inf, math.inf
    middle = above * below - squared * covariance
    discriminant = middle**2 - curvature * (above**2 - squared * var_above)
    root = math.sqrt(max(discriminant, 0.0))
    return float((middle - root) / curvature), float((middle + root) / curvature)


def wilson_interval(
    successes: int,
    trials: int,
    level: float = LEVEL,
) -> tuple[float, float]:
    """Wilson score interval of a share (Wilson 1927; Brown, Cai & DasGupta 2001 recommend it for small counts).

    Raises UsageError unless 0 <= successes <= trials and trials >= 1.
    """
    if not 0 <= successes <= trials or trials < 1:
        raise UsageError(
            f"A share needs 0 <= successes <= trials and a trial, not {successes} of {trials}."
        )
    z2 = float(special.ndtri((1 + level) / 2)) ** 2
    middle = successes + z2 / 2
    half = math.sqrt(z2 * (successes * (trials - successes) / trials + z2 / 4))
    low = 0.0 if successes == 0 else (middle - half) / (trials + z2)
    high = 1.0 if successes == trials else (middle + half) / (trials + z2)
    return low, high
