"""A small world on the simulated model: a suite, results of record, and a submission that the gate lets in."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dpicl.leaderboards.gate.case import Case, Finding
from dpicl.leaderboards.gate.contents import read_contents
from dpicl.leaderboards.gate.examination import (
    CHECKS,
    Examination,
    examine,
    known_suites,
    run_checks,
)
from dpicl.mechanism.registry import load_mechanisms
from dpicl.plan.expand import expand
from dpicl.plan.suite_files import Changes, apply_changes, load_suite
from dpicl.results import manifest
from dpicl.results.schema import Result, SuiteReference, from_text, to_text
from dpicl.results.store import Store
from dpicl.run.pipeline import run_cell
from dpicl.run.workbench import Workbench

EXAMPLE = (
    Path(__file__).parents[3] / "leaderboards" / "submissions" / "example" / "vote" / "vote.py"
)
SUITE = """\
name: tiny
version: 1
source: synthetic
models: [sim]
seeds: [0, 1, 2, 3, 4]
epsilons: [2]
shots: 2
test_records: 12
train_records: 60
tasks: [agnews]
mechanisms:
  - name: zero_shot
  - name: real_demonstrations
"""
CARD = """\
schema_version: 1
version: 1
team: team_a
method: vote
suite: tiny
suite_version: 1
authors: [A. Author]
licence: Apache-2.0
paper: none
mechanism: vote.py
public_data: none
tuning: none
"""


shipped = cache(known_suites)


@dataclass(frozen=True)
class World:
    """suite: file. results: of record. root: of the submissions. folder: the submission."""

    suite: Path
    results: Path
    root: Path

    @property
    def folder(self) -> Path:
        return self.root / "team_a" / "vote"

    @property
    def files(self) -> list[Path]:
        """The submission's result files."""
        return sorted(self.folder.glob("results/*/*/*/*/*.json"))

    def case(self, **more: Any) -> Case:
        suite = load_suite(self.suite)
        return Case(
            read_contents(self.folder), {**shipped(), suite.name: suite}, self.results, **more
        )

    def examine(self, **more: Any) -> Examination:
        return examine(self.case(**more))

    def make_finding(self, check: str, **more: Any) -> Finding:
        """What one check finds, made alone."""
        (finding,) = run_checks(self.case(**more), [one for one in CHECKS if one.name == check])
        return finding

    def status(self, check: str, **more: Any) -> tuple[str, str]:
        """(status, sentence) of one check."""
        finding = self.make_finding(check, **more)
        return finding.status, finding.why

    def edit(
        self, change: Callable[[dict[str, Any]], None], files: list[Path] | None = None
    ) -> None:
        """Changes the JSON of result files in place, as somebody with an editor would."""
        for path in self.files if files is None else files:
            data = json.loads(path.read_text())
            change(data)
            path.write_text(json.dumps(data))

    def card(self, old: str, new: str) -> None:
        path = self.folder / "submission.yaml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))


def run_into(
    folder: Path, suite_file: Path, mechanisms: tuple[str, ...], plugins: list[Path]
) -> None:
    """`dpicl run`, from a commit."""
    registry = load_mechanisms(plugins)
    suite = apply_changes(load_suite(suite_file), Changes(mechanisms=mechanisms), registry)
    store, bench = Store(folder, suite.name), Workbench(registry)
    store.prepare()
    reference = SuiteReference(name=suite.name, version=suite.version, hash=suite.hash)
    for cell in expand(suite, registry):
        store.write(run_cell(cell, reference, bench))


@pytest.fixture(scope="session")
def first_world(tmp_path_factory: pytest.TempPathFactory, session_cache: Path) -> World:
    root = tmp_path_factory.mktemp("gate")
    world = World(root / "tiny.yaml", root / "results", root / "submissions")
    world.suite.write_text(SUITE)
    world.folder.mkdir(parents=True)
    shutil.copyfile(EXAMPLE, world.folder / "vote.py")
    (world.folder / "submission.yaml").write_text(CARD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPICL_CACHE", str(session_cache))
        patch.delenv("DPICL_DATA", raising=False)
        patch.setattr(manifest, "commit", lambda: ("0123456789" * 4, False))
        run_into(world.results, world.suite, ("zero_shot", "real_demonstrations"), [])
        run_into(world.folder / "results", world.suite, ("vote",), [world.folder / "vote.py"])
    return world


@pytest.fixture
def world(
    first_world: World, tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> World:
    """A copy that a test may break."""
    monkeypatch.delenv("DPICL_DATA", raising=False)
    shutil.copytree(first_world.root.parent, tmp_path / "w")
    return World(
        tmp_path / "w" / "tiny.yaml", tmp_path / "w" / "results", tmp_path / "w" / "submissions"
    )


def move_cell(path: Path, **change: Any) -> Path:
    """Rewrites a result as that of another cell, consistently; returns its new file."""
    result: Result = from_text(path.read_text())
    cell = result.cell.model_copy(update=change)
    privacy = result.privacy.model_copy(
        update={"epsilon_target": cell.epsilon, "delta": cell.delta}
    )
    suite = result.suite.model_copy(update={"name": cell.suite, "version": cell.suite_version})
    new = result.model_copy(
        update={"cell": cell, "cell_id": cell.id, "privacy": privacy, "suite": suite}
    )
    path.unlink()
    folder = path.parents[4]
    target = Store(folder, cell.suite).path(cell)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(to_text(new))
    return target


def edit_part(
    part: str | None = None, first: bool = False, **values: Any
) -> Callable[[World], None]:
    """Sets keys of a part of every result, or of the first one."""
    files = slice(0, 1 if first else None)
    return lambda world: world.edit(
        lambda data: (data[part] if part else data).update(values), world.files[files]
    )


def move_results(first: bool = False, **change: Any) -> Callable[[World], None]:
    """Moves every result, or the first one, to another cell; a value may be a function of the old cell."""

    def move(world: World) -> None:
        for path in world.files[:1] if first else world.files:
            cell = from_text(path.read_text()).cell
            move_cell(
                path,
                **{key: value(cell) if callable(value) else value for key, value in change.items()},
            )

    return move


def short_ledger(world: World) -> None:
    """Half of the charges go: from the rows and from the event alike."""

    def halve(event: dict[str, Any]) -> None:
        if event["event"] == "repeat":
            event["count"] //= 2
        for part in event["of"].values() if event["event"] == "parallel" else ():
            halve(part)

    def cut(data: dict[str, Any]) -> None:
        for row in data["privacy"]["ledger"]:
            row["count"] //= 2
        halve(data["privacy"]["event"])

    world.edit(cut)


STARTS = (
    "subprocess.Popen",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "os.fork",
    "socket.connect",
)
_started: list[tuple[str, str]] | None = None


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if _started is not None and event in STARTS:
        _started.append((event, str(arguments[:2])))


sys.addaudithook(_hook)  # it cannot be taken away again, only be idle


@pytest.fixture
def started() -> Iterator[list[tuple[str, str]]]:
    """Every program that this process starts, and every address that it connects to, during a test."""
    global _started
    _started = []
    yield _started
    _started = None
