"""The statistic of `rank_sets` for tables of many rows, by products of matrices instead of one pair after the other.

Of p rows there are p (p - 1) / 2 pairs, 2 million of 2,000. What a pair needs follows from inner products of its two
rows: |a - b|^2 = |a|^2 + |b|^2 - 2 a.b of centred rows. So one product gives it for all pairs, in every draw, and no
pair has arrays of its own. Three things differ from tables of few rows. Numbers are rounded otherwise (the draws are in
float32). P-values are against the largest |t| of all pairs, in one step: valid, and slightly larger than those of
step-down, since with so many pairs the largest hardly depends on those that were found. Of very many rows there are
fewer draws, so that draws x pairs stays below 4e8; p-values count the draws, and stay valid.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dpicl.leaderboards.model.row_effects import TINY

#: Relative to what it is the difference of: rounding.
_ROUNDING = 1e-12
#: Draws x pairs, and the fewest draws.
_MOST, _FEWEST = 4e8, 200
#: Rows that meet all others at a time, outside of the draws.
ROWS = 256
#: Numbers of a block of pairs in a draw, which stay in the processor's cache.
_BLOCK = 65_536


@dataclass(frozen=True)
class PairMatrices:
    """All pairs of p rows; every array is [p, p], a row against a column.

    counts: seeds of both. differences: of mean scores. spread: variance of the means from seed to seed, not moderated.
    luck: the least that it may be, V_r/D. of_documents: what documents add to the variance. shares: of each task, the
    root of the part of the variance by document that is no luck.
    """

    counts: np.ndarray
    differences: np.ndarray
    spread: np.ndarray
    luck: np.ndarray
    of_documents: np.ndarray
    shares: tuple[np.ndarray, ...]


def pairs_of(tasks: Sequence[np.ndarray], there: np.ndarray) -> PairMatrices:
    """tasks: of each float64[S, D, p]. there: bool[S, p], which row has which seed."""
    rows = there.shape[1]
    shape = (rows, rows)
    counts = np.zeros(shape, dtype=np.int32)
    differences, spread, luck, documents = (np.zeros(shape) for _ in range(4))
    shares = tuple(np.zeros(shape, dtype=np.float32) for _ in tasks)
    for ours, theirs, seeds in _blocks(there):
        at = np.ix_(ours, theirs)
        counts[at] = seeds.sum()
        if not seeds.any():
            continue
        sides = [[own[seeds][:, :, part] for own in tasks] for part in (ours, theirs)]
        means = [np.mean([own.mean(axis=1) for own in side], axis=0) for side in sides]
        differences[at] = means[0].mean(axis=0)[:, None] - means[1].mean(axis=0)
        spread[at] = _squares(*(own - own.mean(axis=0) for own in means)) / max(len(means[0]) - 1, 1)
        for number, (one, other) in enumerate(zip(*sides, strict=True)):
            by_document, rest = _components(one, other)
            documents[at] += by_document / one.shape[1] / len(tasks) ** 2
            luck[at] += rest / one.shape[1] / len(tasks) ** 2
            shares[number][at] = np.sqrt(by_document / np.maximum(by_document + rest / len(one), TINY))
    return PairMatrices(counts, differences, spread, luck, documents, shares)


def _blocks(there: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(rows, rows, the seeds that all of them have): rows with the same seeds together, every pair of groups."""
    patterns, which = np.unique(there, axis=1, return_inverse=True)
    groups = [np.flatnonzero(which.ravel() == number) for number in range(patterns.shape[1])]
    for one, whole in enumerate(groups):
        for ours in np.array_split(whole, math.ceil(len(whole) / ROWS)):
            for other, theirs in enumerate(groups):
                yield ours, theirs, patterns[:, one] & patterns[:, other]


def _squares(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """[p, q]: squared distances of the columns of [n, p] and [n, q]; rounding is 0, so that copies stay copies."""
    norms = (one**2).sum(axis=0)[:, None] + (other**2).sum(axis=0)
    found = norms - 2 * one.T @ other
    found[found < _ROUNDING * norms] = 0.0
    return found


def _components(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(V_d, V_r) of differences of the rows of [S, D, p] and [S, D, q], as `components` estimates them: [p, q] each."""
    seeds, documents = one.shape[:2]
    by_document = [own.mean(axis=0) for own in (one, other)]
    variance = _squares(*(own - own.mean(axis=0) for own in by_document)) / (documents - 1)
    if seeds < 2:
        return variance, np.zeros_like(variance)
    left = [own - own.mean(axis=1, keepdims=True) - own.mean(axis=0) + own.mean(axis=(0, 1)) for own in (one, other)]
    rest = _squares(*(own.reshape(-1, own.shape[2]) for own in left)) / ((seeds - 1) * (documents - 1))
    return np.maximum(0.0, variance - rest / seeds), rest


def draws_of(rows: int, draws: int) -> int:
    """How many draws a table of so many rows has."""
    return int(min(draws, max(_FEWEST, _MOST / (rows * (rows - 1) / 2))))


def largest(
    seeds: np.ndarray,
    documents: Sequence[np.ndarray],
    there: np.ndarray,
    pairs: PairMatrices,
    prior: tuple[float, float],
) -> np.ndarray:
    """float64[draws]: the largest |t| over the pairs with a finite standard error, were all rows equal.

    seeds: float64[draws, S, p], what fresh seeds do to the rows. documents: of each task float64[draws, p], what fresh
    documents do. prior: variance and degrees of freedom of the prior on a difference's variance from seed to seed.
    """
    blocks = [_Block.of(start, pairs, there, prior) for start in _starts(len(pairs.counts))]
    found = np.zeros(len(seeds))
    for draw, drawn in enumerate(seeds):
        whole = np.where(there, drawn, 0.0)
        means = whole.sum(axis=0) / np.maximum(there.sum(axis=0), 1)
        centred = np.where(there, drawn - means, 0.0).astype(np.float32)
        moved = [own[draw].astype(np.float32) for own in documents]
        found[draw] = max(block.largest(centred, means.astype(np.float32), moved) for block in blocks)
    return np.sqrt(found)


def _starts(rows: int) -> Iterator[slice]:
    """Blocks of rows; each meets all rows from its own first one on."""
    start = 0
    while start < rows:
        size = max(1, _BLOCK // (rows - start))
        yield slice(start, min(rows, start + size))
        start += size


@dataclass(frozen=True)
class _Block:
    """Some rows against all from the first of them on: what stays the same in every draw, in float32.

    moderated: (what is added, the factor) of a variance by the prior. counted: 1 / counts. there: float32[S, p], None
    where all rows have all seeds.
    """

    rows: slice
    counts: np.ndarray
    moderated: tuple[np.ndarray, np.ndarray]
    luck: np.ndarray
    of_documents: np.ndarray
    shares: tuple[np.ndarray, ...]
    told: np.ndarray
    there: np.ndarray | None

    @classmethod
    def of(cls, rows: slice, pairs: PairMatrices, there: np.ndarray, prior: tuple[float, float]) -> _Block:
        part = (rows, slice(rows.start, None))
        counts = pairs.counts[part]
        variance, degrees = prior
        own = np.maximum(counts - 1, 0)
        below = np.maximum(degrees + own, 1)
        told = counts >= min(2, len(there))
        told &= np.arange(rows.start, len(pairs.counts)) > np.arange(rows.start, rows.stop)[:, None]
        return cls(
            rows,
            np.maximum(counts, 1).astype(np.float32),
            ((degrees * variance / below).astype(np.float32), (own / below).astype(np.float32)),
            pairs.luck[part].astype(np.float32),
            np.maximum(pairs.of_documents[part], TINY).astype(np.float32),
            tuple(own[part] for own in pairs.shares),
            told.astype(np.float32),
            None if there.all() else there.astype(np.float32),
        )

    def largest(self, centred: np.ndarray, means: np.ndarray, documents: Sequence[np.ndarray]) -> float:
        """The largest t^2 of one draw. centred: float32[S, p], less the row's mean, 0 where it lacks the seed."""
        rows, others = self.rows, slice(self.rows.start, None)
        ours, theirs = centred[:, rows], centred[:, others]
        t = means[rows, None] - means[others]
        if self.there is None:
            norms = (centred**2).sum(axis=0)
            spread = norms[rows, None] + norms[others]
        else:
            here, there = self.there[:, rows], self.there[:, others]
            shift = (ours.T @ there - here.T @ theirs) / self.counts
            t += shift
            spread = (ours**2).T @ there + here.T @ (theirs**2) - self.counts * shift**2
        spread -= 2 * (ours.T @ theirs)
        spread /= np.maximum(self.counts - 1, 1)
        np.maximum(spread, 0, out=spread)
        spread = np.maximum(spread, self.moderated[0] + self.moderated[1] * spread)
        np.maximum(spread, self.luck, out=spread)
        spread /= self.counts
        spread += self.of_documents
        for own, share in zip(documents, self.shares, strict=True):
            t += (own[rows, None] - own[others]) * share
        t *= t
        t /= spread
        t *= self.told
        return float(t.max())
