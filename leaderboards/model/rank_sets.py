"""Rank sets: which ranks each row may have, simultaneously for all rows of a table, and how sure each difference is.

Rows are scored on the same documents, each at several seeds; seeds and documents are both samples, crossed. All rows
are resampled together, so what they share (a hard document, a lucky choice of labels) cancels in their differences.

The statistic of a pair is t = d / se, se^2 = V_s/S + V_d/D + V_r/(S D): variance components of the paired difference by
seed, by document and of the rest (Scheffe 1959, section 7.4). Its joint distribution over all pairs, were all rows
equal, is resampled: seeds by Gaussian multipliers with the standard error made again in each draw (a bootstrap-t, since
a few seeds know their own variance badly), their overall variance with the uncertainty that is left (Tsui & Weerahandi
1989), documents by Gaussian multipliers as well. The covariance over rows of S seeds has rank S - 1 only, so it is
shrunk towards independent rows by 1/(S - 1); else few seeds would look like few comparisons. What seeds do is much the
same from row to row: variances are moderated by the other rows' as far as these agree (Smyth 2004), up and never down,
and they are no less than what luck alone does to the mean of a seed, V_r/D.

From the largest |t| over all pairs come the critical value, step-down adjusted p-values (Romano & Wolf 2005,
Econometrica 73(4)) and rank sets: with family-wise error 1 - level, k is above j where its score is significantly
better, and the ranks of j are 1 + (rows above) to p - (rows below) (Mogstad, Romano, Shaikh & Wilhelm 2024, Review of
Economic Studies 91(1)). benchmarks/rank_coverage.py measures the error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import stats

from dpicl.harness.core.errors import UsageError
from dpicl.harness.evaluation.components import Components, components
from dpicl.leaderboards.model.kept_draws import CHUNK, kept_largest
from dpicl.leaderboards.model.many_rows import ROWS, draws_of, pairs_of
from dpicl.leaderboards.model.row_effects import (
    TINY,
    SeedPrior,
    document_effects,
    luck_of,
    moves,
    prior_of,
    seed_effects,
)

#: Draws of the joint distribution; a 95% critical value then moves by about 1% between streams of draws.
DRAWS = 2_000
#: Of rank sets and of the intervals of differences, all together.
LEVEL = 0.95
#: Probability of finding the difference that `RankSets.detectable` states.
POWER = 0.8
#: Tables of more rows are told apart by products of matrices; see `many_rows`.
MANY = 24


@dataclass(frozen=True)
class RankSets:
    """Of p rows, in the order in which they were given; matrices are [p, p], the row's score minus the column's.

    low, high: int[p], the best and the worst rank that a row may have. differences: of mean scores, positive where the
    row is better. errors: standard errors; NaN where two rows share fewer than two seeds, and cannot be told apart.
    p_values: adjusted for all pairs, two-sided. critical: of |t| for all pairs at once; intervals of differences are
    d +- critical * se, simultaneously.
    """

    low: np.ndarray
    high: np.ndarray
    differences: np.ndarray
    errors: np.ndarray
    p_values: np.ndarray
    critical: float
    better: np.ndarray = field(repr=False)

    @property
    def first(self) -> np.ndarray:
        """bool[p]: rows that may be the best: 'tied for first', where they are several."""
        return self.low == 1

    @property
    def detectable(self) -> float:
        """The true difference that such a table finds with probability `POWER`, for its median pair; NaN without one.

        (critical + z) * se: by the critical value for all pairs.
        """
        above = self.errors[np.triu_indices(len(self.low), 1)]
        if not np.isfinite(above).any():
            return float("nan")
        return (self.critical + float(stats.norm.ppf(POWER))) * float(np.nanmedian(above))


@dataclass(frozen=True)
class _Pair:
    """A paired difference. seeds: bool[S], those of both rows. tasks: its variance components in each task.

    spread: variance of its means from seed to seed, over tasks and these seeds, moderated; V_r is in it.
    luck: the least that it may be, since V_s is no less than 0.
    """

    one: int
    other: int
    seeds: np.ndarray
    difference: float
    spread: float
    luck: float
    tasks: tuple[Components, ...]

    @property
    def number(self) -> int:
        return int(self.seeds.sum())

    def of_documents(self, documents: Sequence[int]) -> float:
        """What documents add to the variance of the mean over tasks: V_d/D. documents: D of each task."""
        parts = (own.by_document / n for own, n in zip(self.tasks, documents, strict=True))
        return sum(parts) / len(documents) ** 2

    def share(self, task: int) -> float:
        """The part of the variance of its means by document that is V_d; the rest is of luck, which seeds draw anew."""
        own = self.tasks[task]
        return own.by_document / max(own.by_document + own.rest / self.number, TINY)

    def error(self, documents: Sequence[int]) -> float:
        """Standard error of the difference."""
        return math.sqrt(max(self.spread / self.number + self.of_documents(documents), TINY))


def rank_sets(
    outcomes: Sequence[np.ndarray],
    *,
    lower_is_better: bool = False,
    level: float = LEVEL,
    draws: int = DRAWS,
    seed: int = 0,
) -> RankSets:
    """Rank sets of p rows by their mean score.

    outcomes: of each task float64[S, D, p]: seeds, the documents of the task, rows; NaN for all documents of a seed
        that a row lacks, the same in every task. With several tasks the score is the mean over tasks, tasks as fixed.
    Raises UsageError without a row or a task, with fewer than two documents, where tasks differ in seeds or rows, and
    where a row lacks a part of a seed.
    """
    there = _checked(outcomes)
    seeds, rows = there.shape
    sign = -1.0 if lower_is_better else 1.0
    tasks = [sign * np.asarray(own, dtype=np.float64) for own in outcomes]
    documents = [own.shape[1] for own in tasks]
    prior = prior_of(tasks, there)
    if rows > MANY:
        return _of_many(tasks, there, prior, level, draws, seed)
    pairs = [_pair(tasks, there, prior, one, other) for one in range(rows) for other in range(one + 1, rows)]
    errors = np.full((rows, rows), np.nan)
    differences = np.zeros((rows, rows))
    for pair in pairs:
        differences[pair.one, pair.other], differences[pair.other, pair.one] = pair.difference, -pair.difference
        if pair.number >= min(2, seeds):
            errors[pair.one, pair.other] = errors[pair.other, pair.one] = pair.error(documents)
    told = [pair for pair in pairs if np.isfinite(errors[pair.one, pair.other])]
    better = np.zeros((rows, rows), dtype=bool)
    p_values = np.ones((rows, rows))
    critical = float(stats.norm.ppf((1 + level) / 2))
    if told:
        observed = np.array([pair.difference / errors[pair.one, pair.other] for pair in told])
        observed[np.abs([pair.difference for pair in told]) < 1e-12] = 0.0
        drawn = np.abs(_null(tasks, there, prior, told, draws, seed))
        critical = float(np.quantile(drawn.max(axis=1), level))
        for pair, t, p in zip(told, observed, _step_down(np.abs(observed), drawn), strict=True):
            winner, loser = (pair.one, pair.other) if t > 0 else (pair.other, pair.one)
            p_values[pair.one, pair.other] = p_values[pair.other, pair.one] = p
            better[winner, loser] = p <= 1 - level
    return RankSets(
        low=1 + better.sum(axis=0),
        high=rows - better.sum(axis=1),
        differences=differences,
        errors=errors,
        p_values=p_values,
        critical=critical,
        better=better,
    )


def _of_many(
    tasks: Sequence[np.ndarray], there: np.ndarray, prior: SeedPrior, level: float, draws: int, seed: int
) -> RankSets:
    """The same of a table of many rows (see `many_rows`)."""
    rows, least = there.shape[1], min(2, len(there))
    pairs = pairs_of(tasks, there)
    errors = np.full((rows, rows), np.nan)
    p_values, better = np.ones((rows, rows)), np.zeros((rows, rows), dtype=bool)
    blocks = [slice(start, start + ROWS) for start in range(0, rows, ROWS)]  # no array of all pairs for every step
    for at in blocks:
        spread, luck, counts = pairs.spread[at], pairs.luck[at], pairs.counts[at]
        moderated = prior.moderated(spread, np.maximum(counts - 1, 0), rows=2)
        moving = (spread > TINY) | (luck > TINY)
        spread = np.where(moving, np.maximum(moderated, luck), 0.0) / np.maximum(counts, 1)
        told = (counts >= least) & (np.arange(rows) != np.arange(rows)[at, None])
        errors[at] = np.where(told, np.sqrt(np.maximum(spread + pairs.of_documents[at], TINY)), np.nan)
    critical = float(stats.norm.ppf((1 + level) / 2))
    if not np.isnan(errors).all():
        number = draws_of(rows, draws)
        drawn = kept_largest(tasks, there, prior, pairs, number, seed)
        critical = float(np.quantile(drawn, level))
        for at in blocks:
            told = ~np.isnan(errors[at]) & (np.abs(pairs.differences[at]) >= 1e-12)
            t = np.where(told, pairs.differences[at] / errors[at], 0.0)
            above = number - np.searchsorted(drawn, np.abs(t))
            p_values[at] = np.where(np.isnan(errors[at]), 1.0, (above + 1) / (number + 1))
            better[at] = (p_values[at] <= 1 - level) & (t > 0)
    low, high = 1 + better.sum(axis=0), rows - better.sum(axis=1)
    return RankSets(low, high, pairs.differences, errors, p_values, critical, better)


def _checked(outcomes: Sequence[np.ndarray]) -> np.ndarray:
    """bool[S, p]: which row has which seed."""
    shapes = {(own.shape[0], own.shape[2]) for own in outcomes if own.ndim == 3 and own.size}
    if len(shapes) != 1 or any(own.ndim != 3 or not own.size for own in outcomes):
        raise UsageError("Rank sets need outcomes [seeds, documents, rows] of the same seeds and rows in every task.")
    lacking = [np.isnan(own) for own in outcomes]
    whole = lacking[0].all(axis=1)
    if any((own.any(axis=1) != whole).any() or (own.all(axis=1) != whole).any() for own in lacking):
        raise UsageError("A row has all outcomes of a seed or none; it lacks some documents or tasks of a seed.")
    return ~whole


def _pair(tasks: Sequence[np.ndarray], there: np.ndarray, prior: SeedPrior, one: int, other: int) -> _Pair:
    seeds = there[:, one] & there[:, other]
    if not seeds.any():
        return _Pair(one, other, seeds, 0.0, 0.0, 0.0, ())
    both = [own[seeds][:, :, one] - own[seeds][:, :, other] for own in tasks]
    by_seed = np.mean([own.mean(axis=1) for own in both], axis=0)
    luck, spread = luck_of(both), np.array(by_seed.var(ddof=1) if len(by_seed) > 1 else 0.0)
    if any(moves(own) for own in both):  # two seeds may have the same mean by chance; copies stay copies
        spread = np.maximum(prior.moderated(spread, np.array(len(by_seed) - 1), rows=2), luck)
    return _Pair(one, other, seeds, float(by_seed.mean()), float(spread), luck, tuple(map(components, both)))


def _null(
    tasks: Sequence[np.ndarray], there: np.ndarray, prior: SeedPrior, pairs: Sequence[_Pair], draws: int, seed: int
) -> np.ndarray:
    """float64[draws, pairs]: t of every pair, drawn jointly, were all rows equal."""
    generator = np.random.default_rng(seed)
    size = max(1, CHUNK // max(1, there.shape[0] * len(pairs)))
    return np.concatenate(
        [_null_part(tasks, there, prior, pairs, min(size, draws - at), generator) for at in range(0, draws, size)]
    )


def _null_part(
    tasks: Sequence[np.ndarray],
    there: np.ndarray,
    prior: SeedPrior,
    pairs: Sequence[_Pair],
    draws: int,
    generator: np.random.Generator,
) -> np.ndarray:
    ones, others = [pair.one for pair in pairs], [pair.other for pair in pairs]
    fixed = np.array([pair.of_documents([own.shape[1] for own in tasks]) for pair in pairs])
    moved = np.zeros((draws, len(pairs)))
    for at, drawn in enumerate(document_effects(tasks, there, draws, generator)):
        moved += (drawn[:, ones] - drawn[:, others]) * np.sqrt([pair.share(at) for pair in pairs])
    if len(there) < 2:
        return moved / np.sqrt(np.maximum(fixed, TINY))
    drawn = seed_effects(tasks, there, prior, draws, generator)
    between = drawn[:, :, ones] - drawn[:, :, others]
    shared = np.array([pair.seeds for pair in pairs]).T
    counts = shared.sum(axis=0)
    means = (between * shared).sum(axis=1) / counts
    spread = (((between - means[:, None, :]) * shared) ** 2).sum(axis=1) / np.maximum(counts - 1, 1)
    spread = np.maximum(prior.moderated(spread, counts - 1, rows=2), [pair.luck for pair in pairs])
    return (means + moved) / np.sqrt(np.maximum(spread / counts + fixed, TINY))


def _step_down(observed: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Adjusted p-values: each |t| against the largest of those that are not above it; none below the one before."""
    order = np.argsort(-observed, kind="stable")
    largest = np.maximum.accumulate(drawn[:, order[::-1]], axis=1)[:, ::-1]
    raw = ((largest >= observed[order]).sum(axis=0) + 1) / (len(drawn) + 1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.maximum.accumulate(raw)
    return adjusted
