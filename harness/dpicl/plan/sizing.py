"""Computes the cheapest numbers of seeds and documents that detect a difference: `dpicl plan SUITE --detect 0.03`.

From results that are there: the variance components of the paired differences between rows
(dpicl.evaluation.statistics), and what a seed and a document cost. A difference is found when it passes the
critical value of a board, for all pairs of the rows at once. MDE is for their median pair, here and on boards.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import numpy as np

from dpicl.core.errors import UsageError
from dpicl.evaluation.statistics import Components, alpha_of_pair, components, rank_sets
from dpicl.results.schema import Result

#: Sizes that are tried.
SEEDS = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 150, 200, 300, 500, 1000, 2000, 5000, 10_000)
DOCUMENTS = (25, 50, 75, 100, 150, 200, 300, 400, 500, 750, 1000, 2000, 5000, 10_000)
#: What the rows of a table share.
SHARED = ("model", "task", "source", "epsilon")
Shared = tuple[str, str, str, float]


@dataclass(frozen=True)
class TableSize:
    """seeds x documents, what they cost, and the smallest difference that they find with the wanted power."""

    seeds: int
    documents: int
    seconds: float
    detects: float


@dataclass(frozen=True)
class Table:
    """The proved rows of one model, task and source of records at one epsilon, as they are now, and what they need.

    needed: None where no size does. variances: means over all pairs of rows. now: the size at hand.
    """

    model: str
    task: str
    source: str
    epsilon: float
    rows: int
    variances: Components
    now: TableSize
    needed: TableSize | None


def tables(results: Iterable[Result], detect: float, power: float) -> list[Table]:
    """What each task needs at each epsilon, with each model, in the order of the results.

    Of each row the seeds with a result count; documents are those that all its rows share. Raises UsageError where
    nothing tells variances: no task has two proved rows with two seeds in common.
    """
    made = (_table(shared, list(rows.values()), detect, power) for shared, rows in _group(results).items())
    found = [table for table in made if table is not None]
    if not found:
        raise UsageError(
            "No task has two mechanisms with results at two common seeds, so nothing says how much scores vary; run two"
            " seeds of two mechanisms first, or give another results folder."
        )
    return found


def find_mde(results: Iterable[Result]) -> dict[Shared, float]:
    """The true difference of two rows that each table finds with probability .8, as on a board; none above 1. A
    fixed draw is in no table, nor is an instruction that its metric does not read, nor a row that uses the embeddings
    that its metric reads."""
    drawn = (one for one in results if one.cell.options.get("sampling_seed") is None)
    tables = _group(one for one in drawn if not (one.has_unread_instruction or one.uses_its_reader))
    outcomes = {shared: _outcomes(list(rows.values())) for shared, rows in tables.items()}
    found = {shared: rank_sets(own, reach=1.0).detectable for shared, own in outcomes.items() if own.shape[1] > 1}
    return {shared: mde for shared, mde in found.items() if mde < 1}


def compute_detectable(
    variances: Components, rows: int, seeds: int, documents: int | Sequence[int], power: float
) -> np.ndarray:
    """The true difference of two of these rows that S seeds x D documents find with this power: (critical + z) se."""
    return variances.differences(seeds, np.asarray(documents)).compute_detectable(alpha_of_pair(rows), power)


def _group(results: Iterable[Result]) -> Mapping[Shared, Mapping[str, dict[int, Result]]]:
    """What rows share -> row -> seed -> result, of rows at a finite epsilon above 0."""
    grouped: dict[Shared, dict[str, dict[int, Result]]] = defaultdict(lambda: defaultdict(dict))
    for result in sorted(results, key=lambda one: one.created):
        cell = result.cell
        if 0 < cell.epsilon < math.inf:
            shared = (cell.model, cell.task, cell.source, cell.epsilon)
            grouped[shared][cell.label][cell.seed] = result
    return grouped


def _table(shared: Shared, rows: Sequence[Mapping[int, Result]], detect: float, power: float) -> Table | None:
    """None where no two rows share two seeds and two documents."""
    outcomes = _outcomes(rows)
    found = (outcomes[..., i] - outcomes[..., j] for i, j in combinations(range(len(rows)), 2))
    pairs = [pair for one in found if min((pair := one[~np.isnan(one).all(axis=1)]).shape) > 1]
    if not pairs:
        return None
    own = [components(pair) for pair in pairs]
    by_seed, by_document, rest = (fmean(getattr(one, n) for one in own) for n in ("by_seed", "by_document", "rest"))
    variances = Components(max(0.0, by_seed), by_document, rest)
    once, each = _costs([result for row in rows for result in row.values()])

    def sizes(seeds: int, documents: Sequence[int]) -> list[TableSize]:
        finds = compute_detectable(variances, len(rows), seeds, documents, power)
        cost = [seeds * (once * len(rows) + number * (each * len(rows))) for number in documents]
        return [TableSize(seeds, *own) for own in zip(documents, cost, map(float, finds), strict=True)]

    enough = [size for seeds in SEEDS for size in sizes(seeds, DOCUMENTS) if size.detects <= detect]
    needed = min(enough, key=lambda one: (one.seconds, one.seeds * one.documents), default=None)
    seeds, documents = max(pair.shape for pair in pairs)
    return Table(*shared, len(rows), variances, sizes(seeds, [documents])[0], needed)


def _outcomes(rows: Sequence[Mapping[int, Result]]) -> np.ndarray:
    """float64[S, D, p] on the documents that all rows have; NaN where a row lacks a seed."""
    scores = [{seed: result.documents[result.main_metric].by_id for seed, result in row.items()} for row in rows]
    shared = sorted(set.intersection(*(set(one) for row in scores for one in row.values())))
    seeds, nothing = sorted({seed for row in rows for seed in row}), dict.fromkeys(shared, math.nan)
    found = [[[row.get(seed, nothing)[name] for row in scores] for name in shared] for seed in seeds]
    return np.array(found).reshape(len(seeds), len(shared), len(rows))


def _costs(results: Sequence[Result]) -> tuple[float, float]:
    """Mean seconds of a cell: (once, for each document). What an answer mechanism does, it does for each document."""
    once, each = [], []
    for result in results:
        seconds, documents = result.cost.seconds, len(result.documents[result.main_metric].ids)
        release, rest = seconds.get("release", 0.0), seconds.get("evaluate", 0.0)
        per_query = result.privacy.queries is not None
        once.append(seconds.get("calibrate", 0.0) + seconds.get("account", 0.0) + (0.0 if per_query else release))
        each.append((rest + (release if per_query else 0.0)) / documents)
    return fmean(once), fmean(each)
