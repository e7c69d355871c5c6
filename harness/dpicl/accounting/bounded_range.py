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

*One choice on each of k Poisson samples* at rate q has a recursion of the same kind. With r = P/Q of the choice,
m = 1 - q + q r is the likelihood ratio of the sample, with the record over without; r lies in [e^(t-epsilon), e^t], and
E_Q m = 1. What the record's removal and addition cost from then on,

    E_Q m delta_(k-1)(x - ln m)    and    E_Q delta_(k-1)(x + ln m),

are expectations of convex functions of m, since delta_(k-1) is convex in e^x (and so is m delta(e^x / m), its
perspective). So they are largest at the two ends of the interval of m, and what remains is the maximum over t.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as pld

#: Choices whose recursion is worked out; more are composed of such blocks, which costs less than 1% of epsilon.
BLOCK = 64
#: ln of the probability of losses beyond the grid, which count as infinite.
LOG_TAIL = -41.0


def choice_delta(epsilon: float, x: np.ndarray) -> np.ndarray:
    """delta_1 at thresholds x of either sign, shape of x: the largest divergence of one bounded-range choice."""
    half = np.minimum((x - epsilon) / 2, 0.0)
    inside = np.expm1(half) ** 2 / -math.expm1(-epsilon)
    return np.where(
        x < -epsilon,
        -np.expm1(np.minimum(x, 0.0)),
        inside,
    )


def round_pair(epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """The pair of distributions that dominates a round of AboveThreshold: two outcomes, with the record and without.

    Its loss lies in [-2 epsilon, epsilon] for all neighbours, so both ends are known, and by the same convexity the
    worst release has these two losses alone. One pair for all rounds: they compose by convolution.
    """
    low_end = math.expm1(-2 * epsilon)
    high = low_end / (low_end - math.expm1(epsilon))  # without, the larger loss
    without = np.array([high, 1 - high])
    return without * np.exp([epsilon, -2 * epsilon]), without


def choices_delta(epsilon: float, count: int, cells: int) -> np.ndarray:
    """Upper bounds on delta_count at x = epsilon/cells * (-n, ..., n), shape (2n + 1,); exact for one choice.

    Between grid points delta_(k-1), convex in e^x, is replaced by its chord, so each step can only round up. n reaches
    count * epsilon or, for many choices, the loss that is exceeded with probability e^-41 (Azuma).
    """
    reach = most_ranges(epsilon, count) * cells
    x = np.arange(-reach, reach + 1) * (epsilon / cells)
    delta = -np.expm1(np.minimum(x, 0.0))
    for _ in range(count):
        delta = _one_more(delta, epsilon, cells, x)
    return delta


def most_ranges(epsilon: float, count: int) -> int:
    """How many times a range the loss of ``count`` choices is at most, but for a probability of e^-41 (Azuma)."""
    deviation = math.sqrt(-LOG_TAIL / 2 * count)
    return min(count, math.ceil(count * epsilon / 8 + deviation) + 1)


def choices_pld(epsilon: float, count: int, cells: int) -> pld.PrivacyLossDistribution:
    """The pessimistic privacy loss distribution of ``count`` adaptive choices, on multiples of epsilon/cells."""
    grid = epsilon / cells

    def block(size: int) -> pld.PrivacyLossDistribution:
        return from_profile(choices_delta(epsilon, size, cells), grid)

    return _compose_blocks(count, grid, block)


def choice_pld(epsilon: float, grid: float) -> pld.PrivacyLossDistribution:
    """The pessimistic privacy loss distribution of one choice, on multiples of any ``grid``."""
    reach = math.ceil(epsilon / grid)
    return from_profile(choice_delta(epsilon, np.arange(-reach, reach + 1) * grid), grid)


def from_profile(deltas: np.ndarray, grid: float) -> pld.PrivacyLossDistribution:
    """The distribution of a symmetric profile of shape (2n + 1,) at grid * (-n, ..., n); the last delta is infinite."""
    return pld.PrivacyLossDistribution(_pmf(deltas, grid))


def _pmf(deltas: np.ndarray, grid: float) -> pld_pmf.DensePLDPmf:
    """One direction of it, from a profile at the same points."""
    reach = len(deltas) // 2
    deltas = np.minimum.accumulate(np.clip(deltas, 0.0, 1.0))
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
        grid, -reach, reach, deltas
    ).to_dense_pmf()


def sampled_choices_delta(
    epsilon: float, rate: float, count: int, grid: float, *, removed: bool, cells: int
) -> np.ndarray:
    """Upper bounds on the divergence of ``count`` Poisson samples at ``rate`` with one choice each, at grid * (-n, ...,
    n), shape (2n + 1,). removed: with the record against without; else the other way round.

    Between grid points and in each cell of the range, chords of convex functions stand in for them.
    """
    t = np.arange(cells + 1) * (epsilon / cells)
    likelihood = rate * np.expm1(np.stack([t, t - epsilon]))
    loss = np.log1p(likelihood)  # ln m at the upper and at the lower end
    factor = np.exp(loss) if removed else np.ones_like(loss)
    moves = -loss if removed else loss
    steps = np.floor(moves / grid).astype(int)
    share = np.expm1(moves - steps * grid) / math.expm1(grid)  # of the grid point above
    width = float(np.ptp(loss))
    pad = int(np.abs(steps).max()) + 1
    deviation = math.sqrt(-LOG_TAIL / 2 * count)
    reach = math.ceil(min(count, count * width / 8 + deviation + 1) * width / grid) + 1
    x = np.arange(-reach, reach + 1) * grid
    low = math.exp(-epsilon)
    below = np.exp(np.arange(-pad, 0) * grid)
    s = np.exp(t - epsilon)
    delta = -np.expm1(np.minimum(x, 0.0))
    for _ in range(count):
        start = 1 - below * (1 - delta[0])  # the chord from delta(-inf) = 1
        values = np.concatenate([start, delta, np.full(pad + 1, delta[-1])])

        def end(which: int, j: int, values: np.ndarray = values) -> np.ndarray:
            at, weight = pad + steps[which, j], share[which, j]
            beside = (1 - weight) * values[at : at + x.size] + weight * values[
                at + 1 : at + 1 + x.size
            ]
            return factor[which, j] * beside

        upper, lower = end(0, 0), end(1, 0)
        best = upper  # t = 0: the loss is 0
        for j in range(cells):
            next_upper, next_lower = end(0, j + 1), end(1, j + 1)
            inner = _largest(
                low,
                (s[j + 1], next_lower, next_upper),
                (s[j], lower, upper),
            )
            best, upper, lower = np.maximum(best, inner), next_upper, next_lower
        delta = np.minimum(best, 1.0)
    return delta


def sampled_choices_pld(
    epsilon: float, rate: float, count: int, grid: float, cells: int
) -> pld.PrivacyLossDistribution:
    """The pessimistic distribution of one choice on each of ``count`` samples, on multiples of ``grid``."""

    def block(size: int) -> pld.PrivacyLossDistribution:
        remove, add = (
            sampled_choices_delta(epsilon, rate, size, grid, removed=removed, cells=cells)
            for removed in (True, False)
        )
        return pld.PrivacyLossDistribution(_pmf(remove, grid), _pmf(add, grid))

    return _compose_blocks(count, grid, block)


def _compose_blocks(
    count: int, grid: float, block: Callable[[int], pld.PrivacyLossDistribution]
) -> pld.PrivacyLossDistribution:
    """``count`` choices, `BLOCK` at a time. block: the distribution of so many."""
    blocks, rest = divmod(count, BLOCK)
    total = pld.identity(grid)
    for size, times in ((BLOCK, blocks), (rest, int(rest > 0))):
        if times:
            total = total.compose(block(size).self_compose(times))
    return total


def _one_more(
    delta: np.ndarray,
    epsilon: float,
    cells: int,
    x: np.ndarray,
) -> np.ndarray:
    """delta_k from delta_(k-1): the maximum over all t in [0, epsilon], cell by cell.

    In a cell s = e^-t runs over [after, at] and both deltas are linear in s, so the maximum is at an end or inside
    (`_largest`).
    """
    grid, low = epsilon / cells, math.exp(-epsilon)
    below = x[0] + np.arange(-cells, 0) * grid
    # the chord from delta(-inf) = 1
    start = -np.expm1(below) + np.exp(below - x[0]) * (delta[0] + math.expm1(x[0]))
    values = np.concatenate([start, delta, np.full(cells, delta[-1])])
    size = len(delta)

    def shift(step: int) -> np.ndarray:
        return values[cells + step : cells + step + size]

    best = _mix(1.0, shift(0), shift(cells), low)
    for j in range(cells):
        at = (math.exp(-j * grid), shift(-j), shift(cells - j))
        after = (math.exp(-(j + 1) * grid), shift(-j - 1), shift(cells - j - 1))
        best = np.maximum(best, _largest(low, at, after))
    return best


def _mix(
    s: np.ndarray | float,
    high: np.ndarray,
    small: np.ndarray,
    low: float,
) -> np.ndarray:
    weight = (1 - low / s) / (1 - low)
    return weight * high + (1 - weight) * small


def _largest(
    low: float,
    at: tuple[float, np.ndarray, np.ndarray],
    after: tuple[float, np.ndarray, np.ndarray],
) -> np.ndarray:
    """The largest `_mix` value of a cell but for its end ``at``: (s, high, small) at both ends, linear in between.

    The sum is const + slope s + bend/s.
    """
    (first, high, small), (last, next_high, next_small) = at, after
    rise = (high - next_high) / (first - last)
    small_rise = (small - next_small) / (first - last)
    slope = rise - low * small_rise
    bend = low * (small - small_rise * first - high + rise * first)
    concave = (slope < 0) & (bend < 0)
    s = np.clip(
        np.sqrt(np.divide(bend, slope, out=np.full(high.size, first), where=concave)),
        last,
        first,
    )
    share = (s - last) / (first - last)
    inner = _mix(
        s,
        share * high + (1 - share) * next_high,
        share * small + (1 - share) * next_small,
        low,
    )
    return np.maximum(inner, _mix(last, next_high, next_small, low))
