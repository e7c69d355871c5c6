"""Kills at every write, broken disks, power cuts: nothing is lost, done twice or left behind, and no private release is
missing on its ledger.
"""

import random
import re
import shutil
import signal
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dpicl.own import budget
from dpicl.own.budget import ChargeTo
from dpicl.own.private_ledger import read_all
from dpicl.results.store import Store
from tests.faults.harness import Watch, cuts, put, run_child
from tests.harness.helpers import children, write
from tests.harness.local_suite import private_release, rows_of
from tests.harness.mortal import Lab
from tests.harness.own.test_budget import ONE, records
from tests.leaderboards.factory import make_result

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
long = (pytest.mark.slow, pytest.mark.timeout(3600))


@dataclass
class Place(Lab):
    """One run's folder: ``files`` holds results and cache."""

    patch: pytest.MonkeyPatch

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        super().__post_init__()
        with self.suite.open("a") as file:
            file.write(
                "  - {name: voting, options: {slots: 3, examples_per_slot: 1, sampling_seed: 0}}\n"
            )
        self.files = self.folder / "files"
        self.results, self.cache = self.files / "results", self.files / "cache"
        self.patch.setenv("DPICL_CACHE", str(self.cache))
        self.patch.setenv("DPICL_TEST_LOG", str(self.log))
        self.command: list[object] = [
            "run",
            self.suite,
            "--plugin",
            self.plugin,
            "--results",
            self.results,
        ]

    def run(self, watch: Watch | None = None) -> tuple[int, Any]:
        return run_child(self.command, self.folder, watch)

    @property
    def said(self) -> str:
        return (self.folder / "said").read_text()

    def count_releases(self) -> Counter[str]:
        """Label -> how often it released."""
        return Counter(f"mortal{tag}" for tag, _ in self.releases())

    def check_resumed(self, expected: dict[str, Any]) -> None:
        """Runs to the end what something happened to, and compares with a run that nothing happened to."""
        done, released = self.outcomes("files/results"), self.count_releases()
        finished = {
            path: (path.stat().st_mtime_ns, path.read_bytes())
            for path in self.results.rglob("*.json")
        }
        code, _ = self.run()
        assert code == 0, (code, self.said)
        assert all(
            (
                path.stat().st_mtime_ns,
                path.read_bytes(),
            )
            == was
            for path, was in finished.items()
        )
        assert self.outcomes("files/results") == expected
        assert (
            not done.keys() & (self.count_releases() - released).keys()
        )  # nothing that is finished is released again
        assert max(self.count_releases().values(), default=0) <= 2
        assert not [
            path for each in ("*.tmp", "*.lock", ".probe*") for path in self.results.rglob(each)
        ]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    return lambda name: Place(
        tmp_path / str(name),
        {0: 0, 1: 0},
        monkeypatch,
    )


@pytest.fixture(scope="session")
def calm(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], int, int]:
    """What a run gives that nothing happens to; how many steps it makes, and steps that need room under its results."""
    with pytest.MonkeyPatch.context() as patch:
        here = Place(
            tmp_path_factory.mktemp("calm") / "calm",
            {0: 0, 1: 0},
            patch,
        )
        code, watch = here.run(Watch(here.files))
        assert code == 0 and watch.steps > 100, here.said
        assert here.count_releases() == {"mortal0": 1, "mortal1": 1}
        outcomes = here.outcomes("files/results")
        shutil.rmtree(here.files)
        _, results = here.run(Watch(here.results))
    return outcomes, watch.steps, results.needed


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=long)])
def test_a_run_killed_at_any_point_of_writing_loses_nothing(place, calm, every):
    expected, steps, _ = calm
    for point in range(1, steps + 1) if every else [random.Random(0).randint(1, steps)]:
        here = place(point)
        code, _ = here.run(Watch(here.files, deadly=point))
        assert code == -signal.SIGKILL, (point, here.said)
        here.check_resumed(expected)
        shutil.rmtree(here.folder)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_run_killed_beside_its_workers_leaves_no_worker(dpicl_process, place, calm):
    here = place("parent")
    process = dpicl_process(*here.command, "--engine", "local", "--workers", 2)
    while not (workers := children(process.pid)) and process.poll() is None:
        time.sleep(0.02)
    time.sleep(random.Random(0).uniform(0, 15))
    process.kill()
    process.communicate()
    here.check_resumed(calm[0])
    end = time.monotonic() + 120
    while any(Path(f"/proc/{pid}/exe").exists() for pid in workers):
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=long)])
def test_a_disk_may_fail_at_any_call_that_writes(place, calm, every):
    """Under the results it ends the run with one sentence, under the cache it changes nothing."""
    assert calm[2] > 30
    calls = [("results", each) for each in range(1, calm[2] + 1)] + [
        ("cache", each) for each in range(1, 20, 3)
    ]
    for part, first in calls if every else [("results", 20)]:
        here = place(f"{part} {first}")
        code, _ = here.run(Watch(here.files / part, broken=first))
        assert code == {"results": 2, "cache": 0}[part] and "Traceback" not in here.said, here.said
        assert code == 0 or len(re.findall(r"^dpicl: ", here.said, flags=re.MULTILINE)) == 1, (
            here.said
        )
        here.check_resumed(calm[0])
        shutil.rmtree(here.folder)


def charges_of(cache: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many releases stand on the ledgers of a cache folder; damaged ones raise."""
    monkeypatch.setenv("DPICL_CACHE", str(cache))
    return sum(len(ledger.charges) for ledger in read_all())


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_release_is_made_that_is_not_on_the_ledger(tmp_path, monkeypatch):
    """Whatever fails under the ledger, and whenever the power is cut; the same command then releases once more."""
    records = write(tmp_path, "own", "train", rows_of("train", 9))

    def run_release(
        folder: Path, watch: Watch | None = None, out: str = "files/out.jsonl"
    ) -> tuple[int, Any]:
        (folder / "files").mkdir(parents=True, exist_ok=True)
        monkeypatch.setenv("DPICL_CACHE", str(folder / "files" / "cache"))
        return run_child(private_release(records, folder / out), folder, watch)

    def check(folder: Path, again: bool) -> None:
        out, cache = folder / "files" / "out.jsonl", folder / "files" / "cache"
        charges = charges_of(cache, monkeypatch)
        there = (
            out.exists() and out.stat().st_size > 0
        )  # an empty file: it was tried whether there is room for it
        assert there <= charges <= 1
        if again:
            assert run_release(folder, out="again.jsonl")[0] == 0, (folder / "said").read_text()
            assert charges_of(cache, monkeypatch) == charges + 1

    calm = tmp_path / "calm"
    code, watch = run_release(calm, Watch(calm / "files"))
    assert code == 0 and watch.needed > 10
    for number, (_, left) in enumerate(cuts(watch.journal, calm / "files")):
        put(left, tmp_path / f"cut{number}" / "files")
        check(tmp_path / f"cut{number}", again=number % 10 == 0)
    for first in range(1, watch.needed, 3):
        here = tmp_path / str(first)
        code, _ = run_release(here, Watch(here / "files" / "cache" / "private", broken=first))
        assert "Traceback" not in (here / "said").read_text()
        assert (code == 0) is (here / "files/out.jsonl").exists()
        check(here, again=code != 0)


def test_what_was_done_is_whole_and_there_after_any_power_cut(tmp_path, monkeypatch):
    files = tmp_path / "files"
    files.mkdir()
    monkeypatch.setenv("DPICL_CACHE", str(files / "cache"))
    watch = Watch(files)

    def work() -> None:
        store = Store(files / "results", "quick")
        store.prepare()
        with store.lock(make_result().cell_id):
            assert store.write(make_result())
            watch.say("written")
        for _ in range(2):
            budget.charge(records(0, 4), ONE, ChargeTo("tickets"))
            watch.say("charged")

    _, watched = run_child(work, tmp_path, watch)
    counts: Counter[tuple[str, int]] = Counter()
    for number, (names, left) in enumerate(cuts(watched.journal, files)):
        put(left, tmp_path / str(number))
        results, damaged = Store(tmp_path / str(number) / "results", "quick").load_all()
        assert damaged == [] and all(result == make_result() for result in results)
        charges = charges_of(tmp_path / str(number) / "cache", monkeypatch)
        for what, there in (("written", len(results)), ("charged", charges)):
            assert names.count(what) <= there <= names.count(what) + 1
            counts[what, there] += 1
    assert (
        min(
            counts[key]
            for key in (
                ("written", 0),
                ("written", 1),
                *(("charged", n) for n in range(3)),
            )
        )
        > 2
    )
