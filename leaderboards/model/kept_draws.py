"""The largest |t| of all pairs of many rows, drawn were all rows equal, and kept under what it follows from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from dpicl.harness.evaluation import components
from dpicl.harness.evaluation.kept_intervals import kept
from dpicl.leaderboards.model import many_rows, row_effects
from dpicl.leaderboards.model.many_rows import PairMatrices, largest
from dpicl.leaderboards.model.row_effects import SeedPrior, document_effects, seed_effects

#: Numbers that are held in memory at a time.
CHUNK = 5_000_000


def kept_largest(
    tasks: Sequence[np.ndarray], there: np.ndarray, prior: SeedPrior, pairs: PairMatrices, draws: int, seed: int
) -> np.ndarray:
    """float64[draws], rising: the largest |t| of all pairs in every draw. What is given: see `rank_sets`."""
    what = f"largest {draws} {seed}"
    return kept(what, tasks, lambda: _all_largest(tasks, there, prior, pairs, draws, seed), _code())


def _all_largest(
    tasks: Sequence[np.ndarray], there: np.ndarray, prior: SeedPrior, pairs: PairMatrices, draws: int, seed: int
) -> np.ndarray:
    """float64[draws], rising: the largest |t| of all pairs in every draw."""
    generator, size = np.random.default_rng(seed), max(1, CHUNK // there.size)
    parts = [min(size, draws - at) for at in range(0, draws, size)]
    return np.sort(np.concatenate([_largest(tasks, there, prior, pairs, part, generator) for part in parts]))


@cache
def _code() -> str:
    """A hash over what turns outcomes into the largest |t|."""
    files = (__file__, components.__file__, many_rows.__file__, row_effects.__file__)
    return hashlib.sha256(b"".join(Path(str(file)).read_bytes() for file in files)).hexdigest()


def _largest(
    tasks: Sequence[np.ndarray],
    there: np.ndarray,
    prior: SeedPrior,
    pairs: PairMatrices,
    draws: int,
    generator: np.random.Generator,
) -> np.ndarray:
    documents = list(document_effects(tasks, there, draws, generator))
    seeds = np.zeros((draws, *there.shape))
    if len(there) > 1:
        seeds = seed_effects(tasks, there, prior, draws, generator)
    return largest(seeds, documents, there, pairs, (2 * prior.variance, prior.degrees))
