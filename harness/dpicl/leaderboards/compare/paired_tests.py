"""Tests of a paired difference: two sides scored on the same documents, at one seed or at several.

One binary outcome a document: the exact McNemar test. One real-valued outcome: sign flips over documents. Several
seeds: seeds and documents are both samples (dpicl.evaluation.inference), so both must show the difference
(`crossed_test`); a test over documents alone mistakes the luck of a few noise resamples for a property of the model.
benchmarks/regression_power.py measures which tests keep their level. All p-values are two-sided; a difference is
candidate - base, [S, D], of finite numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import optimize, stats

from dpicl.evaluation.inference import NO_PRIOR, POWER, Prior, analyse
from dpicl.evaluation.statistics import seeds_documents_means

#: Sign patterns that are held in memory at a time, and the most documents for which all of them are counted.
_CHUNK = 20_000
_MOST_EXACT = 13
#: A difference of means below this is rounding.
_TINY = 1e-12


def crossed_test(differences: np.ndarray, draws: int, prior: Prior = NO_PRIOR, seed: int = 0) -> float:
    """p-value that the mean of differences[S, D] is zero, for other seeds and other documents; S >= 2, D >= 2.

    The larger one of `Differences.tail` and of sign flips over the documents' means: the first allows for seeds that
    move all documents together, the second one needs no normal distribution where few documents differ at all.
    """
    found = analyse(differences, prior)
    return max(float(found.tail(found.mean)), sign_flip_test(differences.mean(axis=0), draws, seed))


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
