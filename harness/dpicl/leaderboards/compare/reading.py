"""Results under a path: one side of a comparison, or what a track joins.

Files of attacks are left out; a file that cannot be read stops the comparison, since a missing cell may be the one that
got worse.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dpicl.core import json_text
from dpicl.core.errors import ResultError, UsageError, require_known
from dpicl.results.schema import Result, from_text
from dpicl.results.store import QUARANTINE

_AGAIN = "move it away or make it again with `dpicl run`"
#: A key that only files of attacks and of external evaluations have, which may lie in the same folder.
_EVIDENCE = "attack"


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
    """The results of a file or folder. Raises ResultError for a path without results, and for a damaged result."""
    results, foreign = read_results(path)
    if not results:
        raise ResultError(
            f"There is no result file under {path}; give a result file, or a folder that `dpicl run` wrote."
        )
    return Side(name, str(path), tuple(results), tuple(foreign))


def read_results(path: Path) -> tuple[list[Result], list[Path]]:
    """(results under a path at any depth, JSON files there that are no results). Changes nothing on disk.

    Folders `quarantine` and names with a leading dot are not looked into, as the store does. Raises ResultError for a
    path that is not there and for a result file that is damaged or holds numbers that make no sense.
    """
    if not path.exists():
        raise ResultError(f"There is no file or folder {path}; give result files, or a folder that `dpicl run` wrote.")
    results, foreign = [], []
    for file in sorted(path.rglob("*.json")) if path.is_dir() else [path]:
        parts = file.relative_to(path).parts
        if any(part in QUARANTINE or part.startswith(".") for part in parts) or not file.is_file():
            continue
        try:
            text = json_text.text_of(file)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ResultError(f"Cannot read {file}: {reason}; {_AGAIN}.") from error
        try:
            results.append(from_text(text))
        except ValueError as error:
            if _is_evidence(text):
                continue
            if not str(error).startswith("foreign"):
                raise ResultError(f"{file} cannot be compared: {error}; {_AGAIN}.") from None
            foreign.append(file)
    return results, foreign


def _is_evidence(text: str) -> bool:
    try:
        data = json_text.loads(text)
    except ValueError:
        return False
    return isinstance(data, dict) and _EVIDENCE in data and "cell" not in data
