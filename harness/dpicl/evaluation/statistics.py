"""Tests which of two rows is better, for boards, comparisons, tracks, plans and the gate.

Rows are scored on the same documents, each at several seeds; seeds and documents are both samples, crossed, and what
two rows share (a hard document, the private records that a seed draws) cancels in their paired difference. Its variance
components (Scheffe 1959, section 7.4) give a standard error, se^2 = V_s/S + V_d/D + V_r/(S D). A few seeds know their
variance badly, so p-values are generalized ones of the Behrens-Fisher kind (Tsui & Weerahandi 1989, JASA 84(406)): the
average over the values that the seeds' variance may have. That variance is moderated by what all rows of the table say
of theirs (Smyth 2004), up and never down.

Rows of a table (`rank_sets`): every verdict is read off intervals that cover together with probability .95, by the
largest |t| of all pairs (Tukey 1953; with unequal variances Hayter 1984), at 1 - .05/T where a sentence speaks of T
tables. *better*: the interval excludes 0; *equivalent*: it lies inside the margin (two one-sided tests, Schuirmann
1987); *inconclusive* else, with the largest difference that is not excluded. There is no step-down: where "better" was
found of a pair, "equivalent" may still be wrong of it, so no pair leaves the family. Cells of two releases
(`paired_tests`): Holm's step-down. benchmarks/rank_coverage.py measures the errors.
Effects of seeds are taken to be about normal: a failure at rare seeds, of which none was run, is seen by nobody.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Literal

import numpy as np
from scipy import optimize, special, stats

from dpicl.core.errors import UsageError

#: Of two rows: one is better, the two are equivalent, or neither is shown.
Verdict = Literal["better", "equivalent", "inconclusive"]

#: Of one interval, and of all intervals of a table together.
LEVEL = 0.95
#: Probability of finding the difference that a minimum detectable effect (MDE) states.
POWER = 0.8
#: Scores that differ by less are equivalent, where a suite states no other margin.
MARGIN = 0.03
#: A variance below this is rounding, and a difference below its root.
TINY = 1e-18
#: Points and exponent of the quadrature over the seeds' variance: within .02% of Student's tail at 1e-4.
_POINTS, _EXPONENT = 64, 4
#: Pairs at a time.
_BLOCK = 4096
#: Fewest seeds for a prior. Two seeds agree by chance too often to tell an unstable row from a stable one.
_FEWEST_SEEDS = 3
#: Fewest variances for a prior, and its most degrees of freedom.
_FEWEST, _MOST_DEGREES = 4, 100.0


@dataclass(frozen=True)
class Prior:
    """What all rows say of the variance of means from seed to seed. ratio: to what luck alone does. degrees: of freedom
    of it (0: nothing)."""

    ratio: float = 1.0
    degrees: float = 0.0


NO_PRIOR = Prior()


@dataclass(frozen=True)
class Differences:
    """Mean differences of pairs; every field is an array of one shape, or a number.

    seeds: S that both rows have. mean: of the difference over seeds and documents. spread: variance of its means
    from seed to seed, moderated. luck: the part of it that documents would average out, V_r/D. fixed: what documents
    add to the variance of the mean, MS_d/(S D), 0 where they are no sample. degrees: of freedom behind ``spread``.
    known: degrees of freedom behind ``fixed``. documents: D. unit: what one document may move the mean by, times
    D.
    """

    seeds: np.ndarray
    mean: np.ndarray
    spread: np.ndarray
    luck: np.ndarray
    fixed: np.ndarray
    degrees: np.ndarray
    known: np.ndarray
    documents: np.ndarray
    unit: np.ndarray

    def select(self, *place: int | slice | np.ndarray) -> Differences:
        """Some of the pairs."""
        return Differences(*(np.asarray(getattr(self, each.name))[place] for each in fields(self)))

    def moderate(self, prior: Prior) -> Differences:
        """With the spread that many pairs together expect, where it is larger. Two seeds do not trust it."""
        own = np.maximum(self.seeds, 1) - 1
        pooled = prior.degrees * prior.ratio * self.luck + own * self.spread
        spread = np.maximum(self.spread, pooled / np.maximum(prior.degrees + own, 1))
        degrees = np.maximum(np.where(own >= _FEWEST_SEEDS - 1, prior.degrees, 0.0) + own, 1.0)
        return replace(self, spread=spread, degrees=degrees)

    @property
    def error(self) -> np.ndarray:
        """Standard error of the mean; 0 for copies."""
        return np.sqrt(self.fixed + np.maximum(self.spread - self.luck, 0.0) / self.seeds)

    def tail(self, deviation: np.ndarray) -> np.ndarray:
        """Two-sided p-value of a deviation of the mean from its true value.

        Averaged over spread * f / chi2(f), f its degrees of freedom; given one, the mean is Student t.
        """
        own = (self.spread, self.luck, self.fixed, self.seeds, self.degrees, self.known)
        given = np.broadcast_arrays(deviation, *own)
        blocks = [np.array_split(one.ravel(), one.size // _BLOCK + 1) for one in given]
        found = [_tails(*part) for part in zip(*blocks, strict=True)]
        return np.concatenate(found).reshape(given[0].shape)

    def bound_unseen(self, p: float) -> np.ndarray:
        """The largest difference that documents of a kind which did not occur could make, at the two-sided p-value
        ``p``: a share q of all documents is missing from D of them with probability (1 - q)^D, and moves the mean by up
        to q times ``unit``. So rows at a ceiling, and copies, are not equivalent because of a few documents."""
        most: np.ndarray = self.unit * (1 - (p / 2) ** (1 / self.documents))
        return most

    def half_width(self, p: float) -> np.ndarray:
        """The deviation whose p-value is ``p``: half of the interval that agrees with the test."""
        low = np.maximum(self.error, math.sqrt(TINY)) / 8
        high = low * 64
        while (above := self.tail(high) > p).any():
            high = np.where(above, high * 8, high)
        for _ in range(26):
            middle = np.sqrt(low * high)
            above = self.tail(middle) > p
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return np.where(self.error > math.sqrt(TINY), high, 0.0)

    def compute_detectable(self, p: float, power: float = POWER) -> np.ndarray:
        """The true difference that is found at this p-value with probability ``power``: critical value + z se."""
        return self.half_width(p) + float(stats.norm.ppf(power)) * self.error


@dataclass(frozen=True)
class Components:
    """Variance components of a paired difference (Searle, Casella & McCulloch 1992, 4.7), as variances.

    by_seed: V_s, which may be estimated below 0. by_document: V_d. rest: V_r.
    """

    by_seed: float
    by_document: float
    rest: float

    def differences(self, seeds: int, documents: int | np.ndarray) -> Differences:
        """What S seeds x D documents would know of a pair whose rows are equal; documents: one D or several."""
        luck = self.rest / documents
        fixed = self.by_document / documents + luck / seeds
        spread = np.maximum(luck, self.by_seed + luck)
        own = (seeds, 0.0, spread, luck, fixed, seeds - 1, documents - 1, documents, 1.0)
        return Differences(*map(np.asarray, own))


def components(differences: np.ndarray) -> Components:
    """The variance components of differences[S, D]. One seed cannot tell V_s from nothing: it is 0.

    Raises UsageError for fewer than two documents.
    """
    found = analyse(differences)
    seeds, documents = differences.shape
    rest = float(found.luck) * documents
    by_document = float(found.fixed) * documents - rest / seeds
    return Components(float(found.spread - found.luck), max(0.0, by_document), rest)


def analyse(differences: np.ndarray) -> Differences:
    """The analysis of one pair's differences[S, D]. Raises UsageError for fewer than two documents."""
    if differences.shape[1] < 2:
        raise UsageError("A paired difference needs at least two documents; run more test records.")
    return _analyse(differences[:, :, None], np.ones((len(differences), 1), dtype=bool)).moderate(NO_PRIOR).select(0)


def prior_of(tables: Sequence[Differences]) -> Prior:
    """What many rows or cells say of how much seeds move one. Those of two seeds do not count.

    Empirical Bayes on the ratios spread / luck, each F-distributed times a random scale, by the moments of the
    logarithm (Smyth 2004, Statistical Applications in Genetics and Molecular Biology 3(1), section 6.2), with one
    change: the variance of the logarithms is taken at its one-sided 95% upper limit, so that few estimates, or ones
    that differ much, give a weak prior.
    """
    flat = [own.select(*place) for own in tables for place in np.ndindex(np.shape(own.mean))]
    used = [own for own in flat if own.seeds >= _FEWEST_SEEDS and own.luck > TINY and own.spread > TINY]
    if len(used) < _FEWEST:
        return NO_PRIOR
    half = np.array([own.seeds - 1 for own in used]) / 2
    logs = np.log([own.spread / own.luck for own in used]) - special.digamma(half) + np.log(half)
    within = special.polygamma(1, half)
    kurtosis = float((special.polygamma(3, half) / within**2).mean())
    error = math.sqrt(2 / (len(used) - 1) + kurtosis / len(used))
    between = float(logs.var(ddof=1)) * (1 + float(stats.norm.ppf(0.95)) * error) - float(within.mean())
    degrees = _MOST_DEGREES
    if between > float(special.polygamma(1, _MOST_DEGREES / 2)):
        degrees = 2 * optimize.brentq(lambda x: special.polygamma(1, x) - between, 1e-6, _MOST_DEGREES / 2)
    ratio = math.exp(float(logs.mean()) + float(special.digamma(degrees / 2)) - math.log(degrees / 2))
    return Prior(ratio, degrees)


def _analyse(differences: np.ndarray, there: np.ndarray, unit: float = 1.0) -> Differences:
    """Of q pairs, not moderated. differences[S, D, q]: anything where not ``there``[S, q]."""
    seeds = there.sum(axis=0)
    some = np.maximum(seeds, 1)
    own = np.where(there[:, None, :], differences, 0.0)
    documents = own.shape[1]
    means, by_document = np.where(there, own.mean(axis=1), 0.0), own.sum(axis=0) / some
    mean = means.sum(axis=0) / some
    by_seed = np.where(there, means - mean, 0.0) ** 2
    of_documents = some * ((by_document - mean) ** 2).sum(axis=0)
    total = (own**2).sum(axis=(0, 1)) - some * documents * mean**2
    rest = np.maximum(total - of_documents - documents * by_seed.sum(axis=0), 0.0)
    rest[rest < 1e-12 * total] = 0.0  # rounding
    luck = rest / np.maximum((some - 1) * (documents - 1), 1) / documents
    fixed = of_documents / (documents - 1) / (some * documents)
    spread = by_seed.sum(axis=0) / np.maximum(some - 1, 1)
    degrees = np.maximum(some - 1.0, 1.0)
    count, reach = np.full(len(seeds), float(documents)), np.full(len(seeds), unit)
    known = _degrees((by_document - mean) / documents)
    return Differences(seeds, mean, spread, luck, fixed, degrees, known, count, reach)


def _degrees(effects: np.ndarray) -> np.ndarray:
    """float64[q]: degrees of freedom of a variance that is estimated from effects[D, q] of documents, by their kurtosis
    (Box 1953): D - 1 where they are normal, about twice the number of documents that differ where few do."""
    second, fourth = (effects**2).mean(axis=0), (effects**4).mean(axis=0)
    kurtosis = np.where(second > TINY, fourth / np.maximum(second, TINY) ** 2, 3.0)
    found: np.ndarray = np.clip(2 * len(effects) / np.maximum(kurtosis - 1, 1e-9), 1.0, len(effects) - 1)
    return found


def _tails(*given: np.ndarray) -> np.ndarray:
    """float64[q]: `Differences.tail` of q pairs."""
    deviation, spread, luck, fixed, seeds, degrees, known = given
    kinds, which = np.unique(degrees, return_inverse=True)
    points = np.array([_quadrature(float(kind)) for kind in kinds]).reshape(-1, 2, _POINTS)
    draws, weights = points[which, 0], points[which, 1]
    between = np.maximum(spread[:, None] * degrees[:, None] / draws - luck[:, None], 0.0) / seeds[:, None]
    t = np.abs(deviation)[:, None] / np.sqrt(np.maximum(fixed[:, None] + between, TINY))
    found = 2 * (weights * special.stdtr(known[:, None], -t)).sum(axis=1)
    return np.where(deviation**2 <= TINY, 1.0, np.minimum(found, 1.0))


@cache
def _quadrature(degrees: float) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights of a mean over chi2(degrees), dense where it is small: there the p-value gets its tail."""
    grid = (np.arange(_POINTS) + 0.5) / _POINTS
    weights = grid ** (_EXPONENT - 1)
    return stats.chi2.ppf(grid**_EXPONENT, degrees), weights / weights.sum()


@cache
def alpha_of_pair(rows: int, tables: int = 1) -> float:
    """The two-sided p-value of one pair at which the largest |t| of all pairs of so many rows, in so many tables, is
    at the level of all: of normal t, which is what p-values are turned into."""
    largest = stats.studentized_range.isf((1 - LEVEL) / tables, max(rows, 2), math.inf) / math.sqrt(2)
    return 2 * float(stats.norm.sf(largest))


@dataclass(frozen=True)
class Difference:
    """One row's score minus another's: positive where it is better, with its simultaneous interval.

    excluded: all larger differences are, either way; it may lie beyond the interval, by documents of a kind that did
    not occur. p: adjusted for all pairs of the ``family``, the number of rows that were compared together, in so many
    ``tables``. verdict: 'better' is said of the row with the higher mean. margin: of equivalence.
    """

    value: float
    low: float
    high: float
    excluded: float
    p: float
    family: int
    verdict: Verdict
    margin: float
    tables: int = 1

    @property
    def better(self) -> bool:
        """Whether the first row is better."""
        return self.verdict == "better" and self.value > 0


@dataclass(frozen=True)
class RankSets:
    """All pairs of p rows, by their names: every field of ``pairs`` is [p, p], the row's score minus the column's.

    tables: how many tables, this one among them, the verdicts are for together. margin: of equivalence. reach: the
    largest difference that two scores can have, at which intervals end.
    """

    names: tuple[Hashable, ...]
    pairs: Differences = field(repr=False)
    comparable: np.ndarray = field(repr=False)
    margin: float = MARGIN
    tables: int = 1
    reach: float = math.inf

    @cached_property
    def places(self) -> dict[Hashable, int]:
        """Name -> its place among the names."""
        return {name: at for at, name in enumerate(self.names)}

    @cached_property
    def alpha(self) -> float:
        """The two-sided p-value at which one pair is at the level of all."""
        return alpha_of_pair(self._rows, self.tables)

    @property
    def _rows(self) -> int:
        """How many rows are compared with any other."""
        return int(self.comparable.any(axis=0).sum())

    @cached_property
    def _halves(self) -> np.ndarray:
        """float64[p, p]: half of every interval; all at once is many times as fast as one by one."""
        return self._spread_over_pairs(lambda pairs: pairs.half_width(self.alpha))

    @cached_property
    def _tails(self) -> np.ndarray:
        """float64[p, p]: the two-sided p-value of every pair, not adjusted."""
        return self._spread_over_pairs(lambda pairs: pairs.tail(pairs.mean))

    def _spread_over_pairs(self, number: Callable[[Differences], np.ndarray]) -> np.ndarray:
        """A number of every pair that can be compared, the same from both sides."""
        found = np.full(self.comparable.shape, np.nan)
        ones, others = np.nonzero(np.triu(self.comparable, 1))
        found[ones, others] = found[others, ones] = number(self.pairs.select(ones, others))
        return found

    @property
    def _least(self) -> np.ndarray:
        """float64[p, p]: half of an interval that knows its variance, which none is narrower than."""
        least: np.ndarray = float(stats.norm.isf(self.alpha / 2)) * np.sqrt(self.pairs.fixed)
        return least

    @cached_property
    def better(self) -> np.ndarray:
        """bool[p, p]: the row is better than the column."""
        found = np.zeros(self.comparable.shape, dtype=bool)
        places = np.nonzero(self.comparable & (self.pairs.mean > np.maximum(self._least, math.sqrt(TINY))))
        own = self.pairs.select(*places)
        found[places] = own.tail(own.mean) <= self.alpha
        return found

    @cached_property
    def equivalent(self) -> np.ndarray:
        """bool[p, p]: the two rows differ by less than the margin."""
        found = np.zeros(self.comparable.shape, dtype=bool)
        room = self.margin - np.abs(self.pairs.mean)
        places = np.nonzero(self.comparable & (room > self._least) & ~self.better & ~self.better.T)
        own = self.pairs.select(*places)  # at both ends of the margin, each at half of the two-sided level
        found[places] = (own.tail(room[places]) < self.alpha) & (own.bound_unseen(self.alpha) < room[places])
        return found

    @property
    def low(self) -> np.ndarray:
        """int[p]: the best rank that a row may have, 1 + the rows that are better (Mogstad, Romano, Shaikh & Wilhelm
        2024, Review of Economic Studies 91(1)); all sets hold together."""
        ranks: np.ndarray = 1 + self.better.sum(axis=0)
        return ranks

    @property
    def high(self) -> np.ndarray:
        """int[p]: the worst rank that a row may have."""
        ranks: np.ndarray = len(self.comparable) - self.better.sum(axis=1)
        return ranks

    @cached_property
    def detectable(self) -> float:
        """The true difference that this table finds with probability `POWER`, for its median pair; NaN without one,
        and where its scores do not vary."""
        own = self.pairs.select(*np.nonzero(np.triu(self.comparable, 1)))
        if not own.mean.size:
            return float("nan")
        median = own.select(np.argsort(own.error)[(own.mean.size - 1) // 2])
        return float(median.compute_detectable(self.alpha)) if median.error else float("nan")

    @cached_property
    def _levels(self) -> dict[int, RankSets]:
        """How many tables a sentence speaks of -> what was found, at the level of all of them."""
        return {}

    def difference(self, one: Hashable, other: Hashable, tables: int = 1) -> Difference | None:
        """Of two rows, by name; None where they share too few seeds to be compared. tables: of how many a sentence
        speaks."""
        if tables != self.tables:
            sets = self._levels.setdefault(tables, replace(self, tables=tables))
            return sets.difference(one, other, tables)
        i, j = self.places[one], self.places[other]
        if not self.comparable[i, j]:
            return None
        pair = self.pairs.select(i, j)
        mean, half, p = float(pair.mean), float(self._halves[i, j]), float(self._tails[i, j])
        excluded = abs(mean) + max(half, float(pair.bound_unseen(self.alpha)))
        largest = float(stats.studentized_range.sf(float(stats.norm.isf(p / 2)) * math.sqrt(2), self._rows, math.inf))
        adjusted = min(1.0, tables * max(p, largest))  # far out the largest is rounded to 0
        verdict: Verdict = "equivalent" if self.equivalent[i, j] else "inconclusive"
        if self.better[i, j] or self.better[j, i]:
            verdict = "better"
        low, high = max(mean - half, -self.reach), min(mean + half, self.reach)
        excluded = min(excluded, self.reach)
        return Difference(mean, low, high, excluded, adjusted, len(self.names), verdict, self.margin, tables)


def rank_sets(
    outcomes: np.ndarray,
    *,
    lower_is_better: bool = False,
    margin: float = MARGIN,
    reach: float = math.inf,
    names: Sequence[Hashable] = (),
) -> RankSets:
    """The pairs of p rows by their mean score.

    outcomes: float64[S, D, p]: seeds, documents, rows; NaN for all documents of a seed that a row lacks.
    reach: the largest difference that two mean scores can have. names: of the rows; none: their numbers.
    Raises UsageError without a row, with fewer than two documents, and where a row lacks a part of a seed.
    """
    there = _check(outcomes)
    rows = there.shape[1]
    sign = -1.0 if lower_is_better else 1.0
    own = sign * np.where(there[:, None, :], outcomes, 0.0)
    own = own - own.sum(axis=2, keepdims=True) / np.maximum(there.sum(axis=1), 1)[:, None, None]
    prior = prior_of([_analyse(own, there).moderate(NO_PRIOR)])
    unit = float(np.nanmax(outcomes) - np.nanmin(outcomes)) or reach  # rows at one value show no scale
    found = {each.name: np.ones((rows, rows)) for each in fields(Differences)}
    for one in range(rows):
        after = slice(one + 1, rows)
        pairs = _analyse(own[:, :, [one]] - own[:, :, after], there[:, [one]] & there[:, after], unit).moderate(prior)
        for name, whole in found.items():
            whole[one, after] = getattr(pairs, name)
            whole[after, one] = -whole[one, after] if name == "mean" else whole[one, after]
    np.fill_diagonal(found["mean"], 0.0)
    pairs = Differences(**found)
    comparable = (pairs.seeds >= 2) & ~np.eye(rows, dtype=bool)
    return RankSets(tuple(names) or tuple(range(rows)), pairs, comparable, margin, reach=reach)


def _check(outcomes: np.ndarray) -> np.ndarray:
    """bool[S, p]: which row has which seed."""
    if outcomes.ndim != 3 or not outcomes.size or outcomes.shape[1] < 2:
        raise UsageError("Rank sets need outcomes [seeds, documents, rows] of at least two documents.")
    lacking = np.isnan(outcomes)
    whole: np.ndarray = lacking.all(axis=1)
    if (lacking.any(axis=1) != whole).any():
        raise UsageError("A row has all outcomes of a seed or none; it lacks some documents of a seed.")
    return ~whole


@dataclass(frozen=True)
class PairedTest:
    """One of several paired differences that are tested together.

    p: two-sided; adjusted: by Holm. low, high: 95% interval of the mean, not adjusted. excluded: all larger means are,
    either way, at alpha / (number of tests). Both end at 1, as every difference of scores does. detectable: the
    smallest true drop that is found with probability `POWER` at that level; None where none is.
    """

    mean: float
    p: float
    adjusted: float
    low: float
    high: float
    excluded: float
    detectable: float | None


def paired_tests(tables: Sequence[np.ndarray], alpha: float = 1 - LEVEL) -> list[PairedTest]:
    """Whether the mean of each of several differences[S, D] is 0, for other seeds and documents; of one seed, or of
    seeds that are copies, for other documents alone. alpha: family-wise error.

    No p-value is below 2/2^k where k documents differ: as many signs alone would do it (Fisher 1935, section 21).
    Raises UsageError for fewer than two documents.
    """
    if not tables:
        return []
    level = alpha / len(tables)
    each = [analyse(table) for table in tables]
    found = Differences(*(np.array([getattr(own, part.name) for own in each]) for part in fields(Differences)))
    found = found.moderate(prior_of([found]))
    differing = np.array([(np.abs(table.mean(axis=0)) > math.sqrt(TINY)).sum() for table in tables])
    p = np.maximum(found.tail(found.mean), 2.0 ** -np.maximum(differing - 1.0, 0.0))
    own, among_all = found.half_width(1 - LEVEL), found.half_width(level)
    excluded = np.abs(found.mean) + np.maximum(among_all, found.bound_unseen(level))
    drop = among_all + float(stats.norm.ppf(POWER)) * found.error
    drop = np.maximum(drop, math.ceil(1 - math.log2(level) - 1e-9) / found.documents)
    low, high = np.maximum(found.mean - own, -1.0), np.minimum(found.mean + own, 1.0)
    columns = (found.mean, p, holm(p), low, high, np.minimum(excluded, 1.0), drop)
    made = [PairedTest(*(float(value) for value in values)) for values in zip(*columns, strict=True)]
    return [replace(one, detectable=None) if one.detectable and one.detectable > 1 else one for one in made]


def holm(p_values: Sequence[float] | np.ndarray) -> list[float]:
    """Adjusted p-values, in the order given: all at most alpha are rejected with family-wise error at most alpha.

    Holm 1979, Scandinavian Journal of Statistics 6(2): the i-th smallest of m is multiplied by m - i + 1, and none is
    below the one before it.
    """
    order = np.argsort(p_values)
    steps = np.asarray(p_values, dtype=np.float64)[order] * np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [float(p) for p in adjusted]
