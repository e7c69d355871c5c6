"""How many seeds and documents a suite needs to find a difference, at least cost: `dpicl plan SUITE --detect 0.03`.

From results that are there: the variance components of the paired differences between rows
(dpicl.evaluation.statistics), and what a seed and a document cost. A difference is found when it passes the
critical value of a board, for all pairs of the rows at once. The note under a board's table is for its median pair.
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
from dpicl.evaluation.statistics import Components, alpha_of_pair, components
from dpicl.results.schema import Result

#: Sizes that are tried.
SEEDS = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 150, 200, 300, 500, 1000, 2000, 5000, 10_000)
DOCUMENTS = (25, 50, 75, 100, 150, 200, 300, 400, 500, 750, 1000, 2000, 5000, 10_000)
#: What the rows of a table share: model, task, source of records, epsilon.
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
    made = (_table(shared, list(rows.values()), detect, power) for shared, rows in _grouped(results).items())
    found = [table for table in made if table is not None]
    if not found:
        raise UsageError(
            "No task has two mechanisms with results at two common seeds, so nothing says how much scores vary; run two"
            " seeds of two mechanisms first, or give another results folder."
        )
    return found


def detectable(
    variances: Components, rows: int, seeds: int, documents: int | Sequence[int], power: float
) -> np.ndarray:
    """The true difference of two of these rows that S seeds x D documents find with this power: (critical + z) se."""
    return variances.differences(seeds, np.asarray(documents)).detectable(alpha_of_pair(rows), power)


def _grouped(results: Iterable[Result]) -> Mapping[Shared, Mapping[str, dict[int, Result]]]:
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
    pairs = []
    for one, other in combinations(rows, 2):
        differences = [_difference(one[seed], other[seed]) for seed in sorted(one.keys() & other.keys())]
        if len(differences) > 1 and len({len(row) for row in differences}) == 1 and len(differences[0]) > 1:
            pairs.append(np.array(differences))
    if not pairs:
        return None
    own = [components(pair) for pair in pairs]
    by_seed, by_document, rest = (fmean(getattr(one, n) for one in own) for n in ("by_seed", "by_document", "rest"))
    variances = Components(max(0.0, by_seed), by_document, rest)
    once, each = _costs([result for row in rows for result in row.values()])

    def sizes(seeds: int, documents: Sequence[int]) -> list[TableSize]:
        finds = detectable(variances, len(rows), seeds, documents, power)
        cost = [seeds * (once * len(rows) + number * (each * len(rows))) for number in documents]
        return [TableSize(seeds, *own) for own in zip(documents, cost, map(float, finds), strict=True)]

    enough = [size for seeds in SEEDS for size in sizes(seeds, DOCUMENTS) if size.detects <= detect]
    needed = min(enough, key=lambda one: (one.seconds, one.seeds * one.documents), default=None)
    seeds, documents = max(pair.shape for pair in pairs)
    return Table(*shared, len(rows), variances, sizes(seeds, [documents])[0], needed)


def _difference(one: Result, other: Result) -> list[float]:
    first, second = (result.documents[result.main_metric].by_id for result in (one, other))
    return [first[name] - second[name] for name in sorted(first.keys() & second.keys())]


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
