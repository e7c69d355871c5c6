"""Runs that are killed before and after everything that they do to a file, and at random times: nothing is lost,
nothing is done twice, nothing stays behind.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dpicl.harness.run.store import Store
from tests.harness.deadly import MAY_DIFFER, run_forked
from tests.harness.helpers import children

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")

#: Writes down every release, in one call, before it is made.
PLUGIN = """\
import os
from dataclasses import dataclass

from dpicl.harness.mechanism.bases import Demonstration, DemonstrationMechanism
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

    def clean(self) -> bool:
        """Whether there is nothing but results, and a cache without temporary files."""
        here = [path.relative_to(self.folder / "files") for path in (self.folder / "files").rglob("*")]
        strange = [
            path
            for path in here
            if path.parts[0] == "results"
            and (path.suffix in (".tmp", ".lock") or path.name.startswith((".probe", ".unf")))
        ]
        strange += [path for path in here if path.parts[:2] == ("cache", "calibration") and path.name.startswith(".")]
        return strange == []


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Place]:
    """place('name') -> a Place that the commands of this process and of its children use from now on."""

    def make(name: str) -> Place:
        made = Place(tmp_path / name)
        monkeypatch.setenv("DPICL_CACHE", str(made.folder / "files" / "cache"))
        monkeypatch.setenv("RELEASES", str(made.folder / "releases"))
        return made

    return make


@dataclass(frozen=True)
class Undisturbed:
    """What a run gives that nobody kills, and how many points it passes."""

    outcomes: dict[str, Any]
    points: int


@pytest.fixture
def undisturbed(place: Callable[..., Place]) -> Undisturbed:
    calm = place("calm")
    import dpicl.harness.evaluation.lm_eval_bridge  # noqa: F401  loaded before the fork, once for all children

    code, points = run_forked(calm.words(), calm.folder)
    assert code == 0, (calm.folder / "said").read_text()
    assert calm.releases() == {"counted0": 1, "counted1": 1} and calm.clean()
    return Undisturbed(calm.outcomes(), points)


def check_resumed(here: Place, undisturbed: Undisturbed, known: set[str], kills: int = 1) -> None:
    """Runs to the end what was killed, and compares."""
    finished, released = here.finished(), here.releases()
    done = here.labels()
    assert known <= done  # nothing is lost
    code, _ = run_forked(here.words(), here.folder)
    assert code == 0, (here.folder / "said").read_text()
    after = here.finished()
    assert {path: after.get(path) for path in finished} == finished  # nothing is written again
    assert here.outcomes() == undisturbed.outcomes
    again = here.releases() - released
    assert not done & set(again)  # nothing that is finished is released again
    assert max(here.releases().values()) <= 1 + kills
    assert here.clean(), list(here.folder.rglob("*"))


def check_point(place: Callable[..., Place], undisturbed: Undisturbed, point: int, group: bool) -> None:
    here = place(f"{point}{group}")
    code, _ = run_forked(here.words(), here.folder, point, group)
    assert code == -signal.SIGKILL, (point, (here.folder / "said").read_text())
    check_resumed(here, undisturbed, set())
    shutil.rmtree(here.folder)


def test_a_run_that_is_killed_at_a_few_points_loses_nothing(place, undisturbed):
    assert undisturbed.points > 100
    for point in random.Random(0).sample(range(1, undisturbed.points), 1):
        check_point(place, undisturbed, point, group=False)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_run_that_is_killed_at_every_point_of_the_writing_loses_nothing(place, undisturbed):
    for point in range(1, undisturbed.points):
        check_point(place, undisturbed, point, group=point % 3 == 0)


def killed_at_random(process: subprocess.Popen[str], seconds: float, victim: str, chance: random.Random) -> None:
    """Kills a run, its process group or one of its workers after a while, unless it has ended; returns when it has."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        workers = sorted(children(process.pid))
        if victim == "worker" and workers:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(workers), signal.SIGKILL)
        elif victim == "group":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.communicate()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("victim", ["runner", "group"])
@pytest.mark.parametrize("seed", range(10))
def test_a_run_that_is_killed_at_random_times_loses_nothing(dpicl_process, place, undisturbed, seed, victim):
    chance = random.Random(f"{seed} {victim}")
    here = place(f"{victim}{seed}")
    known: set[str] = set()
    for _ in range(2):
        process = dpicl_process(*here.words(), process_group=0)
        killed_at_random(process, chance.uniform(1, 12), victim, chance)
        assert known <= here.labels()
        known = here.labels()
    check_resumed(here, undisturbed, known, kills=2)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("victim", ["worker", "parent", "group"])
@pytest.mark.parametrize("seed", range(4))
def test_a_run_with_workers_that_is_killed_at_random_times_loses_nothing(
    dpicl_process, place, undisturbed, seed, victim
):
    chance = random.Random(f"local {seed} {victim}")
    here = place(f"{victim}{seed}")
    process = dpicl_process(*here.words(), "--engine", "local", "--workers", 2, process_group=0)
    workers: set[int] = set()
    while not workers and process.poll() is None:
        workers = children(process.pid)
        time.sleep(0.02)
    killed_at_random(process, chance.uniform(0, 15), victim, chance)
    if victim == "worker":
        assert process.returncode == 0
        assert here.outcomes() == undisturbed.outcomes
        assert max(here.releases().values()) <= 2
    check_resumed(here, undisturbed, here.labels() if victim == "worker" else set())


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(3))
def test_a_run_of_the_embedded_model_that_is_killed_loses_nothing(dpicl_process, place, tmp_path, seed, weights):
    chance = random.Random(f"embedded {seed}")
    outcomes = []
    for name, kills in (("calm", 0), ("killed", 2)):
        here = place(f"{name}{seed}")
        (here.folder / "files" / "cache").mkdir()
        (here.folder / "files" / "cache" / "models").symlink_to(weights)
        known: set[str] = set()
        for _ in range(kills):
            process = dpicl_process(*here.words("embedded"), process_group=0)
            killed_at_random(process, chance.uniform(5, 40), "runner", chance)
            assert known <= here.labels()
            known = here.labels()
        finished, released = here.finished(), here.releases()
        process = dpicl_process(*here.words("embedded"))
        said = process.communicate()
        assert process.returncode == 0, said
        assert {path: here.finished().get(path) for path in finished} == finished
        assert not known & set(here.releases() - released)
        assert here.clean()
        outcomes.append(here.outcomes())
    assert outcomes[0] == outcomes[1]


@pytest.fixture(scope="session")
def weights(session_cache: Path) -> Path:
    """The folder of converted weights that the session's tests share."""
    from dpicl.harness.models.embedded import cached_model

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPICL_CACHE", str(session_cache))
        return cached_model().parent
