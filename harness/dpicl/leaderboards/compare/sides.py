"""One side of a comparison: the results under a path, checked, and what they were made with.

A side is one release of one model: the result files under a folder, or one file. Files of attacks are left out; a file
that cannot be read stops the comparison, since a missing cell may be the one that got worse.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from dpicl.core import json_text
from dpicl.core.errors import ResultError, UsageError
from dpicl.core.printable import visible
from dpicl.leaderboards.model.comparability import weights
from dpicl.leaderboards.model.notes import named
from dpicl.results.schema import Result, from_text
from dpicl.results.store import QUARANTINE

#: A key that only files of attacks and of external evaluations have, which may lie in the same folder.
_EVIDENCE = "attack"
K = TypeVar("K")


@dataclass(frozen=True)
class Side:
    """Results of one model. name: 'base' or 'candidate'. foreign: JSON files that are no results and were left out."""

    name: str
    path: str
    results: tuple[Result, ...]
    foreign: tuple[Path, ...] = ()


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
            raise ResultError(
                f"Cannot read {file}: {reason}; move it away or make it again with `dpicl run`."
            ) from error
        try:
            results.append(from_text(text))
        except ValueError as error:
            is_evidence = _is_evidence(text)
            if not is_evidence and not str(error).startswith("foreign"):
                raise ResultError(
                    f"{file} cannot be compared: {error}; move it away or make it again with `dpicl run`."
                ) from None
            if not is_evidence:
                foreign.append(file)
    return results, foreign


def check_one_model(side: Side) -> None:
    """Raises UsageError when a side mixes models, weights or dtypes."""
    for name, kinds in (("model", "models"), ("model name", "models"), ("weights", "weights"), ("dtype", "dtypes")):
        found = sorted({_MADE_WITH[name](result) for result in side.results})
        if len(found) > 1:
            values = named(visible(one, 60) for one in found)
            raise UsageError(
                f"{side.path} holds results of {len(found)} {kinds} ({values}), and a side of a comparison is one"
                f" release; give the folder of one of them as {side.name.upper()}."
            )


def by_seed(side: Side, key: Callable[[Result], K]) -> dict[K, dict[int, Result]]:
    """Key -> seed -> result. Raises UsageError when two results of a side stand for the same key and seed."""
    found: dict[K, dict[int, Result]] = defaultdict(dict)
    for result in side.results:
        seeds = found[key(result)]
        if first := seeds.get(result.cell.seed):
            raise UsageError(
                f"{side.path} holds {result.cell} twice (of {first.created} and {result.created}); give a folder that"
                f" has it once as {side.name.upper()}."
            )
        seeds[result.cell.seed] = result
    return found


#: What the results of a side were made with; one side has one model, with one set of weights and one dtype.
_MADE_WITH: Mapping[str, Callable[[Result], str]] = {
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
class Change:
    """Something that may differ: its values on either side, sorted; equal where nothing changed."""

    name: str
    base: tuple[str, ...]
    candidate: tuple[str, ...]

    @property
    def changed(self) -> bool:
        return self.base != self.candidate


def changes(base: Sequence[Result], candidate: Sequence[Result]) -> tuple[Change, ...]:
    """What the two sides were made with: model, weights, dtype, device, commit, packages, plug-ins, noise."""
    packages = sorted({name for result in (*base, *candidate) for name in result.manifest.packages})
    versions = [(name, lambda r, name=name: r.manifest.packages.get(name, "")) for name in packages]
    return tuple(
        Change(name, _values(base, of), _values(candidate, of)) for name, of in (*_MADE_WITH.items(), *versions)
    )


def _values(results: Sequence[Result], of: Callable[[Result], str]) -> tuple[str, ...]:
    return tuple(sorted({of(result) for result in results} - {""}))


def _is_evidence(text: str) -> bool:
    try:
        data = json_text.loads(text)
    except ValueError:
        return False
    return isinstance(data, dict) and _EVIDENCE in data and "cell" not in data
