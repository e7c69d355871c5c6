"""The folder of a run that is killed, and what must hold afterwards."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dpicl.run.store import Store
from tests.faults.deadly import MAY_DIFFER, run_forked

#: Writes down every release, in one call, before it is made.
PLUGIN = """\
import os
from dataclasses import dataclass

from dpicl.mechanism.bases import Demonstration, DemonstrationMechanism
from dp_accounting import dp_event as dp


@dataclass(frozen=True)
class Counted(DemonstrationMechanism):
    name = "counted"
    knob = None
    tag: int = 0

    def events(self, knob, sizes):
        return dp.NoOpDpEvent()

    def release(self, private, context):
        log = os.open(os.environ["RELEASES"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(log, f"counted{self.tag}\\n".encode())
        os.close(log)
        return [Demonstration(f"text {self.tag}", label, 2) for label in context.shots]
"""
SUITE = """\
name: deadly
version: 1
source: synthetic
model: {model}
seeds: [0]
epsilons: [8]
delta: 1e-5
shots: 2
tasks: [agnews]
test_records: 4
train_records: 60
mechanisms:
  - {{name: counted, label: counted0, options: {{tag: 0}}}}
  - {{name: counted, label: counted1, options: {{tag: 1}}}}
  - {{name: voting, options: {{slots: 3, examples_per_slot: 1, sampling_seed: 0}}}}
"""


@dataclass
class Place:
    """One run's folder: ``files`` holds results and cache, ``releases`` is the plug-in's log."""

    folder: Path

    def __post_init__(self) -> None:
        (self.folder / "files").mkdir(parents=True)
        (self.folder / "deadly.py").write_text(PLUGIN)

    def use(self, patch: pytest.MonkeyPatch) -> None:
        """Commands of this process and of its children use it from now on."""
        patch.setenv("DPICL_CACHE", str(self.folder / "files" / "cache"))
        patch.setenv("RELEASES", str(self.folder / "releases"))

    @property
    def results(self) -> Path:
        return self.folder / "files" / "results"

    def words(self, model: str = "sim") -> list[object]:
        suite = self.folder / "deadly.yaml"
        suite.write_text(SUITE.format(model=model))
        return ["run", suite, "--plugin", self.folder / "deadly.py", "--results", self.results]

    def releases(self) -> Counter[str]:
        path = self.folder / "releases"
        return Counter(path.read_text().split() if path.exists() else ())

    def finished(self) -> dict[Path, tuple[int, bytes]]:
        """Every result with its time and content; fails where one is not whole."""
        assert Store(self.results, "deadly").load_all()[1] == []
        files = (path for path in self.results.rglob("*.json"))
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    def outcomes(self) -> dict[str, Any]:
        """Label -> the result, but for when it was made, and how fast."""
        results, damaged = Store(self.results, "deadly").load_all()
        assert damaged == []
        return {result.cell.label: result.model_dump(exclude=MAY_DIFFER) for result in results}

    def labels(self) -> set[str]:
        return set(self.outcomes())

    def left_over(self) -> list[Path]:
        """What is neither a result nor a file that a cache keeps."""
        here = [path.relative_to(self.folder / "files") for path in (self.folder / "files").rglob("*")]
        strange = [
            path
            for path in here
            if path.parts[0] == "results"
            and (path.suffix in (".tmp", ".lock") or path.name.startswith((".probe", ".unf")))
        ]
        strange += [path for path in here if path.parts[:2] == ("cache", "calibration") and path.name.startswith(".")]
        return strange


@dataclass(frozen=True)
class Undisturbed:
    """What a run gives that nobody kills, and how many points it passes."""

    outcomes: dict[str, Any]
    points: int


def check_resumed(here: Place, undisturbed: Undisturbed, known: set[str], kills: int = 1) -> None:
    """Runs to the end what was killed, and compares."""
    finished, released = here.finished(), here.releases()
    done = here.labels()
    assert known <= done  # nothing is lost
    code, _ = run_forked(here.words(), here.folder)
    assert code == 0, (code, (here.folder / "said").read_text())
    after = here.finished()
    assert {path: after.get(path) for path in finished} == finished  # nothing is written again
    assert here.outcomes() == undisturbed.outcomes
    again = here.releases() - released
    assert not done & set(again)  # nothing that is finished is released again
    assert max(here.releases().values()) <= 1 + kills
    assert here.left_over() == []
