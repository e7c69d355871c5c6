"""Computes the number of seeds that detects a difference: `dpicl plan SUITE --detect 0.03`.

From results that are there: how much the paired differences between rows vary from seed to seed, with as many test
records as they have, and what a seed costs. A difference counts as found when Student's t passes Bonferroni's critical
value for all pairs of the rows, which a board's is about. MDE is for the median pair, as on boards.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from dpicl.core.errors import UsageError
from dpicl.evaluation.statistics import FEWEST_SEEDS, LEVEL, Differences, rank_sets, summarize
from dpicl.results.schema import Result

#: Most seeds that are tried.
MOST_SEEDS = 10_000
#: What the rows of a table share.
SHARED = ("model", "task", "source", "epsilon")
Shared = tuple[str, str, str, float]


@dataclass(frozen=True)
class Table:
    """The proved rows of one model, task and source of records at one epsilon, as they are now, and what they need.

    deviation: of a paired difference from seed to seed; root mean square over all pairs of rows. seeds: most common
    ones of a pair; detects: the difference that so many find. needed: seeds, None where no number does; seconds: what
    these cost, all rows.
    """

    model: str
    task: str
    source: str
    epsilon: float
    rows: int
    documents: int
    deviation: float
    seeds: int
    detects: float
    needed: int | None
    seconds: float | None


def tables(results: Iterable[Result], detect: float, power: float) -> list[Table]:
    """What each task needs at each epsilon, with each model, in the order of the results.

    Raises UsageError where no task has two proved rows with two seeds in common.
    """
    sized = (
        _table(
            shared,
            list(rows.values()),
            detect,
            power,
        )
        for shared, rows in _group(results).items()
    )
    known = [table for table in sized if table is not None]
    if not known:
        raise UsageError(
            "No task has two mechanisms with results at two common seeds, so nothing says how much scores vary; run two"
            " seeds of two mechanisms first, or give another results folder."
        )
    return known


def find_mde(results: Iterable[Result]) -> dict[Shared, float]:
    """The true difference of two rows that each table finds with probability .8, as on a board; none above 1. A
    fixed draw is in no table, nor is an instruction that its metric does not read, nor a row that uses the embeddings
    that its metric reads."""
    drawn = (one for one in results if one.cell.options.get("sampling_seed") is None)
    tables = _group(one for one in drawn if not (one.has_unread_instruction or one.uses_its_reader))
    scores = {shared: _scores(list(rows.values())) for shared, rows in tables.items()}
    differences = {shared: rank_sets(each).detectable for shared, each in scores.items()}
    return {shared: mde for shared, mde in differences.items() if mde < 1}


def compute_detectable(
    deviation: float,
    rows: int,
    seeds: np.ndarray,
    power: float,
) -> np.ndarray:
    """The true difference of two of these rows that so many seeds find with this power."""
    pair = Differences(
        seeds,
        np.zeros(len(seeds)),
        deviation / np.sqrt(seeds),
    )
    return pair.detectable((1 - LEVEL) / math.comb(rows, 2), power)


def _group(results: Iterable[Result]) -> Mapping[Shared, Mapping[str, dict[int, Result]]]:
    """What rows share -> row -> seed -> result, of rows at a finite epsilon above 0."""
    grouped: dict[Shared, dict[str, dict[int, Result]]] = defaultdict(lambda: defaultdict(dict))
    for result in sorted(results, key=lambda one: one.created):
        cell = result.cell
        if 0 < cell.epsilon < math.inf:
            shared = (cell.model, cell.task, cell.source, cell.epsilon)
            grouped[shared][cell.label][cell.seed] = result
    return grouped


def _table(
    shared: Shared,
    rows: Sequence[Mapping[int, Result]],
    detect: float,
    power: float,
) -> Table | None:
    """None where no two rows share two seeds."""
    scores = _scores(rows)
    ones, others = np.triu_indices(len(rows), 1)
    pairs = summarize(scores[:, ones] - scores[:, others])
    common = pairs.seeds[pairs.seeds > 1]
    if not common.size:
        return None
    variances = pairs.error[pairs.seeds > 1] ** 2 * common
    deviation = float(np.sqrt(variances.mean()))
    every = [result for row in rows for result in row.values()]
    tried = np.arange(FEWEST_SEEDS, MOST_SEEDS + 1)
    enough = tried[compute_detectable(deviation, len(rows), tried, power) <= detect]
    needed = int(enough[0]) if enough.size else None
    now = np.array([common.max()])
    return Table(
        *shared,
        rows=len(rows),
        documents=max(len(result.documents[result.main_metric].ids) for result in every),
        deviation=deviation,
        seeds=int(now[0]),
        detects=float(compute_detectable(deviation, len(rows), now, power)[0]),
        needed=needed,
        seconds=needed
        and needed * len(rows) * fmean(sum(result.cost.seconds.values()) for result in every),
    )


def _scores(rows: Sequence[Mapping[int, Result]]) -> np.ndarray:
    """float64[S, p]; NaN where a row lacks a seed."""
    seeds = sorted({seed for row in rows for seed in row})
    scores = np.full((len(seeds), len(rows)), math.nan)
    for place, row in enumerate(rows):
        for seed, result in row.items():
            scores[seeds.index(seed), place] = result.score
    return scores
