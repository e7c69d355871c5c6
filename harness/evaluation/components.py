"""Variance components of paired differences [S, D]: seeds and documents are crossed, and both are samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special, stats

from dpicl.harness.core.errors import UsageError

#: Fewest variances for a prior, and its most degrees of freedom.
_FEWEST, _MOST_DEGREES = 4, 100.0


@dataclass(frozen=True)
class Components:
    """Of one difference, or means of those of many (Scheffe 1959, section 7.4; Searle, Casella & McCulloch 1992, 4.7).

    by_seed: V_s, by_document: V_d, rest: V_r, as variances; V_s may be estimated below 0.
    """

    by_seed: float
    by_document: float
    rest: float

    def seeds_part(self, documents: int) -> float:
        """V_s + V_r/D: the variance of means over D documents from seed to seed; at least 0."""
        return max(0.0, self.by_seed + self.rest / documents)

    def error(self, seeds: int, documents: int) -> float:
        """Standard error of the mean over S seeds and D documents: the root of V_s/S + V_d/D + V_r/(S D)."""
        return math.sqrt(self.seeds_part(documents) / seeds + self.by_document / documents)

    def degrees(self, seeds: int, documents: int) -> float:
        """Degrees of freedom of that standard error, where it is estimated from S x D (Satterthwaite 1946)."""
        parts = (self.seeds_part(documents) / seeds, self.by_document / documents)
        below = parts[0] ** 2 / (seeds - 1) + parts[1] ** 2 / (documents - 1)
        return sum(parts) ** 2 / below if below > 0 else math.inf


def components(differences: np.ndarray) -> Components:
    """The variance components of differences[S, D]. V_d is at least 0; one seed cannot tell V_s from nothing: it is 0.

    Raises UsageError for fewer than two documents.
    """
    seeds, documents = differences.shape
    if documents < 2:
        raise UsageError("Variance components need at least two documents; run more test records.")
    by_document = differences.mean(axis=0)
    variance = float(by_document.var(ddof=1))
    if seeds < 2:
        return Components(0.0, variance, 0.0)
    by_seed = differences.mean(axis=1)
    left = differences - by_seed[:, None] - by_document + differences.mean()
    rest = float((left**2).sum()) / ((seeds - 1) * (documents - 1))
    return Components(float(by_seed.var(ddof=1)) - rest / documents, max(0.0, variance - rest / seeds), rest)


def variance_prior(ratios: np.ndarray, degrees: np.ndarray) -> tuple[float, float]:
    """(mean ratio, degrees of freedom) of a scaled inverse chi-square prior on variances, relative to what they are
    divided by, from many estimates with ``degrees`` of freedom each; (1, 0), no prior, from fewer than four.

    Empirical Bayes by the moments of the logarithm (Smyth 2004, Statistical Applications in Genetics and Molecular
    Biology 3(1), section 6.2), with one change: the variance of the logarithms is taken at its one-sided 95% upper
    limit, so that few estimates, or ones that differ much, give a weak prior. All ratios are above 0.
    """
    if len(ratios) < _FEWEST:
        return 1.0, 0.0
    half = np.asarray(degrees, dtype=np.float64) / 2
    logs = np.log(ratios) - special.digamma(half) + np.log(half)
    within = special.polygamma(1, half)
    kurtosis = float((special.polygamma(3, half) / within**2).mean())
    error = math.sqrt(2 / (len(ratios) - 1) + kurtosis / len(ratios))
    between = float(logs.var(ddof=1)) * (1 + float(stats.norm.ppf(0.95)) * error) - float(within.mean())
    found = _MOST_DEGREES
    if between > float(special.polygamma(1, _MOST_DEGREES / 2)):
        found = 2 * optimize.brentq(lambda x: special.polygamma(1, x) - between, 1e-6, _MOST_DEGREES / 2)
    ratio = math.exp(float(logs.mean()) + float(special.digamma(found / 2)) - math.log(found / 2))
    return ratio, found
