"""Which result stands beside which: a cell is task x row x epsilon, and its seeds and documents are paired.

Rows and seeds without a partner are listed. Results that were made under different conditions are refused, with the
condition that differs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from dpicl.core.cell import Cell
from dpicl.core.errors import UsageError, require_known
from dpicl.core.printable import visible
from dpicl.leaderboards.compare.sides import Side, by_seed, check_one_model
from dpicl.leaderboards.model.comparability import PAIR, differing, value_of
from dpicl.leaderboards.model.notes import named
from dpicl.leaderboards.model.rows import outcomes_of
from dpicl.leaderboards.model.text import counted, epsilon_text
from dpicl.results.schema import Result


@dataclass(frozen=True, order=True)
class Key:
    """A cell of the comparison. suite: '' where each side holds one suite, whatever its name. mode: of accounting."""

    task: str
    label: str
    epsilon: float
    mode: str
    suite: str = ""

    def __str__(self) -> str:
        mode = "" if self.mode == "proved" else f", {self.mode} accounting"
        suite = f" (suite {self.suite})" if self.suite else ""
        return f"{self.label} on {self.task} at ε = {epsilon_text(self.epsilon)}{mode}{suite}"


@dataclass(frozen=True)
class PairedCell:
    """The seeds that both sides have, in the same order."""

    key: Key
    seeds: tuple[int, ...]
    base: tuple[Result, ...]
    candidate: tuple[Result, ...]

    def outcomes(self, metric: str) -> tuple[np.ndarray, np.ndarray] | None:
        """(base, candidate), each [S, D] over the same seeds and documents; None where the metric has no documents."""
        results = (*self.base, *self.candidate)
        if any(metric not in result.documents for result in results):
            return None
        base, candidate = (
            np.array([outcomes_of(one, metric)[1] for one in side]) for side in (self.base, self.candidate)
        )
        return base, candidate

    def means(self, metric: str) -> tuple[float | None, float | None]:
        """(base, candidate): means over the seeds of a score or an aggregate; None where a seed does not have it."""
        return _mean(self.base, metric), _mean(self.candidate, metric)

    def lacks(self, metric: str) -> bool:
        """Whether every seed of the base has the metric's score, or its outcomes, and one of the candidate does not."""
        before, after = self.means(metric)
        base, candidate = (all(metric in one.documents for one in side) for side in (self.base, self.candidate))
        return (before is not None and after is None) or (base and not candidate)


@dataclass(frozen=True)
class Unmatched:
    """Seeds of one side without a partner. whole: whether the other side lacks the row altogether."""

    side: str
    key: Key
    seeds: tuple[int, ...]
    whole: bool


@dataclass(frozen=True)
class Filter:
    """Which cells; an empty tuple means all. epsilons: targets. models: as the suite names them."""

    tasks: tuple[str, ...] = ()
    mechanisms: tuple[str, ...] = ()
    epsilons: tuple[float, ...] = ()
    models: tuple[str, ...] = ()

    def by_kind(self) -> tuple[tuple[str, Collection[str], Callable[[Cell], set[str]]], ...]:
        """(kind of name, wanted names, the names of a cell). A row goes by its label and by its mechanism."""
        return (
            ("task", self.tasks, lambda cell: {cell.task}),
            ("mechanism", self.mechanisms, lambda cell: {cell.label, cell.mechanism}),
            ("model", self.models, lambda cell: {cell.model}),
            ("epsilon", tuple(f"{one:g}" for one in self.epsilons), lambda cell: {f"{cell.epsilon:g}"}),
        )


#: Every cell.
ALL = Filter()


def pair(
    base: Side, candidate: Side, wanted: Filter = ALL, metric: str | None = None
) -> tuple[tuple[PairedCell, ...], tuple[Unmatched, ...]]:
    """(cells to compare, results without a partner). metric: whose documents must be the same ones; None: each cell's
    main metric.

    Raises UsageError for a side of several models, a seed that is there twice, sides with nothing in common, and
    results made under different conditions (see dpicl.leaderboards.model.comparability).
    """
    base, candidate = (filtered(side, wanted) for side in (base, candidate))
    several = any(len({result.suite.name for result in side.results}) > 1 for side in (base, candidate))

    def key_of(result: Result) -> Key:
        cell = result.cell
        return Key(cell.task, cell.label, cell.epsilon, cell.mode, result.suite.name if several else "")

    for side in (base, candidate):
        check_one_model(side)
    ours, theirs = (by_seed(side, key_of) for side in (base, candidate))
    cells, unmatched = [], []
    for key in sorted({*ours, *theirs}):
        here, there = ours.get(key, {}), theirs.get(key, {})
        for name, own, other in (("base", here, there), ("candidate", there, here)):
            if lone := sorted(own.keys() - other.keys()):
                unmatched.append(Unmatched(name, key, tuple(lone), not other))
        if common := tuple(sorted(here.keys() & there.keys())):
            cells.append(PairedCell(key, common, *(tuple(side[seed] for seed in common) for side in (here, there))))
    if not cells:
        raise UsageError(_nothing_in_common(base, candidate))
    _check_conditions(cells, metric)
    return tuple(cells), tuple(unmatched)


def filtered(side: Side, wanted: Filter) -> Side:
    """The wanted results of a side. Raises UsageError for a name or an epsilon that the side does not have."""
    results = side.results
    for kind, names, names_of in wanted.by_kind():
        require_known(
            f"{kind} of {side.name} {side.path}:", names, set().union(*(names_of(r.cell) for r in side.results))
        )
        results = tuple(result for result in results if not names or names_of(result.cell) & {*names})
    if not results:
        raise UsageError(f"No result of {side.path} has this task, mechanism and epsilon together; take a flag away.")
    return replace(side, results=results)


def _check_conditions(cells: Sequence[PairedCell], metric: str | None) -> None:
    """Every result of a cell, on either side and at every seed, must have been made like the base's first one."""
    refused = []
    for cell in cells:
        first = cell.base[0]
        others = [one for one in (*cell.base, *cell.candidate) if differing(first, one, PAIR, metric)]
        if others:
            refused.append((cell, first, others[0]))
    if not refused:
        return
    cell, first, other = refused[0]
    condition = differing(first, other, PAIR, metric)[0]
    where = "two seeds of the base" if other in cell.base else "base and candidate"
    more = f"; {len(refused) - 1} more cells differ too" if len(refused) > 1 else ""
    values = _values(condition, first, other, metric)
    raise UsageError(
        f"{_short(str(cell.key))}: {where} differ in the {condition} ({values}){more}, so a difference of scores would"
        f" say nothing about the models; {PAIR[condition]}, or leave it out with --task, --mechanism or --epsilon."
    )


def _values(condition: str, one: Result, other: Result, metric: str | None) -> str:
    here, there = (value_of(result, condition, metric) for result in (one, other))
    if condition == "test records" and isinstance(here, tuple) and isinstance(there, tuple):
        return f"{len(here)} against {counted(len(there), 'document')}, {len({*here} & {*there})} shared"
    return " against ".join(
        _short(" / ".join(dict.fromkeys(map(str, v))) if isinstance(v, tuple) else str(v)) for v in (here, there)
    )


def _nothing_in_common(base: Side, candidate: Side) -> str:
    def rows(side: Side) -> str:
        cells = (result.cell for result in side.results)
        return named(
            sorted(f"{visible(one.label, 60)} on {visible(one.task, 60)} at ε = {one.epsilon:g}" for one in cells), 2
        )

    return (
        f"{base.path} and {candidate.path} have no task, mechanism row, epsilon and seed in common (base: {rows(base)};"
        f" candidate: {rows(candidate)}); run the same suite on both sides."
    )


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:200] + "…"


def _mean(results: Sequence[Result], metric: str) -> float | None:
    values = [one.scores[metric].value if metric in one.scores else one.aggregates.get(metric) for one in results]
    return None if None in values else fmean(value for value in values if value is not None)
