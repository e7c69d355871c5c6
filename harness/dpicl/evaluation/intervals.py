"""Intervals of one score: over documents, over seeds and documents, of a ratio, of a share. dpicl.evaluation.statistics
compares two scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy import stats

from dpicl.core.errors import UsageError
from dpicl.evaluation.statistics import LEVEL

#: Of documents, or of seeds, each a list over the same documents.
Outcomes = Sequence[float] | Sequence[Sequence[float]] | np.ndarray
#: Bootstrap replicates. The limits of a 95% interval then move by well under a hundredth of its width between seeds.
DRAWS = 10_000
#: Replicates that are drawn at a time.
_CHUNK = 1_000


def bootstrap_interval(outcomes: Outcomes, seed: int = 0) -> tuple[float, float]:
    """95% percentile bootstrap interval of the mean of outcomes[D], or of outcomes[S, D]: S seeds on the same D
    documents.

    Every replicate draws seeds with replacement and, independently, documents with replacement; a document keeps its
    outcomes of all drawn seeds, since seeds share the documents (the pigeonhole bootstrap of crossed factors: Owen
    2007, Annals of Applied Statistics 1(2), section 3). With few seeds it understates their part of the variance, by
    the factor (S - 1)/S, as every bootstrap of a mean does.
    With one seed it is the bootstrap over documents, and says nothing about how other seeds would do.
    Raises UsageError when rows differ in length, are empty, or hold a NaN.
    """
    table = _table(outcomes)
    by_seed, by_document = _weights(*table.shape, seed, DRAWS)
    means = np.einsum("rd,rd->r", by_seed @ table, by_document) / table.size
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return low, high


def ratio_interval(numerator: Outcomes, denominator: Outcomes) -> tuple[float, float]:
    """95% bootstrap interval of mean(numerator) / mean(denominator), both [S, D] over the same seeds and documents.

    Seeds and documents are drawn as in `bootstrap_interval`, and the same draw serves both, so what they share
    cancels. For a denominator that is positive in truth: a replicate in which it is not could be a ratio of any size
    and counts as -inf for the lower limit and as inf for the upper one (compare Fieller 1954, JRSS B 16(2): an interval
    of a ratio is unbounded when the denominator may be zero). So the limits are -inf and inf when there are too many
    such replicates. Raises UsageError as `bootstrap_interval` does, and when the two differ in shape.
    """
    above, below = _table(numerator), _table(denominator)
    if above.shape != below.shape:
        raise UsageError("The two means of a ratio need the same seeds and documents.")
    tops, bottoms = (_draw_sums(table.shape, table.tobytes(), DRAWS) for table in (above, below))
    defined = bottoms > 1e-9
    ordered = np.sort(np.divide(tops, bottoms, out=np.full_like(tops, -np.inf), where=defined))
    first, last = math.floor((DRAWS - 1) * (1 - LEVEL) / 2), math.ceil((DRAWS - 1) * (1 + LEVEL) / 2)
    upper = last + int((~defined).sum())  # the place of the upper limit, where undefined ones are the lowest
    return float(ordered[first]), float(ordered[upper]) if upper < DRAWS else math.inf


def wilson_interval(successes: int, trials: int, level: float = LEVEL) -> tuple[float, float]:
    """Wilson score interval of a share (Wilson 1927; Brown, Cai & DasGupta 2001 recommend it for small counts).

    Raises UsageError unless 0 <= successes <= trials and trials >= 1.
    """
    if not 0 <= successes <= trials or trials < 1:
        raise UsageError(f"A share needs 0 <= successes <= trials and a trial, not {successes} of {trials}.")
    low, high = stats.binomtest(successes, trials).proportion_ci(level, method="wilson")
    return float(low), float(high)


@lru_cache(maxsize=8)
def _weights(seeds: int, documents: int, seed: int, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """How often every seed and every document is in each replicate: float64[draws, S] and float64[draws, D]."""
    generator = np.random.default_rng(seed)
    by_seed, by_document = (
        generator.multinomial(count, np.full(count, 1 / count), size=draws).astype(np.float64)
        for count in (seeds, documents)
    )
    return by_seed, by_document


@lru_cache(maxsize=8)
def _draw_sums(shape: tuple[int, ...], table: bytes, draws: int) -> np.ndarray:
    """float64[draws]: the sum of a table, float64[S, D] as bytes, in each replicate; rows that share seeds share their
    denominator."""
    values = np.frombuffer(table).reshape(shape)
    sums = [np.einsum("rd,rd->r", seeds @ values, documents) for seeds, documents in _counts(*shape, draws)]
    return np.concatenate(sums)


@lru_cache(maxsize=4)
def _counts(seeds: int, documents: int, draws: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The same for ratios, in chunks of replicates, by counting indices: many times as fast for a large count, and
    kept, since every row of a table draws the same."""
    generator = np.random.default_rng(0)

    def draw(count: int, some: int) -> np.ndarray:
        cells = generator.integers(count, size=(some, count)) + count * np.arange(some)[:, None]
        return np.bincount(cells.ravel(), minlength=some * count).reshape(some, count).astype(np.float64)

    chunks = [min(_CHUNK, draws - start) for start in range(0, draws, _CHUNK)]
    return [(draw(seeds, some), draw(documents, some)) for some in chunks]


def _table(outcomes: Outcomes) -> np.ndarray:
    """float64[S, D], checked."""
    try:
        table = np.atleast_2d(np.asarray(outcomes, dtype=np.float64))
    except ValueError as error:
        raise UsageError("Seeds need one outcome a document, on the same documents.") from error
    if table.ndim != 2 or table.size == 0 or np.isnan(table).any():
        raise UsageError("An interval needs at least one outcome, and every outcome must be a number.")
    return table
