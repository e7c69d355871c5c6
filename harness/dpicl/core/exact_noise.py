"""Draws noise from random words, with a proved distance to the ideal distributions (docs/accounting.md, secure noise).
Nothing here knows a record; a release adds what is drawn here to a prepared input (dpicl.privacy.secure_release).

**Gaussian.** ``step`` is a power of two with scale = r * step, 2^46 <= r < 2^47. What is drawn is (n + 1/2) * step,
where n is a Gaussian of deviation r, rounded down. So on an input of whole steps it is a Gaussian mechanism whose
output is rounded, which is post-processing, and the float sum of input and noise is a function of their exact sum.

1. A cell of 2^43 values of |n| is chosen by its mass: a table of whole numbers up to 2^128, made with whole numbers.
2. A value in the cell is drawn uniformly and kept with probability exp(-a), a its loss against the cell's first one;
   else another value of the same cell is drawn, so that the cell's mass stays what it is. The comparison is made in
   floats; where these are closer to each other than `DOUBT`, in whole numbers of 256 bits.

Per coordinate, the distribution differs from that of the rounded Gaussian by

* a total variation of at most `ADDED`: 224 cells, each off by 2^-127, and the tail beyond 14 deviations, 2^-145;
* beyond that, a factor of at most e^(+-`FACTOR`): in a step the density is not constant, (14^2 + 1)/(24 * 2^92), and
  the comparison is off by 2^-250.

**Gumbel.** -ln(E) of an exponential E that has a relative error and no absolute one: both ends of the uniform number
behind it have as many digits as its middle. So each value, and its sum with a score between -1024 and 0, is within
`GUMBEL_ERROR` of what is exactly Gumbel, always: 2^-41 for the logarithms, and 2^-43 for each of three roundings.

The library's exponential and logarithms are taken to be right to 4 units in the last place.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache

import numpy as np

#: number -> so many fresh and uniform 64-bit words.
Words = Callable[[int], np.ndarray]

#: log2 of scale/step (rounded down), and of the values of a cell.
STEP_BITS, CELL_BITS = 46, 43
CELL = 1 << CELL_BITS
#: Standard deviations at which the distribution ends.
REACH = 14
#: log2 of the total of the table, of the numbers that it is worked out with, and of those of a close comparison.
TABLE_BITS, WORKING_BITS, CLOSE_BITS = 128, 448, 256
#: A comparison of floats that is closer than this is made again.
DOUBT = 2.0**-44
#: A Gaussian coordinate's distance from the ideal one: total variation, and logarithm of a factor beside it.
ADDED, FACTOR = 2.0**-118, 2.0**-76
#: A noisy score's distance from the ideal one, in temperatures.
GUMBEL_ERROR = 2.0**-40


def step_of(scale: float) -> float:
    """The power of two that Gaussian noise of this deviation is a multiple of, but for half a step."""
    return math.ldexp(1.0, math.frexp(scale)[1] - 1 - STEP_BITS)


def gaussian(scale: float, size: int, words: Words) -> np.ndarray:
    """float64[size]: Gaussian noise of deviation ``scale`` > 0 in steps (see above)."""
    step = step_of(scale)
    ratio = scale / step  # exact
    drawn, left = np.empty(size), np.arange(size)
    # once: less is kept of a steeper cell
    cells = _cells(_table(ratio), *words(2 * size).reshape(2, size))
    while left.size:
        coin, place = words(2 * left.size).reshape(2, left.size)
        cell, inside = cells[left], (place >> np.uint64(64 - CELL_BITS)).astype(np.int64)
        sign = np.where(place & np.uint64(1), 1.0, -1.0)
        inside_kept = _draw_kept(cell, inside, ratio, coin, words)
        drawn[left[inside_kept]] = ((cell * CELL + inside + 0.5) * sign * step)[inside_kept]
        left = left[~inside_kept]
    return drawn


def gumbel(size: int, words: Words) -> np.ndarray:
    """float64[size] of the standard Gumbel distribution, each within 2^-41 + 2^-50 of an exact one."""
    return -np.log(exponential(size, words))


def exponential(size: int, words: Words) -> np.ndarray:
    """float64[size] of the standard exponential distribution, each within a factor 1 +- 2^-50 of an exact one."""
    zeros, more = _leading_zeros(size, words), words(size)
    # uniform in (0, 1/2)
    half = np.ldexp(1 + (more >> np.uint64(12)).astype(np.float64) * 2.0**-52, -2 - zeros)
    return np.where(more & np.uint64(1), -np.log1p(-half), -np.log(half))


def _leading_zeros(size: int, words: Words) -> np.ndarray:
    """int64[size]: how many zeros an endless line of random bits begins with."""
    zeros, going = np.zeros(size, dtype=np.int64), np.arange(size)
    while going.size:
        bits = words(going.size) >> np.uint64(11)  # 53, which a float holds
        zeros[going] += 53 - np.frexp(bits.astype(np.float64))[1]
        going = going[bits == 0]
    return zeros


def _cells(table: tuple[int, ...], high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """int64: for each number high * 2^64 + low the number of entries that are not above it."""
    # the last entry is 2^128
    tops = np.array([entry >> 64 for entry in table[:-1]], dtype=np.uint64)
    cells = np.searchsorted(tops, high, side="right")
    for at in np.flatnonzero(np.isin(high, tops)):
        cells[at] = bisect_right(table, (int(high[at]) << 64) | int(low[at]))
    return cells


def _draw_kept(
    cell: np.ndarray, inside: np.ndarray, ratio: float, coin: np.ndarray, words: Words
) -> np.ndarray:
    """bool: whether coin / 2^64, with further bits where they matter, is below exp(-a).

    a = ((n + 1/2)^2 - (m + 1/2)^2) / (2 ratio^2) = j (j + 2 m + 1) / (2 ratio^2), of the value n = m + j in a cell that
    begins with m.
    """
    wide = inside.astype(np.float64)
    chance = np.exp(-wide * (wide + 2.0 * CELL * cell + 1.0) / (2.0 * ratio * ratio))
    uniform = coin.astype(np.float64) * 2.0**-64
    inside_kept = uniform < chance
    for at in np.flatnonzero(np.abs(uniform - chance) < DOUBT):
        more = words(CLOSE_BITS // 64 - 1)
        bits = sum(
            int(word) << (64 * place) for place, word in enumerate([*more.tolist(), int(coin[at])])
        )
        inside_kept[at] = bits < scaled_chance(int(cell[at]), int(inside[at]), ratio)
    return inside_kept


def scaled_chance(cell: int, inside: int, ratio: float) -> int:
    """2^256 exp(-a), a as in `_draw_kept`, but for 2^6."""
    top, bottom = ratio.as_integer_ratio()
    doubled = inside * (inside + 2 * CELL * cell + 1) * bottom**2
    loss = (doubled << (CLOSE_BITS + 64)) // (2 * top**2)
    size = total = 1 << (CLOSE_BITS + 64)
    number = 0
    while size:
        number += 1
        size = (size * loss >> (CLOSE_BITS + 64)) // number
        total += (-1) ** number * size
    return total >> 64


@lru_cache(maxsize=64)
def _table(ratio: float) -> tuple[int, ...]:
    """Whole numbers up to 2^128: entry c is 2^128 times the share of |Gaussian of deviation ratio| in cells 0 to c.

    The integral of e^(-t^2/2) from 0 to x is the sum of (-1)^k x^(2k+1) / (2^k k! (2k+1)). Its terms stay below
    14 e^98, so numbers with 448 bits behind the point leave more than 128.
    """
    top, bottom = ratio.as_integer_ratio()
    sums = []
    for edge in range(1, math.ceil(REACH * ratio / CELL) + 1):
        x = ((edge * CELL * bottom) << WORKING_BITS) // top
        square = x * x >> WORKING_BITS
        size, total, number = x, x, 0
        while size:
            number += 1
            size = (size * square >> WORKING_BITS) // (2 * number)
            total += (-1) ** number * (size // (2 * number + 1))
        sums.append(total)
    return tuple((each << TABLE_BITS) // sums[-1] for each in sums)
