"""Privacy profiles of bounded-range choices, such as softmax and Gumbel noise (the exponential mechanism).

A choice is epsilon-bounded range when, for every pair of neighbours P and Q, the loss ln(P/Q) lies in [t - epsilon, t]
for some t in [0, epsilon] (Durfee & Rogers 2019). The expectation of a convex function of e^-loss is largest at the two
ends of that interval, so with the threshold x = ln(alpha) the hockey-stick divergence of one choice is at most

    delta_1(x) = max_t p_t (1 - e^(x-t))_+ + (1 - p_t) (1 - e^(x-t+epsilon))_+
               = (1 - e^((x-epsilon)/2))^2 / (1 - e^-epsilon)   for |x| <= epsilon, at t = (x + epsilon)/2,
    p_t = (1 - e^(t-epsilon)) / (1 - e^-epsilon),

and that of k choices, each of which may depend on the earlier ones, at most (Dong, Durfee & Rogers 2020)

    delta_k(x) = max_t p_t delta_(k-1)(x - t) + (1 - p_t) delta_(k-1)(x - t + epsilon).

Both are attained, are the same for adding and removing a record, and are convex in alpha: a supremum of divergences
dominates and composes (Zhu, Dong & Wang 2022, theorem 10). The recursion is tighter than composing delta_1 with itself,
whose variance is epsilon^2/3 a choice where no choice has more than epsilon^2/4.
"""

from __future__ import annotations

import math

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as pld

#: Choices whose recursion is worked out; more are composed of such blocks, which costs less than 1% of epsilon.
BLOCK = 64
#: ln of the probability of losses beyond the grid, which count as infinite.
LOG_TAIL = -41.0


def choice_delta(epsilon: float, x: np.ndarray) -> np.ndarray:
    """delta_1 at thresholds x of either sign, shape of x: the largest divergence of one bounded-range choice."""
    inside = np.expm1(np.minimum((x - epsilon) / 2, 0.0)) ** 2 / -math.expm1(-epsilon)
    return np.where(x < -epsilon, -np.expm1(np.minimum(x, 0.0)), inside)


def round_pair(epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """The pair of distributions that dominates a round of AboveThreshold: two outcomes, with the record and without.

    Its loss lies in [-2 epsilon, epsilon] for all neighbours, so both ends are known, and by the same convexity the
    worst release has these two losses alone. One pair for all rounds: they compose by convolution.
    """
    high = math.expm1(-2 * epsilon) / (math.expm1(-2 * epsilon) - math.expm1(epsilon))  # without, the larger loss
    without = np.array([high, 1 - high])
    return without * np.exp([epsilon, -2 * epsilon]), without


def choices_delta(epsilon: float, count: int, cells: int) -> np.ndarray:
    """Upper bounds on delta_count at x = epsilon/cells * (-n, ..., n), shape (2n + 1,); exact for one choice.

    Between grid points delta_(k-1), convex in e^x, is replaced by its chord, so each step can only round up. n reaches
    count * epsilon or, for many choices, the loss that is exceeded with probability e^-41 (Azuma).
    """
    reach = min(count, math.ceil(count * epsilon / 8 + math.sqrt(-LOG_TAIL / 2 * count)) + 1) * cells
    x = np.arange(-reach, reach + 1) * (epsilon / cells)
    delta = -np.expm1(np.minimum(x, 0.0))
    for _ in range(count):
        delta = _one_more(delta, epsilon, cells, x)
    return delta


def choices_pld(epsilon: float, count: int, cells: int) -> pld.PrivacyLossDistribution:
    """The pessimistic privacy loss distribution of ``count`` adaptive choices, on multiples of epsilon/cells."""
    blocks, rest = divmod(count, BLOCK)
    grid = epsilon / cells
    total = pld.identity(grid)
    for size, times in ((BLOCK, blocks), (rest, 1 if rest else 0)):
        if times:
            total = total.compose(from_profile(choices_delta(epsilon, size, cells), grid).self_compose(times))
    return total


def choice_pld(epsilon: float, grid: float) -> pld.PrivacyLossDistribution:
    """The pessimistic privacy loss distribution of one choice, on multiples of any ``grid``."""
    reach = math.ceil(epsilon / grid)
    return from_profile(choice_delta(epsilon, np.arange(-reach, reach + 1) * grid), grid)


def from_profile(deltas: np.ndarray, grid: float) -> pld.PrivacyLossDistribution:
    """The distribution of a symmetric profile of shape (2n + 1,) at grid * (-n, ..., n); the last delta is infinite."""
    reach = len(deltas) // 2
    deltas = np.minimum.accumulate(np.clip(deltas, 0.0, 1.0))
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(grid, -reach, reach, deltas)
    return pld.PrivacyLossDistribution(pmf.to_dense_pmf())


def _one_more(delta: np.ndarray, epsilon: float, cells: int, x: np.ndarray) -> np.ndarray:
    """delta_k from delta_(k-1): the maximum over all t in [0, epsilon], cell by cell.

    In a cell s = e^-t runs over [after, at], both deltas are linear in s, and the sum is const + slope s + bend/s: its
    maximum is at an end or, where it is concave, at sqrt(bend/slope).
    """
    grid, low = epsilon / cells, math.exp(-epsilon)
    below = x[0] + np.arange(-cells, 0) * grid
    start = -np.expm1(below) + np.exp(below - x[0]) * (delta[0] + math.expm1(x[0]))  # the chord from delta(-inf) = 1
    values = np.concatenate([start, delta, np.full(cells, delta[-1])])
    size = len(delta)

    def mixed(s: np.ndarray | float, high: np.ndarray, small: np.ndarray) -> np.ndarray:
        weight = (1 - low / s) / (1 - low)
        return weight * high + (1 - weight) * small

    def shifted(step: int) -> np.ndarray:
        return values[cells + step : cells + step + size]

    best = mixed(1.0, shifted(0), shifted(cells))
    for j in range(cells):
        at, after = math.exp(-j * grid), math.exp(-(j + 1) * grid)
        high, next_high = shifted(-j), shifted(-j - 1)
        small, next_small = shifted(cells - j), shifted(cells - j - 1)
        rise, small_rise = (high - next_high) / (at - after), (small - next_small) / (at - after)
        slope = rise - low * small_rise
        bend = low * (small - small_rise * at - high + rise * at)
        concave = (slope < 0) & (bend < 0)
        s = np.clip(np.sqrt(np.divide(bend, slope, out=np.full(size, at), where=concave)), after, at)
        share = (s - after) / (at - after)
        inner = mixed(s, share * high + (1 - share) * next_high, share * small + (1 - share) * next_small)
        best = np.maximum(best, np.maximum(inner, mixed(after, next_high, next_small)))
    return best
