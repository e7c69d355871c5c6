"""Reads the two sides of a comparison and pairs their results.

Files of attacks are left out; a file that cannot be read stops the comparison, since a missing cell may be the one that
got worse.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from dpicl.core import json_text
from dpicl.core.cell import Cell
from dpicl.core.errors import ResultError, UsageError, require_known
from dpicl.core.messages import count, epsilon_text, join_names, message
from dpicl.core.paths import real_path
from dpicl.core.printable import make_visible
from dpicl.leaderboards.model.comparability import PAIR, list_differing, value_of, weights
from dpicl.leaderboards.model.rows import outcomes_of
from dpicl.leaderboards.model.text import seeds_text
from dpicl.models import name_in_results
from dpicl.results.schema import Result, either_from_text
from dpicl.results.store import join_files, list_results, read_file

#: A condition of two results of one seed.
_DRAW = "draw of test records"
_AGAIN = "move it away or make it again with `dpicl run`"


def _describe_commit(result: Result) -> str:
    manifest = result.manifest
    return (manifest.commit or "not a checkout") + (" with changes" if manifest.dirty else "")


#: What the results of a side were made with.
MADE_WITH: Mapping[str, Callable[[Result], str]] = {
    "model": attrgetter("cell.model"),
    "model name": attrgetter("manifest.model.name"),
    "weights": weights,
    "dtype": attrgetter("manifest.dtype"),
    "device": attrgetter("manifest.device"),
    "commit": _describe_commit,
    "Python": attrgetter("manifest.python"),
    "plug-in files": lambda result: result.cell.plugin or "",
    "suite": lambda result: f"{result.suite.name}, version {result.suite.version}",
}
#: What a side, which is one release, has one of.
_SINGLE: Mapping[str, Callable[[Result], str]] = {
    "suites": attrgetter("suite.name"),
    "models": attrgetter("cell.model"),
    "models under one name": attrgetter("manifest.model.name"),
    "weights under one name": weights,
    "dtypes": attrgetter("manifest.dtype"),
}


@dataclass(frozen=True)
class Side:
    """Results of one release. name: 'base' or 'candidate'."""

    name: str
    path: str
    results: tuple[Result, ...]

    @property
    def has_unknown_code(self) -> bool:
        """Whether the commit of a result does not say which code ran."""
        return any(result.manifest.dirty is not False for result in self.results)

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "results": len(self.results)}


def keep_one_version(base: Side, candidate: Side) -> tuple[Side, Side]:
    """Both sides with one version of each suite, the newest that both have, else the newest of each side; and of each
    of its tasks the newest."""
    shared = {*map(_version_of, base.results)} & {*map(_version_of, candidate.results)}
    results = sorted([*base.results, *candidate.results], key=attrgetter("created"))
    newest = dict(_version_of(result) for result in results if _version_of(result) in shared)
    return _keep_newest(base, newest), _keep_newest(candidate, newest)


def _version_of(result: Result) -> tuple[str, str]:
    return result.suite.name, str(result.suite.version)


def _keep_newest(side: Side, versions: Mapping[str, str]) -> Side:
    """The results of these versions of suites, by name, or of the newest; of each task the newest version."""
    task_of = attrgetter("suite.name", "cell.task")
    oldest_first = sorted(side.results, key=attrgetter("created"))
    versions = {**dict(map(_version_of, oldest_first)), **versions}
    results = [result for result in oldest_first if _version_of(result) in versions.items()]
    left_out = len(oldest_first) - len(results)
    if left_out:
        message(
            f"dpicl: left out {count(left_out, 'result')} of {side.name} of another version of the suite."
        )
    tasks = {task_of(result): result.cell.task_version for result in results}
    newest = (result for result in results if result.cell.task_version == tasks[task_of(result)])
    return replace(side, results=tuple(newest))


def choose(
    results: Sequence[Result],
    place: str,
    tasks: Collection[str] = (),
    mechanisms: Collection[str] = (),
    epsilons: Collection[float] = (),
    models: Collection[str] = (),
    suites: Collection[str] = (),
) -> tuple[Result, ...]:
    """The chosen results; an empty choice means all. place: where they are. mechanisms: labels, or mechanisms.
    epsilons: targets. models: as the suite names them. Raises UsageError for what no result has."""
    choices = {
        "suite": suites,
        "task": tasks,
        "mechanism": mechanisms,
        "model": [*map(name_in_results, models)],
        "epsilon": [f"{epsilon:g}" for epsilon in epsilons],
    }
    chosen = tuple(results)
    for kind, names in choices.items():
        names_of = [_names_of(result.cell, kind) for result in results]
        require_known(f"{kind} of {place}:", names, set().union(*names_of))
        chosen = tuple(
            result for result in chosen if not names or _names_of(result.cell, kind) & {*names}
        )
    if not chosen:
        raise UsageError(f"No result of {place} has all that is chosen together; take a flag away.")
    return chosen


def _names_of(cell: Cell, kind: str) -> set[str]:
    """The names by which a cell can be chosen."""
    match kind:
        case "mechanism":
            return {cell.label, cell.mechanism}
        case "epsilon":
            return {f"{cell.epsilon:g}"}
    return {getattr(cell, kind)}


def read_side(name: str, path: Path) -> Side:
    """The results of a file, or of a folder at any depth; a message names JSON that is no result. Changes nothing.

    Raises ResultError for a path that is not there or has no result, for a result file that is damaged or holds numbers
    that make no sense, and for what cannot be read (`dpicl.results.store.list_results`).
    """
    if not os.path.exists(path):
        raise ResultError(
            f"There is no file or folder {path}; give result files, or a folder that `dpicl run` wrote; to compare two"
            " rows of a board, add --suite SUITE."
        )
    results: list[Result] = []
    foreign: list[Path] = []
    files, unread = list_results(path, path) if os.path.isdir(path) else ([real_path(path)], [])
    if unread:
        raise ResultError(
            f"{unread[0].path} cannot be compared: {unread[0].reason}; put the results themselves there."
        )
    contents = join_files({file: read_file(file, either_from_text) for file in files})
    for file, content in contents.items():
        if isinstance(content, Result):
            results.append(content)
        elif content is not None and read_file(file, _is_attack) is not True:
            if not content.reason.startswith("foreign"):
                raise ResultError(f"{file} cannot be compared: {content.reason}; {_AGAIN}.")
            foreign.append(file)
    if not results:
        raise ResultError(
            f"There is no result file under {path}; give a result file, or a folder that `dpicl run` wrote."
        )
    if foreign:
        number = count(len(foreign), "JSON file")
        message(
            f"dpicl: left out {number} of {name} that are not results, for example {foreign[0]}."
        )
    return Side(name, str(path), tuple(results))


def _is_attack(text: str) -> bool:
    """Whether a file holds an attack, which may lie in the same folder."""
    data = json_text.loads(text)
    return isinstance(data, dict) and "attack" in data and "cell" not in data


@dataclass(frozen=True, order=True)
class Key:
    """A cell of the comparison. development: whether it is of the seeds that headroom is measured on."""

    task: str
    label: str
    epsilon: float
    development: bool = False

    @property
    def row(self) -> str:
        """The label, and what else tells it from other rows of a side: 'zero_shot (development)'."""
        return self.label + (" (development)" if self.development else "")

    def to_json(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "mechanism": self.label,
            "epsilon": self.epsilon,
            "development": self.development,
        }

    def __str__(self) -> str:
        return f"{self.row} on {self.task} at ε = {epsilon_text(self.epsilon)}"


@dataclass(frozen=True)
class Unmatched:
    """Seeds of one side without a partner. whole: whether the other side lacks the row altogether."""

    side: str
    key: Key
    seeds: tuple[int, ...]
    whole: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "side": self.side,
            **self.key.to_json(),
            "seeds": self.seeds,
            "whole_row": self.whole,
        }

    def __str__(self) -> str:
        both = "" if self.whole else " (the row is on both sides)"
        return f"{self.key}, seed {seeds_text(self.seeds)}{both}"


@dataclass(frozen=True)
class Pair:
    """A cell on both sides: results of the seeds that both have, in the same order."""

    key: Key
    base: tuple[Result, ...]
    candidate: tuple[Result, ...]

    @property
    def metric(self) -> str:
        return self.base[0].main_metric

    @property
    def means(self) -> tuple[float, float]:
        """Of the scores of base and candidate over the seeds."""
        base, candidate = (
            fmean(result.score for result in side) for side in (self.base, self.candidate)
        )
        return base, candidate

    @property
    def gains(self) -> np.ndarray:
        """float64[S, D]: candidate - base, or the reverse where less is better."""
        base = np.array([outcomes_of(result)[1] for result in self.base])
        candidate = np.array([outcomes_of(result)[1] for result in self.candidate])
        return base - candidate if self.base[0].lower_is_better(self.metric) else candidate - base


def pair_cells(base: Side, candidate: Side) -> tuple[list[Pair], list[Unmatched]]:
    """(cells to compare, results without a partner)."""
    cells_of_base, cells_of_candidate = _group_by_seed(base), _group_by_seed(candidate)
    pairs, unmatched = [], []
    for key in sorted({*cells_of_base, *cells_of_candidate}):
        before, after = cells_of_base.get(key, {}), cells_of_candidate.get(key, {})
        for side, here, there in (("base", before, after), ("candidate", after, before)):
            alone = tuple(sorted(here.keys() - there.keys()))
            if alone:
                unmatched.append(Unmatched(side, key, alone, not there))
        seeds = sorted(before.keys() & after.keys())
        if seeds:
            both = [tuple(cells[seed] for seed in seeds) for cells in (before, after)]
            pairs.append(Pair(key, *both))
    if not pairs:
        raise UsageError(
            f"{base.path} and {candidate.path} have no task, mechanism row, epsilon and seed in common (base:"
            f" {_first_rows(base)}; candidate: {_first_rows(candidate)}); run the same suite on both sides."
        )
    _check_conditions(pairs)
    return pairs, unmatched


def _group_by_seed(side: Side) -> dict[Key, dict[int, Result]]:
    """Key -> seed -> result. Raises UsageError where a side has several suites, models, weights or dtypes, or a seed
    twice."""
    for kinds, value in _SINGLE.items():
        values = sorted({value(result) for result in side.results})
        if len(values) > 1:
            names = join_names(make_visible(name, 60) for name in values)
            raise UsageError(
                f"{side.path} holds results of {len(values)} {kinds} ({names}), and"
                f" a side of a comparison is one release; give the folder of one of them as {side.name.upper()}."
            )
    cells: dict[Key, dict[int, Result]] = defaultdict(dict)
    for result in side.results:
        cell = result.cell
        seeds = cells[Key(cell.task, cell.label, cell.epsilon, cell.development)]
        if first := seeds.get(cell.seed):
            raise UsageError(
                f"{side.path} holds {cell} twice (of {first.created} and {result.created}); give a folder that"
                f" has it once as {side.name.upper()}."
            )
        seeds[cell.seed] = result
    return cells


def _check_conditions(pairs: Sequence[Pair]) -> None:
    """Requires that every result of a cell, on either side and at every seed, was made like the base's first one."""
    refused = [difference for pair in pairs for difference in _find_difference(pair)]
    if not refused:
        return
    pair, other, condition = refused[0]
    if condition == _DRAW:
        raise UsageError(
            f"{_short(pair.key)}: base and candidate have other test records at seed {other.cell.seed};"
            f" {PAIR['test records']}, or leave it out with --task, --mechanism or --epsilon."
        )
    where = "two seeds of the base" if other in pair.base else "base and candidate"
    more = f"; {len(refused) - 1} more cells differ too" if refused[1:] else ""
    here, there = value_of(pair.base[0], condition), value_of(other, condition)
    values = f"{_short(here)} against {_short(there)}"
    if condition == "test records" and isinstance(here, tuple) and isinstance(there, tuple):
        values = (
            f"{len(here)} against {count(len(there), 'document')}, {len({*here} & {*there})} shared"
        )
    raise UsageError(
        f"{_short(pair.key)}: {where} differ in the {condition} ({values}){more}, so a difference of scores would"
        f" say nothing about the models; {PAIR[condition]}, or leave it out with --task, --mechanism or --epsilon."
    )


def _find_difference(pair: Pair) -> Iterator[tuple[Pair, Result, str]]:
    """The first result that differs from the base's first one, and in which condition; also where both sides of a seed
    have other test records, which each seed may draw anew."""
    first, *others = (*pair.base, *pair.candidate)
    for result in others:
        differing = list_differing(first, result, PAIR)
        if differing:
            yield pair, result, differing[0]
            return
    for base, candidate in zip(pair.base, pair.candidate, strict=True):
        if outcomes_of(base)[0] != outcomes_of(candidate)[0]:
            yield pair, base, _DRAW
            return


def _first_rows(side: Side) -> str:
    rows = set()
    for cell in (result.cell for result in side.results):
        label, task = make_visible(cell.label, 60), make_visible(cell.task, 60)
        rows.add(f"{label} on {task} at ε = {cell.epsilon:g}")
    return join_names(sorted(rows), 2)


def _short(value: object) -> str:
    """A value in words, cut."""
    text = " / ".join(dict.fromkeys(map(str, value))) if isinstance(value, tuple) else str(value)
    return text if len(text) <= 200 else text[:200] + "…"
