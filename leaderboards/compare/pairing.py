"""Which result stands beside which: a cell is task x row x epsilon, and its seeds and documents are paired.

Nothing is dropped in silence: rows and seeds without a partner are listed, and results that were made under other
conditions are refused, with the condition that differs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from dpicl.harness.core.errors import UsageError, unknown
from dpicl.harness.run.results import Result
from dpicl.leaderboards.compare.sides import Side, check_no_duplicate, check_one_model, listed
from dpicl.leaderboards.model.comparability import PAIR, differing, value_of


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
        ids = sorted(self.base[0].documents[metric].ids)
        base, candidate = (
            np.array([_in_order(result, metric, ids) for result in side]) for side in (self.base, self.candidate)
        )
        return base, candidate

    def means(self, metric: str) -> tuple[float | None, float | None]:
        """(base, candidate): means over the seeds of a score or an aggregate; None where a seed does not have it."""
        return _mean(self.base, metric), _mean(self.candidate, metric)


@dataclass(frozen=True)
class Unmatched:
    """Results of one side without a partner. seeds: which; whole: whether the other side lacks the row altogether."""

    side: str
    key: Key
    seeds: tuple[int, ...]
    whole: bool


@dataclass(frozen=True)
class Pairing:
    """What is compared, and what has no partner."""

    cells: tuple[PairedCell, ...]
    unmatched: tuple[Unmatched, ...]


@dataclass(frozen=True)
class Filter:
    """Which cells; an empty tuple stands for all. epsilons: targets. models: as the suite names them."""

    tasks: tuple[str, ...] = ()
    mechanisms: tuple[str, ...] = ()
    epsilons: tuple[float, ...] = ()
    models: tuple[str, ...] = ()

    def admits(self, result: Result) -> bool:
        """Whether a result is wanted. A mechanism is named by its row or by its own name."""
        cell = result.cell
        return (
            (not self.tasks or cell.task in self.tasks)
            and (not self.mechanisms or cell.label in self.mechanisms or cell.mechanism in self.mechanisms)
            and (not self.epsilons or cell.epsilon in self.epsilons)
            and (not self.models or cell.model in self.models)
        )


#: Every cell.
ALL = Filter()


def pair(base: Side, candidate: Side, wanted: Filter = ALL, metric: str | None = None) -> Pairing:
    """Pairs two sides. metric: whose documents must be the same ones; None: each cell's main metric.

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
        check_no_duplicate(side, key_of)
    ours, theirs = (_by_key(side.results, key_of) for side in (base, candidate))
    cells, unmatched = [], []
    for key in sorted({*ours, *theirs}):
        here, there = ours.get(key, {}), theirs.get(key, {})
        common = sorted(here.keys() & there.keys())
        for name, own, other in (("base", here, there), ("candidate", there, here)):
            if lone := sorted(own.keys() - other.keys()):
                unmatched.append(Unmatched(name, key, tuple(lone), not other))
        if common:
            results = (tuple(side[seed] for seed in common) for side in (here, there))
            cells.append(PairedCell(key, tuple(common), *results))
    if not cells:
        raise UsageError(_nothing_in_common(base, candidate))
    _check_conditions(cells, metric)
    return Pairing(tuple(cells), tuple(unmatched))


def filtered(side: Side, wanted: Filter) -> Side:
    """The wanted results of a side. Raises UsageError for a name or an epsilon that the side does not have."""
    rows = {name for result in side.results for name in (result.cell.label, result.cell.mechanism)}
    epsilons = {result.cell.epsilon for result in side.results}
    for kind, names, there in (
        ("task", wanted.tasks, {result.cell.task for result in side.results}),
        ("mechanism", wanted.mechanisms, rows),
        ("model", wanted.models, {result.cell.model for result in side.results}),
        ("epsilon", tuple(map(epsilon_text, wanted.epsilons)), set(map(epsilon_text, epsilons))),
    ):
        for name in names:
            if name not in there:
                raise unknown(f"{kind} of {side.name} {side.path}:", name, there)
    results = tuple(result for result in side.results if wanted.admits(result))
    if not results:
        raise UsageError(f"No result of {side.path} has this task, mechanism and epsilon together; take a flag away.")
    return Side(side.name, side.path, results, side.foreign)


def epsilon_text(epsilon: float) -> str:
    """'1', '0.5', '∞'."""
    return "∞" if math.isinf(epsilon) else f"{epsilon:g}"


def _by_key(results: Sequence[Result], key_of: Callable[[Result], Key]) -> dict[Key, dict[int, Result]]:
    found: dict[Key, dict[int, Result]] = defaultdict(dict)
    for result in results:
        found[key_of(result)][result.cell.seed] = result
    return found


def _check_conditions(cells: Sequence[PairedCell], metric: str | None) -> None:
    """Every result of a cell, on either side and at every seed, must have been made like the base's first one."""
    refused = []
    for cell in cells:
        first = cell.base[0]
        for name, results in (("base", cell.base), ("candidate", cell.candidate)):
            other = next((result for result in results if differing(first, result, PAIR, metric)), None)
            if other:
                refused.append((cell.key, name, first, other))
                break
    if not refused:
        return
    key, name, first, other = refused[0]
    condition = differing(first, other, PAIR, metric)[0]
    where = "base and candidate" if name == "candidate" else "two seeds of the base"
    more = f"; {len(refused) - 1} more cells differ too" if len(refused) > 1 else ""
    raise UsageError(
        f"{_short(str(key))}: {where} differ in the {condition} ({_values(condition, first, other, metric)}){more},"
        f" so a difference of scores would say nothing about the models; {PAIR[condition]}, or leave it out with"
        " --task, --mechanism or --epsilon."
    )


def _values(condition: str, one: Result, other: Result, metric: str | None) -> str:
    here, there = (value_of(result, condition, metric) for result in (one, other))
    if condition == "test records" and isinstance(here, tuple) and isinstance(there, tuple):
        return f"{len(here)} documents against {len(there)} documents, {len({*here} & {*there})} shared"
    return " against ".join(
        _short(" / ".join(dict.fromkeys(map(str, v))) if isinstance(v, tuple) else str(v)) for v in (here, there)
    )


def _nothing_in_common(base: Side, candidate: Side) -> str:
    def rows(side: Side) -> str:
        return listed(sorted({f"{r.cell.label} on {r.cell.task} at ε = {r.cell.epsilon:g}" for r in side.results}), 2)

    return (
        f"{base.path} and {candidate.path} have no task, mechanism row, epsilon and seed in common (base: {rows(base)};"
        f" candidate: {rows(candidate)}); run the same suite on both sides."
    )


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:200] + "…"


def _in_order(result: Result, metric: str, ids: Sequence[str]) -> list[float]:
    documents = result.documents[metric]
    outcomes: Mapping[str, float] = dict(zip(documents.ids, documents.outcomes, strict=True))
    return [outcomes[name] for name in ids]


def _mean(results: Sequence[Result], metric: str) -> float | None:
    values = [value for result in results if (value := _number(result, metric)) is not None]
    return fmean(values) if len(values) == len(results) else None


def _number(result: Result, metric: str) -> float | None:
    if metric in result.scores:
        return result.scores[metric].value
    return result.aggregates.get(metric)
