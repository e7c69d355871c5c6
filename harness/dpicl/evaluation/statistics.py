"""Intervals for scores: over documents, over seeds and documents together, for shares, for their ratios."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import numpy as np
from scipy import stats

from dpicl.core.errors import UsageError

#: Of seeds, each a list over the same documents.
Outcomes = Sequence[Sequence[float]] | np.ndarray
#: Bootstrap replicates. The limits of a 95% interval then move by well under a hundredth of its width between seeds.
DRAWS = 10_000
#: Replicates that are held in memory at a time.
_CHUNK = 1_000
#: Weights of one shape of tables that are kept in memory (16 MB), since every row of a table draws the same ones.
_MOST_KEPT = 2_000_000


def bootstrap_interval(
    values: Sequence[float] | np.ndarray, level: float = 0.95, seed: int = 0, draws: int = DRAWS
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean of values[D] (Efron & Tibshirani 1993, chapter 13).

    Raises UsageError when there is no value, one is NaN, or the level is outside (0, 1).
    """
    array = np.asarray(values, dtype=np.float64)
    return seeds_documents_interval(array[None, :] if array.ndim == 1 else array, level, seed, draws)


def seeds_documents_interval(
    outcomes: Outcomes, level: float = 0.95, seed: int = 0, draws: int = DRAWS
) -> tuple[float, float]:
    """Bootstrap interval of the mean of outcomes[S, D]: S seeds that were all scored on the same D documents.

    Every replicate draws seeds with replacement and, independently, documents with replacement; a document keeps its
    outcomes of all drawn seeds, since seeds share the documents (the pigeonhole bootstrap of crossed factors: Owen
    2007, Annals of Applied Statistics 1(2), section 3). With few seeds it understates their part of the variance, by
    the factor (S - 1)/S, as every bootstrap of a mean does.
    With one seed it is the bootstrap over documents, and says nothing about how other seeds would do.
    Raises UsageError when rows differ in length, are empty, hold a NaN, or the level is outside (0, 1).
    """
    return percentile_interval(seeds_documents_means(outcomes, seed, draws), level)


def percentile_interval(means: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """The central `level` of bootstrap replicates[draws].

    Raises UsageError when the level is outside (0, 1).
    """
    _check_level(level)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2]).tolist()
    return low, high


def seeds_documents_means(outcomes: Outcomes, seed: int = 0, draws: int = DRAWS) -> np.ndarray:
    """float64[draws]: the bootstrap replicates of the mean of outcomes[S, D] behind `seeds_documents_interval`.

    Raises UsageError when rows differ in length, are empty or hold a NaN.
    """
    table = _table(outcomes)
    seeds, documents = table.shape
    means: np.ndarray = _sums(table, [_weights(seeds, documents, seed, draws)]) / table.size
    return means


def ratio_interval(
    numerator: Outcomes,
    denominator: Outcomes,
    level: float = 0.95,
    seed: int = 0,
    draws: int = DRAWS,
) -> tuple[float, float]:
    """Bootstrap interval of mean(numerator) / mean(denominator), both [S, D] over the same seeds and documents.

    Seeds and documents are drawn as in `seeds_documents_interval`, and the same draw serves both, so what they share
    cancels. For a denominator that is positive in truth: a replicate in which it is not could be a ratio of any size
    and counts as -inf for the lower limit and as inf for the upper one (compare Fieller 1954, JRSS B 16(2): an interval
    of a ratio is unbounded when the denominator may be zero). So the limits are -inf and inf when there are too many
    such replicates. Raises UsageError as `seeds_documents_interval` does, and when the two differ in shape.
    """
    above, below = _table(numerator), _table(denominator)
    _check_level(level)
    if above.shape != below.shape:
        raise UsageError("The two means of a ratio need the same seeds and documents.")
    seeds, documents = below.shape
    drawn = list(_both_drawn(seeds, documents, seed, draws))
    tops, bottoms = _sums(above, drawn), _sums(below, drawn)
    defined = bottoms > 1e-9
    ordered = np.sort(np.divide(tops, bottoms, out=np.full_like(tops, -np.inf), where=defined))
    first, last = math.floor((draws - 1) * (1 - level) / 2), math.ceil((draws - 1) * (1 + level) / 2)
    upper = last + int((~defined).sum())  # the place of the upper limit, where undefined ones are the lowest
    return float(ordered[first]), float(ordered[upper]) if upper < draws else math.inf


def wilson_interval(successes: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson score interval of a share (Wilson 1927; Brown, Cai & DasGupta 2001 recommend it for small counts).

    Raises UsageError unless 0 <= successes <= trials and trials >= 1.
    """
    _check_level(level)
    if not 0 <= successes <= trials or trials < 1:
        raise UsageError(f"A share needs 0 <= successes <= trials and a trial, not {successes} of {trials}.")
    z = float(stats.norm.ppf((1 + level) / 2))
    share = successes / trials
    centre = share + z * z / (2 * trials)
    half = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


@lru_cache(maxsize=4)
def _weights(seeds: int, documents: int, seed: int, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """How often every seed and every document is in each replicate: float64[draws, S] and float64[draws, D]."""
    generator = np.random.default_rng(seed)
    drawn = [
        generator.multinomial(count, np.full(count, 1 / count), size=draws).astype(np.float64)
        for count in (seeds, documents)
    ]
    for weights in drawn:
        weights.setflags(write=False)
    return drawn[0], drawn[1]


def _both_drawn(seeds: int, documents: int, seed: int, draws: int) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """How often every seed and every document is in each replicate, in chunks; kept for the next row where small."""
    if draws * (seeds + documents) > _MOST_KEPT:
        return _drawn_anew(seeds, documents, seed, draws)
    return _drawn_once(seeds, documents, seed, draws)


@lru_cache(maxsize=4)
def _drawn_once(seeds: int, documents: int, seed: int, draws: int) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    return tuple(_drawn_anew(seeds, documents, seed, draws))


def _drawn_anew(seeds: int, documents: int, seed: int, draws: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    generator = np.random.default_rng(seed)
    for start in range(0, draws, _CHUNK):
        count = min(_CHUNK, draws - start)
        yield _drawn(generator, seeds, count), _drawn(generator, documents, count)


def _drawn(generator: np.random.Generator, count: int, draws: int) -> np.ndarray:
    """float64[draws, count]: as multinomial weights, by counting indices: many times as fast for a large count."""
    cells = generator.integers(count, size=(draws, count)) + count * np.arange(draws)[:, None]
    return np.bincount(cells.ravel(), minlength=draws * count).reshape(draws, count).astype(np.float64)


def _sums(table: np.ndarray, drawn: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """float64[draws]: the replicates of the sum of table[S, D]. drawn: how often every seed and every document is in
    each of some replicates."""
    return np.concatenate([np.einsum("rd,rd->r", seeds @ table, documents) for seeds, documents in drawn])


def _table(outcomes: Outcomes) -> np.ndarray:
    """float64[S, D], checked."""
    if len({len(row) for row in outcomes}) != 1:
        raise UsageError("Seeds can be compared only on the same documents; each needs one outcome a document.")
    table = np.asarray(outcomes, dtype=np.float64)
    if table.ndim != 2 or table.size == 0 or np.isnan(table).any():
        raise UsageError("An interval needs at least one outcome, and every outcome must be a number.")
    return table


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise UsageError(f"The level of an interval must lie between 0 and 1, not {level}.")
