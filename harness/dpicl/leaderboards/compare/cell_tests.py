"""Which test a cell of a comparison gets, with its interval and the smallest drop that it could have shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from dpicl.evaluation.inference import LEVEL, NO_PRIOR, POWER, Prior, analyse, prior_of
from dpicl.evaluation.statistics import DRAWS, seeds_documents_interval
from dpicl.leaderboards.compare import paired_tests as tests

Method = Literal["calibrated", "bootstrap"]
Name = Literal["McNemar", "sign flips", "seeds × documents", "paired bootstrap"]

#: Random draws for each unit of 1/p at the smallest p-value that Holm needs, and the most draws.
_RESOLUTION, _MOST_DRAWS = 20, 1_000_000
#: The share of a normal distribution within one standard deviation.
_ONE_SIGMA = 0.6827


@dataclass(frozen=True)
class Settings:
    """alpha: family-wise error. min_effect: smallest change that counts. metric: None: each cell's main metric.

    method: 'calibrated': McNemar, sign flips or the crossed test, whichever fits the cell; 'bootstrap': the paired
    bootstrap over seeds and documents in every cell. allow_missing: whether the candidate may lack what the base has.
    """

    alpha: float = 0.05
    min_effect: float = 0.01
    metric: str | None = None
    method: Method = "calibrated"
    allow_missing: bool = False


DEFAULTS = Settings()


@dataclass(frozen=True)
class CellTest:
    """The test of one cell. low, high: 95% interval of the gain, not adjusted for the number of cells.

    excluded: all larger changes are, either way, at alpha / (number of tested cells). detectable: smallest drop that
    this cell would show with probability 0.8 at that level; None where no drop would.
    """

    name: Name
    p: float
    low: float
    high: float
    excluded: float
    detectable: float | None


@dataclass(frozen=True)
class Family:
    """What all cells contribute to the test of each: how many are tested, and how much seeds move cells."""

    tested: int = 1
    prior: Prior = NO_PRIOR


def family_of(tables: Sequence[np.ndarray]) -> Family:
    """The family of these cells, each differences[S, D]."""
    several = [table for table in map(_without_copies, tables) if len(table) > 1]
    return Family(len(tables), prior_of([analyse(table) for table in several]))


def name_of_test(differences: np.ndarray, method: Method) -> Name:
    """The test that differences[S, D] get.

    Seeds that all agree on every document are copies (a mechanism without randomness) and count as one.
    """
    if method == "bootstrap":
        return "paired bootstrap"
    table = _without_copies(differences)
    if len(table) > 1:
        return "seeds × documents"
    return "McNemar" if np.isin(table, (-1.0, 0.0, 1.0)).all() else "sign flips"


def p_value(differences: np.ndarray, family: Family, method: Method, draws: int) -> float:
    """Two-sided p-value of differences[S, D] in one cell of a family; draws: of sign flips and of the bootstrap.

    Raises UsageError for several seeds and a single document.
    """
    table = _without_copies(differences)
    match name_of_test(differences, method):
        case "paired bootstrap":
            return tests.bootstrap_test(table, draws)
        case "seeds × documents":
            return tests.crossed_test(table, draws, family.prior)
        case "McNemar":
            return tests.mcnemar_test(*_lost_and_won(table))
        case "sign flips":
            return tests.sign_flip_test(table[0], draws)


def paired_test(differences: np.ndarray, family: Family, settings: Settings = DEFAULTS) -> CellTest:
    """The test of differences[S, D] in one cell of a family. Raises UsageError for several seeds and one document."""
    level = settings.alpha / max(family.tested, 1)
    draws = min(_MOST_DRAWS, max(DRAWS - 1, math.ceil(_RESOLUTION / level)))
    name = name_of_test(differences, settings.method)
    table = _without_copies(differences)
    p = p_value(table, family, settings.method, draws)
    if name == "seeds × documents":
        found = analyse(table, family.prior)
        half = float(found.half_width(1 - LEVEL))
        low, high = float(found.mean) - half, float(found.mean) + half
        excluded = abs(float(found.mean)) + float(found.half_width(level))
    else:
        low, high = seeds_documents_interval(table, LEVEL)
        excluded = max(map(abs, seeds_documents_interval(table, 1 - level)))
    if table.shape[1] > 1:
        found = analyse(table)
        excluded = max(excluded, abs(float(found.mean)) + float(found.unseen(level)))
    return CellTest(name, p, low, high, excluded, _detectable(table, family, name, level))


def _detectable(table: np.ndarray, family: Family, name: Name, level: float) -> float | None:
    """The smallest drop that would be shown at a level; at least as large as a test of few documents needs."""
    documents = table.shape[1]
    if name == "McNemar":
        return tests.mcnemar_detectable(sum(_lost_and_won(table)), documents, level)
    if name == "seeds × documents":
        drop = float(analyse(table, family.prior).detectable(level))
    else:
        low, high = seeds_documents_interval(table, _ONE_SIGMA)
        error = (high - low) / 2
        drop = (float(stats.norm.isf(level / 2)) + float(stats.norm.ppf(POWER))) * error
    fewest = 1 / documents if name == "paired bootstrap" else tests.fewest_documents(level, documents)
    return None if fewest is None or drop > 1 else max(drop, fewest)


def _lost_and_won(table: np.ndarray) -> tuple[int, int]:
    return int((table[0] < 0).sum()), int((table[0] > 0).sum())


def _without_copies(differences: np.ndarray) -> np.ndarray:
    return differences[:1] if (differences == differences[0]).all() else differences
