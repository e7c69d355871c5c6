"""How many seeds and documents a suite needs to find a difference, at least cost: `dpicl plan SUITE --detect 0.03`.

From results that are there: the variance components of the paired differences between rows
(dpicl.evaluation.inference), and what a seed and a document cost. A difference is found when it passes the
critical value of a board, for all pairs of the rows at once. The note under a board's table is for its median pair.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import numpy as np

from dpicl.core.errors import UsageError
from dpicl.evaluation.inference import Components, alpha_of_pair, components
from dpicl.results.schema import Result

#: Sizes that are tried. More seeds than this cost more than any suite is worth.
SEEDS = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100)
DOCUMENTS = (25, 50, 75, 100, 150, 200, 300, 400, 500, 750, 1000, 2000, 5000)
#: What the rows of a table share: model, task, source of records, notion of privacy, epsilon.
Shared = tuple[str, str, str, str, float]


@dataclass(frozen=True)
class TableSize:
    """seeds x documents, what they cost, and the smallest difference that they find with the wanted power."""

    seeds: int
    documents: int
    seconds: float
    detects: float


@dataclass(frozen=True)
class Table:
    """The proved rows of one model, task, source of records and notion of privacy at one epsilon, as they are now, and
    what they need.

    needed: None where no size does. variances: means over all pairs of rows. now: the size at hand.
    """

    model: str
    task: str
    source: str
    notion: str
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
    if not 0 < detect < 1:
        raise UsageError(f"--detect is a difference of scores, above 0 and below 1 such as 0.03, not {detect:g}.")
    if not 0.5 <= power < 1:
        raise UsageError(f"--power is a probability of at least 0.5 and below 1 such as 0.8, not {power:g}.")
    found = [
        table
        for shared, rows in _grouped(results).items()
        for table in _table(shared, list(rows.values()), detect, power)
    ]
    if not found:
        raise UsageError(
            "No task has two mechanisms with results at two common seeds, so nothing says how much scores vary; run two"
            " seeds of two mechanisms first, or give another results folder."
        )
    return found


def detectable(variances: Components, rows: int, seeds: int, documents: np.ndarray | int, power: float) -> np.ndarray:
    """The true difference of two of these rows that S seeds x D documents find with this power: (critical + z) se."""
    return variances.differences(seeds, np.asarray(documents)).detectable(alpha_of_pair(rows), power)


def _grouped(results: Iterable[Result]) -> Mapping[Shared, Mapping[str, dict[int, Result]]]:
    """What rows share -> row -> seed -> result, of proved rows at a finite epsilon above 0."""
    grouped: dict[Shared, dict[str, dict[int, Result]]] = defaultdict(lambda: defaultdict(dict))
    for result in sorted(results, key=lambda one: one.created):
        cell = result.cell
        if cell.mode == "proved" and 0 < cell.epsilon < math.inf:
            shared = (cell.model, cell.task, cell.source, result.privacy.notion, cell.epsilon)
            grouped[shared][cell.label][cell.seed] = result
    return grouped


def _table(shared: Shared, rows: Sequence[Mapping[int, Result]], detect: float, power: float) -> Iterator[Table]:
    pairs = []
    for one, other in combinations(rows, 2):
        seeds = sorted(one.keys() & other.keys())
        differences = [_difference(one[seed], other[seed]) for seed in seeds]
        if len(seeds) > 1 and len({len(row) for row in differences}) == 1 and len(differences[0]) > 1:
            pairs.append((np.array(differences).shape, components(np.array(differences))))
    if not pairs:
        return
    own = [part for _, part in pairs]
    variances = Components(
        max(0.0, fmean(part.by_seed for part in own)),
        fmean(part.by_document for part in own),
        fmean(p.rest for p in own),
    )
    seeds, documents = max(shape for shape, _ in pairs)
    once, each = _price([result for row in rows for result in row.values()], len(rows))

    def size(seeds: int, documents: int) -> TableSize:
        finds = float(detectable(variances, len(rows), seeds, documents, power))
        return TableSize(seeds, documents, seeds * (once + documents * each), finds)

    tried = (_least_documents(variances, len(rows), seeds, detect, power) for seeds in SEEDS)
    enough = [size(seeds, documents) for seeds, documents in zip(SEEDS, tried, strict=True) if documents]
    needed = min(enough, key=lambda one: (one.seconds, one.seeds * one.documents), default=None)
    yield Table(*shared, len(rows), variances, size(seeds, documents), needed)


def _least_documents(variances: Components, rows: int, seeds: int, detect: float, power: float) -> int | None:
    finds = detectable(variances, rows, seeds, np.array(DOCUMENTS), power)
    return next((d for d, found in zip(DOCUMENTS, finds, strict=True) if found <= detect), None)


def _difference(one: Result, other: Result) -> list[float]:
    first, second = (
        dict(zip(own.ids, own.outcomes, strict=True))
        for own in (one.documents[one.main_metric], other.documents[other.main_metric])
    )
    return [first[name] - second[name] for name in sorted(first.keys() & second.keys())]


def _price(results: Sequence[Result], rows: int) -> tuple[float, float]:
    """Mean seconds of one seed of all rows: once, and for each document, as an answer mechanism has them all."""
    once, each = [], []
    for result in results:
        seconds, documents = result.cost.seconds, len(result.documents[result.main_metric].ids)
        release, rest = seconds.get("release", 0.0), seconds.get("evaluate", 0.0)
        per_query = result.privacy.queries is not None
        once.append(seconds.get("calibrate", 0.0) + seconds.get("account", 0.0) + (0.0 if per_query else release))
        each.append((rest + (release if per_query else 0.0)) / documents)
    return fmean(once) * rows, fmean(each) * rows
