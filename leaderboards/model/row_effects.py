"""What seeds and documents do to all rows of a table at once, as `rank_sets` draws it were all rows equal.

tasks: of each task float64[S, D, p], outcomes of seeds, documents and rows. there: bool[S, p], which row has a seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dpicl.harness.evaluation.components import components, variance_prior

#: A variance below this is rounding.
TINY = 1e-18


@dataclass(frozen=True)
class SeedPrior:
    """What all rows say of the variance of one row's means from seed to seed. degrees: of freedom of it; 0: nothing."""

    variance: float
    degrees: float

    def moderated(self, variance: np.ndarray, degrees: np.ndarray, rows: int = 1) -> np.ndarray:
        """Variances of a row (or of differences of ``rows`` rows) that were estimated with so many degrees of freedom,
        moderated up."""
        below = self.degrees + degrees
        pooled = (self.degrees * rows * self.variance + degrees * variance) / np.maximum(below, 1)
        moderated: np.ndarray = np.maximum(variance, pooled)
        return moderated


def prior_of(tasks: Sequence[np.ndarray], there: np.ndarray) -> SeedPrior:
    """The prior from rows with three seeds or more, less what a seed does to all rows alike."""
    rows = there.shape[1]
    means = _means(tasks, there)
    shared = means.sum(axis=1, keepdims=True) / np.maximum(there.sum(axis=1, keepdims=True), 1)
    own = np.where(there, means - shared, 0.0)
    counts = there.sum(axis=0)
    own = np.where(there, own - own.sum(axis=0) / np.maximum(counts, 1), 0.0)
    variances = (own**2).sum(axis=0) / np.maximum(counts - 1, 1) * rows / max(rows - 1, 1)
    used = (counts > 2) & (variances > TINY)
    if not used.any():
        return SeedPrior(0.0, 0.0)
    typical = float(variances[used].mean())
    ratio, degrees = variance_prior(variances[used] / typical, counts[used] - 1)
    return SeedPrior(ratio * typical, degrees)


def document_effects(
    tasks: Sequence[np.ndarray], there: np.ndarray, draws: int, generator: np.random.Generator
) -> Iterator[np.ndarray]:
    """Of each task float64[draws, p]: what fresh documents do to the rows, were all rows equal."""
    for own in tasks:
        count = own.shape[1]
        filled = np.where(there[:, None, :], own, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
        effects = (filled - filled.mean(axis=0)) / len(tasks)
        drawn = generator.standard_normal((draws, count)) @ effects / np.sqrt(count * (count - 1))
        yield drawn * np.sqrt((count - 1) / generator.chisquare(count - 1, (draws, 1)))


def seed_effects(
    tasks: Sequence[np.ndarray], there: np.ndarray, prior: SeedPrior, draws: int, generator: np.random.Generator
) -> np.ndarray:
    """float64[draws, S, p]: what S fresh seeds do to the rows, with the covariance that the seeds at hand show."""
    seeds, rows = there.shape
    means, counts = _means(tasks, there), there.sum(axis=0)
    effects = np.where(there, means - means.sum(axis=0) / np.maximum(counts, 1), 0.0)
    effects /= np.sqrt(np.maximum(counts - 1, 1))
    variances = (effects**2).sum(axis=0)
    moving = [any(moves(own[there[:, row], :, row]) for own in tasks) for row in range(rows)]
    luck = [
        luck_of([own[there[:, row], :, row] for own in tasks]) if there[:, row].any() else 0.0 for row in range(rows)
    ]
    moderated = np.where(moving, np.maximum(prior.moderated(variances, np.maximum(counts - 1, 1)), luck), 0.0)
    effects *= np.where(variances > TINY, np.sqrt(moderated / np.maximum(variances, TINY)), 0.0)
    own, degrees = 1 / (seeds - 1), prior.degrees + seeds - 1
    drawn = np.sqrt(1 - own) * (generator.standard_normal((draws, seeds, seeds)) @ effects)
    left = moderated - (1 - own) * (effects**2).sum(axis=0)  # all of it where two seeds have the same mean by chance
    drawn += np.sqrt(left) * generator.standard_normal((draws, seeds, rows))
    return drawn * np.sqrt(degrees / generator.chisquare(degrees, (draws, 1, 1)))


def luck_of(outcomes: Sequence[np.ndarray]) -> float:
    """What luck does to the mean over tasks of one seed, V_r/D, from outcomes [S, D] of each task."""
    return sum(components(own).rest / own.shape[1] for own in outcomes) / len(outcomes) ** 2


def moves(outcomes: np.ndarray) -> bool:
    """Whether any outcome [S, ...] differs between two seeds; a row without luck has no variance by seed."""
    return bool((outcomes != outcomes[:1]).any())


def _means(tasks: Sequence[np.ndarray], there: np.ndarray) -> np.ndarray:
    """float64[S, p]: means over documents and tasks; 0 where a row lacks a seed."""
    means: np.ndarray = np.mean([np.where(there, own.mean(axis=1), 0.0) for own in tasks], axis=0)
    return means
