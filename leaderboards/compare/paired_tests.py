"""Tests of a paired difference: two sides scored on the same documents, at one seed or at several.

One binary outcome a document: the exact McNemar test. One real-valued outcome: sign flips over documents. Several
seeds: seeds and documents are both samples, so both must show the difference (`crossed_test`); a test over documents
alone mistakes the luck of a few noise resamples for a property of the model. benchmarks/regression_power.py measures
which tests keep their level. All p-values are two-sided; a difference is candidate - base, [S, D], of finite numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import optimize, special, stats

from dpicl.harness.core.errors import UsageError
from dpicl.harness.evaluation.components import variance_prior
from dpicl.harness.evaluation.statistics import seeds_documents_means

#: Sign patterns that are held in memory at a time, and the most documents for which all of them are counted.
_CHUNK = 20_000
_MOST_EXACT = 13
#: Probability of finding the effect that a minimal detectable effect is stated for.
POWER = 0.8
#: Points and exponent of the quadrature over the seeds' variance; the smallest weight is 4e-14.
_POINTS, _EXPONENT = 1_000, 4
#: Fewest seeds for a prior. Two seeds agree by chance too often to tell an unstable cell from a stable one.
_FEWEST_SEEDS = 3
#: A difference of means below this is rounding.
_TINY = 1e-12


@dataclass(frozen=True)
class Prior:
    """What all cells say about the seeds' mean square. ratio: to the rest's. degrees: of freedom of it (0: none)."""

    ratio: float = 1.0
    degrees: float = 0.0


NO_PRIOR = Prior()


@dataclass(frozen=True)
class Crossed:
    """A two-way table of differences [S, D] without replication, S >= 2 (Scheffe 1959, section 7.4).

    mean: over all entries. of_seeds, of_documents, rest: mean squares of seeds (S - 1 degrees of freedom), of documents
    (D - 1), and of their interaction with the error ((S - 1)(D - 1)). prior: on the seeds' mean square.
    """

    seeds: int
    documents: int
    mean: float
    of_seeds: float
    of_documents: float
    rest: float
    prior: Prior = NO_PRIOR

    @property
    def degrees(self) -> float:
        """Of freedom behind the seeds' mean square, the prior's included."""
        return self.prior.degrees + self.seeds - 1

    @property
    def moderated(self) -> float:
        """The seeds' mean square, moderated up towards the prior (Smyth 2004, equation 5), and never down.

        Moderated down too, one cell whose seeds vary would borrow the small variance of the others: false alarms.
        """
        expected = self.prior.ratio * self.rest
        pooled = (self.prior.degrees * expected + (self.seeds - 1) * self.of_seeds) / self.degrees
        return max(self.of_seeds, pooled)

    @property
    def standard_error(self) -> float:
        """Of the mean, with seeds and documents as random: sqrt((MS_d + max(0, MS_s - MS_r)) / (S D))."""
        return math.sqrt((self.of_documents + max(0.0, self.moderated - self.rest)) / (self.seeds * self.documents))

    def tail(self, deviation: float) -> float:
        """Two-sided p-value of a deviation of the mean from its true value.

        A generalized p-value (Tsui & Weerahandi 1989, JASA 84(406)) of the Behrens-Fisher kind: the seeds' mean square
        has few degrees of freedom f, so the p-value is averaged over the values that its expectation may have,
        MS_s f / chi2(f); given one, the mean is Student t with D - 1 degrees of freedom.
        """
        if abs(deviation) <= _TINY:
            return 1.0
        if self.of_seeds <= _TINY and self.of_documents <= _TINY:
            return 0.0
        draws, weights = _chi2_quadrature(round(self.degrees, 3))
        expected = self.moderated * self.degrees / draws
        variances = (self.of_documents + np.maximum(expected - self.rest, 0.0)) / (self.seeds * self.documents)
        tails = 2 * special.stdtr(self.documents - 1, -abs(deviation) / np.sqrt(np.maximum(variances, _TINY**2)))
        return min(1.0, float(weights @ tails))

    def half_width(self, level: float) -> float:
        """The deviation whose p-value is 1 - level: half of the interval that agrees with the test."""
        if self.standard_error <= _TINY:
            return 0.0
        low = high = self.standard_error
        while self.tail(high) > 1 - level:
            low, high = high, high * 4
        return float(optimize.brentq(lambda x: self.tail(x) - (1 - level), low / 8, high, xtol=1e-9))


@cache
def _chi2_quadrature(degrees: float) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights of a mean over chi2(degrees), dense where it is small: there the p-value gets its tail."""
    grid = (np.arange(_POINTS) + 0.5) / _POINTS
    weights = grid ** (_EXPONENT - 1)
    return stats.chi2.ppf(grid**_EXPONENT, degrees), weights / weights.sum()


def seeds_prior(tables: Sequence[Crossed]) -> Prior:
    """What many cells say about the ratio MS_s / MS_r of each: an F-distributed one times a random scale.

    See `variance_prior`. Cells of two seeds do not count.
    """
    used = [t for t in tables if t.seeds >= _FEWEST_SEEDS and t.rest > _TINY and t.of_seeds > _TINY]
    ratios = np.array([table.of_seeds / table.rest for table in used])
    return Prior(*variance_prior(ratios, np.array([table.seeds - 1 for table in used])))


def crossed(differences: np.ndarray, prior: Prior = NO_PRIOR) -> Crossed:
    """The analysis of differences[S, D]; two seeds get no prior.

    Raises UsageError for fewer than two seeds or two documents.
    """
    seeds, documents = differences.shape
    if seeds < 2 or documents < 2:
        raise UsageError("Seeds and documents can be told apart only with two of each; run more of them.")
    mean, by_seed, by_document = differences.mean(), differences.mean(axis=1), differences.mean(axis=0)
    rest = differences - by_seed[:, None] - by_document[None, :] + mean
    return Crossed(
        seeds,
        documents,
        float(mean),
        documents * float(by_seed.var(ddof=1)),
        seeds * float(by_document.var(ddof=1)),
        float((rest**2).sum()) / ((seeds - 1) * (documents - 1)),
        prior if seeds >= _FEWEST_SEEDS else NO_PRIOR,
    )


def crossed_test(differences: np.ndarray, draws: int, prior: Prior = NO_PRIOR, seed: int = 0) -> float:
    """p-value that the mean of differences[S, D] is zero, for other seeds and other documents; S >= 2, D >= 2.

    The larger one of `Crossed.tail` and of sign flips over the documents' means: the first one allows for seeds that
    move all documents together, the second one needs no normal distribution where few documents differ at all.
    """
    return max(
        crossed(differences, prior).tail(float(differences.mean())),
        sign_flip_test(differences.mean(axis=0), draws, seed),
    )


def mcnemar_test(worse: int, better: int) -> float:
    """Exact p-value for `worse` documents that were lost and `better` ones that were won (McNemar 1947; Edwards 1948).

    Given that a document changed, losing and winning it are equally likely: a two-sided binomial test with p = 1/2.
    """
    return min(1.0, 2 * float(stats.binom.cdf(min(worse, better), worse + better, 0.5)))


def sign_flip_test(differences: np.ndarray, draws: int, seed: int = 0) -> float:
    """p-value of the mean of differences[D] from random signs (Fisher 1935, section 21).

    Exact for a difference that is symmetric about zero, as when both sides may be exchanged. With up to 13 documents
    that differ all sign patterns are counted; else `draws` random ones, and (hits + 1) / (draws + 1), which is valid
    too (Phipson & Smyth 2010).
    """
    values = np.abs(differences[np.abs(differences) > _TINY])
    observed = abs(float(differences.sum())) - _TINY * max(1, len(differences))
    if not len(values):
        return 1.0
    if len(values) <= _MOST_EXACT:
        patterns = (np.arange(2 ** len(values))[:, None] >> np.arange(len(values))) & 1
        return float((np.abs((2.0 * patterns - 1) @ values) >= observed).mean())
    generator = np.random.default_rng(seed)
    hits = 0
    for start in range(0, draws, _CHUNK):
        random = generator.integers(0, 256, (min(_CHUNK, draws - start), len(values) // 8 + 1), dtype=np.uint8)
        positive = np.unpackbits(random, axis=1, count=len(values))
        hits += int((np.abs(2 * (positive @ values) - values.sum()) >= observed).sum())
    return (hits + 1) / (draws + 1)


def bootstrap_test(differences: np.ndarray, draws: int, seed: int = 0) -> float:
    """p-value of the mean of differences[S, D] by the paired bootstrap over seeds and documents.

    The share of replicates (`seeds_documents_means`) at least as far from the observed mean as that one is from zero
    (Efron & Tibshirani 1993, section 16.4, by shifting). Not calibrated: see benchmarks/regression_power.py.
    """
    mean = float(differences.mean())
    if abs(mean) <= _TINY:
        return 1.0
    deviations = np.abs(seeds_documents_means(differences, seed, draws) - mean)
    return (int((deviations >= abs(mean) - _TINY).sum()) + 1) / (draws + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values, in the order given: all at most alpha are rejected with family-wise error at most alpha.

    Holm 1979, Scandinavian Journal of Statistics 6(2): the i-th smallest of m is multiplied by m - i + 1, and none is
    below the one before it.
    """
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, position in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[position]))
        adjusted[position] = highest
    return adjusted


def fewest_documents(level: float, documents: int) -> float | None:
    """The share of documents that must all be lost before sign flips or McNemar can reach a level; None: never.

    k losses and no win have p = 2 / 2^k.
    """
    needed = math.ceil(1 - math.log2(level) - 1e-9)
    return needed / documents if needed <= documents else None


def mcnemar_detectable(discordant: int, documents: int, level: float) -> float | None:
    """The smallest true drop that the exact McNemar test finds at this level with probability `POWER`; None: none does.

    As many documents change as changed here, or as the drop itself needs; each loses with the share that gives the
    drop. Over the number of changed documents, binomial, the exact power is summed (Connett, Smith & McHugh 1987).
    """
    counts = np.arange(documents + 1)
    # The fewest losses that reject among n changed documents; n + 1 where none does.
    critical = counts - np.ceil(stats.binom.ppf(level / 2, counts, 0.5)).astype(int)
    critical += 2 * stats.binom.cdf(counts - critical, counts, 0.5) > level

    def power(drop: float) -> float:
        changed = max(drop, discordant / documents)
        finds = stats.binom.sf(critical - 1, counts, (1 + drop / changed) / 2)
        return float(stats.binom.pmf(counts, documents, changed) @ finds)

    if power(1.0) < POWER:
        return None
    return float(optimize.brentq(lambda drop: power(drop) - POWER, 1e-9, 1.0, xtol=1e-6))


def t_detectable(standard_error: float, critical: float) -> float:
    """The smallest true difference found with probability `POWER` where the mean must pass a critical value."""
    return critical + float(stats.norm.ppf(POWER)) * standard_error
