"""Reads the two sides of a comparison and pairs their results.

Files of attacks are left out; a file that cannot be read stops the comparison, since a missing cell may be the one that
got worse.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from dpicl.core import json_text
from dpicl.core.errors import ResultError, UsageError, require_known
from dpicl.core.messages import count, epsilon_text, join_names, message
from dpicl.core.paths import real_path
from dpicl.core.printable import make_visible
from dpicl.leaderboards.model.comparability import PAIR, list_differing, value_of, weights
from dpicl.leaderboards.model.rows import outcomes_of, score_of
from dpicl.models import name_in_results
from dpicl.results.schema import Result, either_from_text
from dpicl.results.store import join_files, list_results, read_file

_AGAIN = "move it away or make it again with `dpicl run`"
#: A key that only files of attacks have, which may lie in the same folder.
_EVIDENCE = "attack"

#: What the results of a side were made with.
MADE_WITH: Mapping[str, Callable[[Result], str]] = {
    "model": lambda r: r.cell.model,
    "model name": lambda r: r.manifest.model.name,
    "weights": weights,
    "dtype": lambda r: r.manifest.dtype,
    "device": lambda r: r.manifest.device,
    "commit": lambda r: (r.manifest.commit or "not a checkout") + (" with changes" if r.manifest.dirty else ""),
    "Python": lambda r: r.manifest.python,
    "plug-in files": lambda r: r.cell.plugin or "",
    "suite": lambda r: f"{r.suite.name}, version {r.suite.version}",
}
#: What a side, which is one release, has one of.
_SINGLE: Mapping[str, Callable[[Result], str]] = {
    "suites": lambda r: r.suite.name,
    "models": lambda r: r.cell.model,
    "models under one name": lambda r: r.manifest.model.name,
    "weights under one name": weights,
    "dtypes": lambda r: r.manifest.dtype,
}


@dataclass(frozen=True)
class Side:
    """Results of one release. name: 'base' or 'candidate'."""

    name: str
    path: str
    results: tuple[Result, ...]

    def newest(self) -> Side:
        """The results of the newest version of every task of a suite."""

        def task(result: Result) -> tuple[str, str]:
            return result.suite.name, result.cell.task

        versions = {task(one): one.cell.task_version for one in sorted(self.results, key=lambda one: one.created)}
        return replace(self, results=tuple(one for one in self.results if one.cell.task_version == versions[task(one)]))


def keep_one_version(base: Side, candidate: Side) -> tuple[Side, Side]:
    """Both sides with one version of each suite: the newest that both have, else the newest of each side."""
    times = [_find_times(side) for side in (base, candidate)]
    shared = times[0].keys() & times[1].keys()
    last = {version: max(own[version] for own in times) for version in shared}
    kept = []
    for side, own in zip((base, candidate), times, strict=True):
        newest: dict[str, tuple[bool, datetime, str]] = {}
        for (suite, version), created in own.items():
            found = ((suite, version) in shared, last.get((suite, version), created), version)
            newest[suite] = max(newest.get(suite, found), found)
        results = [one for one in side.results if str(one.suite.version) == newest[one.suite.name][2]]
        if left_out := len(side.results) - len(results):
            message(f"dpicl: left out {count(left_out, 'result')} of {side.name} of another version of the suite.")
        kept.append(replace(side, results=tuple(results)))
    return kept[0], kept[1]


def _find_times(side: Side) -> dict[tuple[str, str], datetime]:
    """(suite, its version) -> when the first of its results was made."""
    found: dict[tuple[str, str], datetime] = {}
    for result in side.results:
        key, created = (result.suite.name, str(result.suite.version)), datetime.fromisoformat(result.created)
        found[key] = min(found.get(key, created), created)
    return found


def choose(
    results: Sequence[Result],
    place: str,
    tasks: Collection[str] = (),
    mechanisms: Collection[str] = (),
    epsilons: Collection[float] = (),
    models: Collection[str] = (),
    suites: Collection[str] = (),
) -> tuple[Result, ...]:
    """These results alone; nothing chosen means all. place: where they are. mechanisms: labels, or mechanisms.
    epsilons: targets. models: as the suite names them. Raises UsageError for what no result has."""
    chosen = tuple(results)
    for kind, names, names_of in (
        ("suite", suites, lambda cell: {cell.suite}),
        ("task", tasks, lambda cell: {cell.task}),
        ("mechanism", mechanisms, lambda cell: {cell.label, cell.mechanism}),
        ("model", [*map(name_in_results, models)], lambda cell: {cell.model}),
        ("epsilon", [f"{one:g}" for one in epsilons], lambda cell: {f"{cell.epsilon:g}"}),
    ):
        require_known(f"{kind} of {place}:", names, set().union(*(names_of(one.cell) for one in results)))
        chosen = tuple(one for one in chosen if not names or names_of(one.cell) & {*names})
    if not chosen:
        raise UsageError(f"No result of {place} has all that is chosen together; take a flag away.")
    return chosen


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
        raise ResultError(f"{unread[0].path} cannot be compared: {unread[0].reason}; put the results themselves there.")
    contents = join_files({file: read_file(file, either_from_text) for file in files})
    for file, found in contents.items():
        if isinstance(found, Result):
            results.append(found)
        elif found is not None and not isinstance(read_file(file, _evidence), dict):
            if not found.reason.startswith("foreign"):
                raise ResultError(f"{file} cannot be compared: {found.reason}; {_AGAIN}.")
            foreign.append(file)
    if not results:
        raise ResultError(
            f"There is no result file under {path}; give a result file, or a folder that `dpicl run` wrote."
        )
    if foreign:
        number = count(len(foreign), "JSON file")
        message(f"dpicl: left out {number} of {name} that are not results, for example {foreign[0]}.")
    return Side(name, str(path), tuple(results))


def _evidence(text: str) -> dict[str, Any] | None:
    """What a file of an attack holds; None for any other."""
    data = json_text.loads(text)
    return data if isinstance(data, dict) and _EVIDENCE in data and "cell" not in data else None


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
        return {"mechanism" if name == "label" else name: value for name, value in vars(self).items()}

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
        return {"side": self.side, **self.key.to_json(), "seeds": self.seeds, "whole_row": self.whole}


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
        base, candidate = (fmean(map(score_of, side)) for side in (self.base, self.candidate))
        return base, candidate

    @property
    def gains(self) -> np.ndarray:
        """float64[S, D]: candidate - base, or the reverse where less is better."""
        before, after = (np.array([outcomes_of(one)[1] for one in side]) for side in (self.base, self.candidate))
        return before - after if self.base[0].lower_is_better(self.metric) else after - before


def pair_cells(base: Side, candidate: Side) -> tuple[list[Pair], list[Unmatched]]:
    """(cells to compare, results without a partner)."""
    ours, theirs = map(_group_by_seed, (base, candidate))
    pairs, unmatched = [], []
    for key in sorted({*ours, *theirs}):
        here, there = ours.get(key, {}), theirs.get(key, {})
        for name, own, other in (("base", here, there), ("candidate", there, here)):
            if lone := sorted(own.keys() - other.keys()):
                unmatched.append(Unmatched(name, key, tuple(lone), not other))
        if common := sorted(here.keys() & there.keys()):
            before, after = (tuple(side[seed] for seed in common) for side in (here, there))
            pairs.append(Pair(key, before, after))
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
            names = join_names(make_visible(one, 60) for one in values)
            raise UsageError(
                f"{side.path} holds results of {len(values)} {kinds} ({names}), and"
                f" a side of a comparison is one release; give the folder of one of them as {side.name.upper()}."
            )
    found: dict[Key, dict[int, Result]] = defaultdict(dict)
    for result in side.results:
        cell = result.cell
        seeds = found[Key(cell.task, cell.label, cell.epsilon, cell.development)]
        if first := seeds.get(cell.seed):
            raise UsageError(
                f"{side.path} holds {cell} twice (of {first.created} and {result.created}); give a folder that"
                f" has it once as {side.name.upper()}."
            )
        seeds[cell.seed] = result
    return found


def _check_conditions(pairs: Sequence[Pair]) -> None:
    """Every result of a cell, on either side and at every seed, must have been made like the base's first one."""
    refused = [
        (pair, other, found)
        for pair in pairs
        for other in (*pair.base, *pair.candidate)
        if (found := list_differing(pair.base[0], other, PAIR))
    ]
    if not refused:
        _check_draws(pairs)
        return
    pair, other, (condition, *_) = refused[0]
    where = "two seeds of the base" if other in pair.base else "base and candidate"
    others = len({one.key for one, *_ in refused}) - 1
    more = f"; {others} more cells differ too" if others else ""
    here, there = (value_of(result, condition) for result in (pair.base[0], other))
    values = f"{_short(here)} against {_short(there)}"
    if condition == "test records" and isinstance(here, tuple) and isinstance(there, tuple):
        values = f"{len(here)} against {count(len(there), 'document')}, {len({*here} & {*there})} shared"
    raise UsageError(
        f"{_short(pair.key)}: {where} differ in the {condition} ({values}){more}, so a difference of scores would"
        f" say nothing about the models; {PAIR[condition]}, or leave it out with --task, --mechanism or --epsilon."
    )


def _check_draws(pairs: Sequence[Pair]) -> None:
    """Both sides of a seed must have the same test records, where each seed draws its own. Raises UsageError."""
    for pair in pairs:
        for base, candidate in zip(pair.base, pair.candidate, strict=True):
            if outcomes_of(base)[0] != outcomes_of(candidate)[0]:
                raise UsageError(
                    f"{_short(pair.key)}: base and candidate have other test records at seed {base.cell.seed};"
                    f" {PAIR['test records']}, or leave it out with --task, --mechanism or --epsilon."
                )


def _first_rows(side: Side) -> str:
    cells = (result.cell for result in side.results)
    rows = {f"{make_visible(one.label, 60)} on {make_visible(one.task, 60)} at ε = {one.epsilon:g}" for one in cells}
    return join_names(sorted(rows), 2)


def _short(value: object) -> str:
    """A value in words, cut."""
    text = " / ".join(dict.fromkeys(map(str, value))) if isinstance(value, tuple) else str(value)
    return text if len(text) <= 200 else text[:200] + "…"
