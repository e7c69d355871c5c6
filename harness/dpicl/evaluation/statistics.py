"""Tests which of two rows is better, for boards, comparisons, plans and the claims that a suite plans.

A seed draws records, noise and public texts anew, so seeds are independent replications, and a row has one score a
seed. What two rows share at a seed cancels in their difference, so every test is of differences paired by seed; test
records that all seeds share are held fixed, and the inference is about these.

One difference: Student's t with S - 1 degrees of freedom. Several planned ones: Holm's step-down, of the larger p-value
of Student's test and of all flips of signs. All pairs of a table:
two tests must agree, and the larger p-value and the wider interval count.
1. Student's t of every pair, by Holm; intervals by Bonferroni.
2. The largest |t| of all pairs, step-down (Romano & Wolf 2005, Econometrica 73(4)), from the rows' own covariance over
   seeds: signs of whole seeds' centred differences are flipped (a wild bootstrap, Liu 1988, Annals of Statistics 16(4);
   all 2^(S-1) patterns at ten seeds), which needs no inverse and so holds with more rows than seeds. No variance counts
   as less than the mean of the table's: a pair with a small one by luck is not called decided.
With the seed effects of committed rows either alone has a false "better" in up to .1 of tables with ten seeds, and a
multivariate t in more (benchmarks/rank_coverage.py measures what is used).

*better*: the p-value is at most .05; its interval ends at 0 where a later step decided (Strassburger & Bretz 2008,
Statistics in Medicine 27(24)). *equivalent*: the simultaneous interval lies inside the margin (two one-sided
tests, Schuirmann 1987). *inconclusive* else, with the largest difference that is not excluded. Below ten common seeds,
and where a difference is the same at every seed, there is no verdict.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Literal

import numpy as np
from scipy import special

from dpicl.core.errors import UsageError

#: Of two rows: one is better, the two are equivalent, or neither is shown.
Verdict = Literal["better", "equivalent", "inconclusive"]

#: Of one interval, and of all intervals of a table together.
LEVEL = 0.95
#: Probability of finding the difference that a minimum detectable effect (MDE) states.
POWER = 0.8
#: Scores that differ by less are equivalent, where a suite states no other margin.
MARGIN = 0.03
#: Common seeds below which scores are shown and nothing is concluded.
FEWEST_SEEDS = 10
#: A standard error below this is rounding.
TINY = 1e-9
#: Patterns of signs: all of them up to so many seeds, else so many drawn ones.
_ENUMERATED, _DRAWN = 10, 2_000
#: Patterns x pairs at a time.
_BLOCK = 4_000_000


def student_quantile(degrees: np.ndarray | float, p: float) -> np.ndarray:
    """The |t| whose two-sided p-value is ``p``."""
    return np.asarray(special.stdtrit(np.maximum(degrees, 1), 1 - p / 2))


@dataclass(frozen=True)
class Differences:
    """Mean differences of pairs, paired by seed; every field is an array of one shape.

    seeds: S that both rows have. mean: over these. error: standard error of the mean, s / sqrt(S); NaN for one seed.
    """

    seeds: np.ndarray
    mean: np.ndarray
    error: np.ndarray

    @property
    def p(self) -> np.ndarray:
        """Student's two-sided p-value of no difference; 1 where there is none at any seed, 0 where it is the same."""
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.nan_to_num(
                np.abs(self.mean) / self.error,
                nan=0.0,
                posinf=np.inf,
            )
        p: np.ndarray = 2 * special.stdtr(np.maximum(self.seeds - 1, 1), -t)
        return p

    def half_width(self, p: float) -> np.ndarray:
        """Half of the interval that leaves out what has a p-value below ``p``."""
        half: np.ndarray = student_quantile(self.seeds - 1, p) * self.error
        return half

    def detectable(self, p: float, power: float = POWER) -> np.ndarray:
        """The true difference that is found at this p-value with probability ``power``."""
        return (
            self.half_width(p) + special.stdtrit(np.maximum(self.seeds - 1, 1), power) * self.error
        )


def summarize(differences: np.ndarray) -> Differences:
    """Of differences[S, ...]; NaN where a pair lacks a seed."""
    there = ~np.isnan(differences)
    seeds = there.sum(axis=0)
    mean = np.where(there, differences, 0.0).sum(axis=0) / np.maximum(seeds, 1)
    squares = np.where(there, differences - mean, 0.0) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(squares.sum(axis=0) / (seeds - 1) / seeds)
    return Differences(seeds, mean, np.where(error < TINY, 0.0, error))


@cache
def _list_signs(seeds: int) -> np.ndarray:
    """float64[B, S]: patterns of signs of so many seeds, of which one and its opposite are the same."""
    if seeds <= _ENUMERATED:
        bits = np.arange(2 ** (seeds - 1))[:, None] >> np.arange(seeds)
        return 1.0 - 2.0 * (bits & 1)
    return np.random.default_rng(0).choice([-1.0, 1.0], size=(_DRAWN, seeds))


def flip_signs(differences: np.ndarray) -> float:
    """The p-value of no difference among differences[S] by flips of their signs: a check that assumes only symmetry."""
    sums = _list_signs(len(differences)) @ differences
    as_large = np.abs(sums) >= abs(differences.sum()) * (1 - 1e-9)
    if len(differences) <= _ENUMERATED:  # as they are is one of the patterns
        return float(as_large.mean())
    return float((as_large.sum() + 1) / (len(sums) + 1))


def compare_together(differences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(p-values, halves of simultaneous intervals), float64[q] each, of pairs with differences[S, q], none of which is
    the same at all seeds; NaN where a pair lacks a seed."""
    pairs = summarize(differences)
    p, half = _flip_together(differences, pairs)
    alone = pairs.half_width((1 - LEVEL) / len(pairs.mean))
    return np.maximum(p, holm(pairs.p)), np.maximum(half, alone)


def _flip_together(
    differences: np.ndarray,
    pairs: Differences,
) -> tuple[np.ndarray, np.ndarray]:
    """The same by flips of signs alone."""
    seeds = pairs.seeds
    residuals = np.nan_to_num(differences - pairs.mean)
    squares = (residuals**2).sum(axis=0)

    def compute_errors(means: np.ndarray) -> np.ndarray:
        variances = (squares - seeds * means**2) / (seeds - 1)
        pooled = variances.mean(axis=-1, keepdims=True)
        return np.sqrt(np.maximum(variances, pooled) / seeds)

    error = compute_errors(np.zeros(len(seeds)))
    t = np.abs(pairs.mean) / error
    rising = np.argsort(t)
    signs = _list_signs(len(differences))
    as_large, largest_of_all = np.zeros(len(t)), []
    for some in np.array_split(signs, len(signs) * len(t) // _BLOCK + 1):
        means = some @ residuals / seeds
        flipped = (np.abs(means) / compute_errors(means))[:, rising]
        largest = np.maximum.accumulate(flipped, axis=1)  # of a pair and all below it
        as_large += (largest >= t[rising]).sum(axis=0)
        largest_of_all.append(largest[:, -1])
    p = np.empty(len(t))
    share = (as_large + 1) / (len(signs) + 1)
    p[rising] = np.maximum.accumulate(share[::-1])[::-1]
    # above the largest but so many the p-value is at most .05
    place = int((1 - LEVEL) * (len(signs) + 1))
    return p, np.sort(np.concatenate(largest_of_all))[-place] * error


@dataclass(frozen=True)
class Difference:
    """One row's score minus another's: positive where it is better, with its simultaneous interval.

    p: adjusted for all pairs of the ``family``, the number of rows that were compared together. verdict:
    'better' is said of the row with the higher mean. margin: of equivalence.
    """

    value: float
    low: float
    high: float
    p: float
    family: int
    verdict: Verdict
    margin: float

    @property
    def interval(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def excluded(self) -> float:
        """All larger differences are excluded, either way."""
        return max(-self.low, self.high)

    @property
    def better(self) -> bool:
        """Whether the first row is better."""
        return self.verdict == "better" and self.value > 0


@dataclass(frozen=True)
class RankSets:
    """All pairs of p rows, by their names. scores: float64[S, p], the larger the better, in [-1, 1]; NaN where a row
    lacks a seed. margin: of equivalence. Matrices are [p, p], the row's score minus the column's.
    """

    names: tuple[Hashable, ...]
    scores: np.ndarray = field(repr=False)
    margin: float = MARGIN

    @cached_property
    def places(self) -> dict[Hashable, int]:
        """Name -> its place among the names."""
        return {name: at for at, name in enumerate(self.names)}

    @cached_property
    def pairs(self) -> Differences:
        """Every pair by itself."""
        return summarize(self.scores[:, :, None] - self.scores[:, None, :])

    @cached_property
    def comparable(self) -> np.ndarray:
        """bool[p, p]: enough common seeds, and a difference that varies between them."""
        enough: np.ndarray = (self.pairs.seeds >= FEWEST_SEEDS) & (self.pairs.error > 0)
        return enough

    @cached_property
    def _together(self) -> tuple[np.ndarray, np.ndarray]:
        """(p-values, halves of intervals), NaN where nothing is compared."""
        matrices = np.full((2, *self.comparable.shape), np.nan)
        ones, others = np.nonzero(np.triu(self.comparable))
        if ones.size:
            matrices[:, ones, others] = compare_together(
                self.scores[:, ones] - self.scores[:, others]
            )
            matrices[:, others, ones] = matrices[:, ones, others]
        p, half = matrices
        return p, half

    @cached_property
    def better(self) -> np.ndarray:
        """bool[p, p]: the row is better than the column."""
        better: np.ndarray = (self._together[0] <= 1 - LEVEL) & (self.pairs.mean > 0)
        return better

    @cached_property
    def equivalent(self) -> np.ndarray:
        """bool[p, p]: the two rows differ by less than the margin."""
        inside = np.abs(self.pairs.mean) + self._together[1] < self.margin
        equivalent: np.ndarray = inside & ~self.better & ~self.better.T
        return equivalent

    @property
    def low(self) -> np.ndarray:
        """int[p]: the best rank that a row may have, 1 + the rows that are better (Mogstad, Romano, Shaikh & Wilhelm
        2024, Review of Economic Studies 91(1)); all sets hold together."""
        ranks: np.ndarray = 1 + self.better.sum(axis=0)
        return ranks

    @property
    def high(self) -> np.ndarray:
        """int[p]: the worst rank that a row may have."""
        ranks: np.ndarray = len(self.names) - self.better.sum(axis=1)
        return ranks

    @cached_property
    def detectable(self) -> float:
        """The true difference that this table finds with probability `POWER`, for its median pair; NaN without one."""
        ones, others = np.nonzero(np.triu(self.comparable))
        if not ones.size:
            return math.nan
        errors = self.pairs.error[ones, others]
        at = np.argsort(errors)[(errors.size - 1) // 2]
        pair = ones[at], others[at]
        quantile = special.stdtrit(self.pairs.seeds[pair] - 1, POWER)
        return float(self._together[1][pair] + quantile * errors[at])

    def difference(self, one: Hashable, other: Hashable) -> Difference | None:
        """Of two rows, by name; None where they are not comparable."""
        place = self.places[one], self.places[other]
        if not self.comparable[place]:
            return None
        mean = float(self.pairs.mean[place])
        half = float(self._together[1][place])
        verdict: Verdict = "equivalent" if self.equivalent[place] else "inconclusive"
        if self._together[0][place] <= 1 - LEVEL:
            verdict = "better"
        low, high = max(mean - half, -1.0), min(mean + half, 1.0)
        # where a later step decides, the interval that agrees with it ends at 0
        if verdict == "better":
            if mean > 0:
                low = max(low, 0.0)
            else:
                high = min(high, 0.0)
        return Difference(
            mean,
            low,
            high,
            float(self._together[0][place]),
            len(self.names),
            verdict,
            self.margin,
        )


def rank_sets(
    scores: np.ndarray,
    *,
    lower_is_better: bool = False,
    margin: float = MARGIN,
    names: Sequence[Hashable] = (),
) -> RankSets:
    """The pairs of p rows by their scores[S, p]: seeds, rows; NaN where a row lacks a seed. names: of the rows; none:
    their numbers. Raises UsageError without a seed or a row."""
    if scores.ndim != 2 or not scores.size:
        raise UsageError("Rank sets need scores [seeds, rows] of at least one row.")
    return RankSets(
        tuple(names) or tuple(range(scores.shape[1])),
        -scores if lower_is_better else scores,
        margin,
    )


@dataclass(frozen=True)
class PairedTest:
    """One of several paired differences that are tested together.

    p: Student's, two-sided; flips: by `flip_signs`; neither is adjusted. adjusted: by Holm. low, high: 95% interval of
    the mean, not adjusted. excluded: all larger means are, either way, at alpha / (number of tests). All end at 1, as
    every difference of scores does. detectable: the smallest true drop that is found with probability `POWER` at that
    level; None where none is.
    """

    mean: float
    p: float
    adjusted: float
    flips: float
    low: float
    high: float
    excluded: float
    detectable: float | None

    @property
    def interval(self) -> tuple[float, float]:
        return self.low, self.high


def paired_tests(
    columns: Sequence[np.ndarray],
    alpha: float = 1 - LEVEL,
    both: bool = False,
    family: int = 0,
) -> list[PairedTest]:
    """Whether the mean of each of several differences[n] of independent replications is 0. alpha: family-wise error.
    both: whether Holm adjusts the larger p-value of Student's test and of flips, and not Student's alone. family: how
    many tests were planned, where that is more than these: the others count as not significant.

    Raises UsageError for fewer than two replications.
    """
    if any(len(column) < 2 for column in columns):
        raise UsageError("A paired test needs at least two differences.")
    pairs = [summarize(column) for column in columns]
    flips = [flip_signs(column) for column in columns]
    least = flips if both else [0.0] * len(pairs)
    p_values = [max(float(pair.p), p) for pair, p in zip(pairs, least, strict=True)]
    tested = max(len(columns), family)
    untested = [1.0] * (tested - len(columns))
    adjusted = holm(p_values + untested)[: len(columns)]
    tests = []
    for pair, by_flips, together in zip(pairs, flips, adjusted, strict=True):
        mean, half = float(pair.mean), float(pair.half_width(1 - LEVEL))
        excluded = abs(mean) + float(pair.half_width(alpha / tested))
        drop = float(pair.detectable(alpha / tested))
        tests.append(
            PairedTest(
                mean=mean,
                p=float(pair.p),
                adjusted=together,
                flips=by_flips,
                low=max(mean - half, -1.0),
                high=min(mean + half, 1.0),
                excluded=min(excluded, 1.0),
                detectable=drop if 0 < drop <= 1 else None,
            )
        )
    return tests


def holm(p_values: Sequence[float] | np.ndarray) -> list[float]:
    """Adjusted p-values, in the order given: all at most alpha are rejected with family-wise error at most alpha.

    Holm 1979, Scandinavian Journal of Statistics 6(2): the i-th smallest of m is multiplied by m - i + 1, and none is
    below the one before it.
    """
    order = np.argsort(p_values)
    in_order = np.asarray(p_values, dtype=np.float64)[order]
    steps = in_order * np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [float(p) for p in adjusted]
