"""Results under a path, one side of a comparison; and which results of two sides are partners.

Files of attacks are left out; a file that cannot be read stops the comparison, since a missing cell may be the one that
got worse.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from dpicl.core import json_text
from dpicl.core.errors import ResultError, UsageError, require_known
from dpicl.core.messages import count, epsilon_text, named
from dpicl.core.printable import visible
from dpicl.leaderboards.model.comparability import PAIR, differing, value_of, weights
from dpicl.leaderboards.model.rows import outcomes_of
from dpicl.results.schema import Result, from_text
from dpicl.results.store import QUARANTINE, read_file

_AGAIN = "move it away or make it again with `dpicl run`"
#: A key that only files of attacks and of external evaluations have, which may lie in the same folder.
_EVIDENCE = "attack"

#: What the results of a side were made with; a model of a side has one name, one set of weights and one dtype.
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


@dataclass(frozen=True)
class Side:
    """Results of one release. name: 'base' or 'candidate'. foreign: JSON files that are no results, left out."""

    name: str
    path: str
    results: tuple[Result, ...]
    foreign: tuple[Path, ...] = ()

    def newest(self) -> Side:
        """The results of the newest version of every task of a suite."""

        def task(result: Result) -> tuple[str, str]:
            return result.suite.name, result.cell.task

        versions = {task(one): one.cell.task_version for one in sorted(self.results, key=lambda one: one.created)}
        return replace(self, results=tuple(one for one in self.results if one.cell.task_version == versions[task(one)]))


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
        ("model", models, lambda cell: {cell.model}),
        ("epsilon", [f"{one:g}" for one in epsilons], lambda cell: {f"{cell.epsilon:g}"}),
    ):
        require_known(f"{kind} of {place}:", names, set().union(*(names_of(one.cell) for one in results)))
        chosen = tuple(one for one in chosen if not names or names_of(one.cell) & {*names})
    if not chosen:
        raise UsageError(f"No result of {place} has all that is chosen together; take a flag away.")
    return chosen


def read_side(name: str, path: Path) -> Side:
    """The results of a file, or of a folder at any depth. Changes nothing on disk.

    Folders `quarantine` and names with a leading dot are not looked into, as the store does. Raises ResultError for a
    path that is not there or has no result, and for a result file that is damaged or holds numbers that make no sense.
    """
    if not path.exists():
        raise ResultError(f"There is no file or folder {path}; give result files, or a folder that `dpicl run` wrote.")
    results, foreign = [], []
    for file in sorted(path.rglob("*.json")) if path.is_dir() else [path]:
        parts = file.relative_to(path).parts
        if any(part in QUARANTINE or part.startswith(".") for part in parts) or not file.is_file():
            continue
        found = read_file(file, from_text)
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
    return Side(name, str(path), tuple(results), tuple(foreign))


def _evidence(text: str) -> dict[str, Any] | None:
    """What a file of an attack or of an external evaluation holds; None for any other."""
    data = json_text.loads(text)
    return data if isinstance(data, dict) and _EVIDENCE in data and "cell" not in data else None


@dataclass(frozen=True, order=True)
class Key:
    """A cell of the comparison. suite, model: '' where each side holds one, whatever its name. mode: of accounting.
    development: whether it is of the seeds that headroom is measured on."""

    task: str
    label: str
    epsilon: float
    mode: str
    suite: str = ""
    model: str = ""
    development: bool = False

    @property
    def row(self) -> str:
        """The label, and what else tells it from other rows of a side: 'zero_shot (development)'."""
        more = [*filter(None, (self.suite, self.model)), *(["development"] if self.development else [])]
        return self.label + (f" ({', '.join(more)})" if more else "")

    def to_json(self) -> dict[str, Any]:
        return {"mechanism" if name == "label" else name: value for name, value in vars(self).items()}

    def __str__(self) -> str:
        mode = "" if self.mode == "proved" else f", {self.mode} accounting"
        return f"{self.row} on {self.task} at ε = {epsilon_text(self.epsilon)}{mode}"


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
    """A cell on both sides: results of the seeds that both have, in the same order. gains: float64[S, D] of the metric,
    or why it cannot be tested."""

    key: Key
    metric: str
    base: tuple[Result, ...]
    candidate: tuple[Result, ...]

    @property
    def means(self) -> tuple[float | None, float | None]:
        """Of a score or an aggregate over the seeds; None where a seed does not have it."""
        return _mean(self.base, self.metric), _mean(self.candidate, self.metric)

    @property
    def gains(self) -> np.ndarray | str:
        lacking = [name for name, mean in zip(("base", "candidate"), self.means, strict=True) if mean is None]
        if lacking:
            return f"{self.metric} is missing on {' and '.join(lacking)}"
        if any(self.metric not in result.documents for result in (*self.base, *self.candidate)):
            return "no mean over documents, so there is nothing to pair"
        before, after = (
            np.array([outcomes_of(one, self.metric)[1] for one in side]) for side in (self.base, self.candidate)
        )
        if before.shape[1] < 2:
            return "one document is too few"
        return before - after if self.base[0].lower_is_better(self.metric) else after - before


def paired(base: Side, candidate: Side, metric: str | None) -> tuple[list[Pair], list[Unmatched]]:
    """(cells to compare, results without a partner)."""
    sides = (base, candidate)
    suites = any(len({one.suite.name for one in side.results}) > 1 for side in sides)
    models = any(len({one.cell.model for one in side.results}) > 1 for side in sides)
    ours, theirs = (_by_seed(side, suites, models) for side in sides)
    pairs, unmatched = [], []
    for key in sorted({*ours, *theirs}):
        here, there = ours.get(key, {}), theirs.get(key, {})
        for name, own, other in (("base", here, there), ("candidate", there, here)):
            if lone := sorted(own.keys() - other.keys()):
                unmatched.append(Unmatched(name, key, tuple(lone), not other))
        if common := sorted(here.keys() & there.keys()):
            before, after = (tuple(side[seed] for seed in common) for side in (here, there))
            pairs.append(Pair(key, metric or before[0].main_metric, before, after))
    if not pairs:
        raise UsageError(
            f"{base.path} and {candidate.path} have no task, mechanism row, epsilon and seed in common (base:"
            f" {_first_rows(base)}; candidate: {_first_rows(candidate)}); run the same suite on both sides."
        )
    _check_conditions(pairs, metric)
    return pairs, unmatched


def _by_seed(side: Side, suites: bool, models: bool) -> dict[Key, dict[int, Result]]:
    """Key -> seed -> result. suites, models: whether a side has several. Raises UsageError where a side has a model
    with several names, weights or dtypes, or a seed twice."""
    for model in sorted({result.cell.model for result in side.results}):
        own = [result for result in side.results if result.cell.model == model]
        for name, kinds in (("model name", "models"), ("weights", "weights"), ("dtype", "dtypes")):
            values = sorted({MADE_WITH[name](result) for result in own})
            if len(values) > 1:
                raise UsageError(
                    f"{side.path} holds results of {len(values)} {kinds} ({named(visible(one, 60) for one in values)})"
                    " under one name, and a side of a comparison is one release; give the folder of one of them as"
                    f" {side.name.upper()}."
                )
    found: dict[Key, dict[int, Result]] = defaultdict(dict)
    for result in side.results:
        cell, suite = result.cell, result.suite.name if suites else ""
        model = cell.model if models else ""
        seeds = found[Key(cell.task, cell.label, cell.epsilon, cell.mode, suite, model, cell.development)]
        if first := seeds.get(cell.seed):
            raise UsageError(
                f"{side.path} holds {cell} twice (of {first.created} and {result.created}); give a folder that"
                f" has it once as {side.name.upper()}."
            )
        seeds[cell.seed] = result
    return found


def _check_conditions(pairs: Sequence[Pair], metric: str | None) -> None:
    """Every result of a cell, on either side and at every seed, must have been made like the base's first one."""
    refused = [
        (pair, other, found)
        for pair in pairs
        for other in (*pair.base, *pair.candidate)
        if (found := differing(pair.base[0], other, PAIR, metric))
    ]
    if not refused:
        return
    pair, other, (condition, *_) = refused[0]
    where = "two seeds of the base" if other in pair.base else "base and candidate"
    others = len({one.key for one, *_ in refused}) - 1
    more = f"; {others} more cells differ too" if others else ""
    here, there = (value_of(result, condition, metric) for result in (pair.base[0], other))
    values = f"{_short(here)} against {_short(there)}"
    if condition == "test records" and isinstance(here, tuple) and isinstance(there, tuple):
        values = f"{len(here)} against {count(len(there), 'document')}, {len({*here} & {*there})} shared"
    raise UsageError(
        f"{_short(pair.key)}: {where} differ in the {condition} ({values}){more}, so a difference of scores would"
        f" say nothing about the models; {PAIR[condition]}, or leave it out with --task, --mechanism or --epsilon."
    )


def _first_rows(side: Side) -> str:
    cells = (result.cell for result in side.results)
    rows = {f"{visible(one.label, 60)} on {visible(one.task, 60)} at ε = {one.epsilon:g}" for one in cells}
    return named(sorted(rows), 2)


def _mean(results: Sequence[Result], metric: str) -> float | None:
    values = [one.scores[metric].value if metric in one.scores else one.aggregates.get(metric) for one in results]
    return None if None in values else fmean(value for value in values if value is not None)


def _short(value: object) -> str:
    """A value in words, cut."""
    text = " / ".join(dict.fromkeys(map(str, value))) if isinstance(value, tuple) else str(value)
    return text if len(text) <= 200 else text[:200] + "…"
