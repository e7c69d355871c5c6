"""Kills at every write, broken disks, power cuts: nothing is lost, done twice or left behind, and no private release is
missing on its ledger.
"""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shutil
import signal
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dpicl.core.vocabulary import Record
from dpicl.own import budget
from dpicl.own.budget import ChargeTo
from dpicl.own.private_ledger import read_all
from dpicl.results.store import Store
from tests.faults.harness import MAY_DIFFER, Failing, Journal, Killed, cuts, put, start
from tests.harness.helpers import children
from tests.harness.local_suite import private_release, rows_of
from tests.harness.test_budget import ONE
from tests.leaderboards.factory import make_result

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")

ERRORS = (errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT)
#: Writes down every release, in one call, before it is made.
PLUGIN = """\
import os
from dataclasses import dataclass

from dpicl import Demonstration, DemonstrationMechanism
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
{name: deadly, version: 1, source: synthetic, model: sim, seeds: [0], epsilons: [8], delta: 1e-5, shots: 2,
 tasks: [agnews], test_records: 4, train_records: 60, mechanisms: [
  {name: counted, label: counted0, options: {tag: 0}},
  {name: counted, label: counted1, options: {tag: 1}},
  {name: voting, options: {slots: 3, examples_per_slot: 1, sampling_seed: 0}}]}
"""


@dataclass
class Place:
    """One run's folder: ``files`` holds results and cache, ``releases`` is the plug-in's log."""

    folder: Path
    patch: pytest.MonkeyPatch

    def __post_init__(self) -> None:
        (self.folder / "files").mkdir(parents=True, exist_ok=True)
        (self.folder / "deadly.py").write_text(PLUGIN)
        (self.folder / "deadly.yaml").write_text(SUITE)
        self.patch.setenv("DPICL_CACHE", str(self.folder / "files" / "cache"))
        self.patch.setenv("RELEASES", str(self.folder / "releases"))
        self.results = self.folder / "files" / "results"
        words = ["run", self.folder / "deadly.yaml", "--plugin", self.folder / "deadly.py", "--results", self.results]
        self.words: list[object] = [*words]

    def run(self, watch: Any = None) -> tuple[int, Any]:
        return start(self.words, self.folder, watch).wait()

    @property
    def said(self) -> str:
        return (self.folder / "said").read_text()

    def releases(self) -> Counter[str]:
        path = self.folder / "releases"
        return Counter(path.read_text().split() if path.exists() else ())

    def outcomes(self) -> dict[str, Any]:
        """Label -> the result, but for when it was made, and how fast; fails where a file is not whole."""
        results, damaged = Store(self.results, "deadly").load_all()
        assert damaged == []
        return {result.cell.label: result.model_dump(exclude=MAY_DIFFER) for result in results}

    def check_resumed(self, expected: dict[str, Any], kills: int = 1) -> None:
        """Runs to the end what something happened to, and compares with a run that nothing happened to."""
        done, released = self.outcomes(), self.releases()
        finished = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in self.results.rglob("*.json")}
        code, _ = self.run()
        assert code == 0, (code, self.said)
        assert all((path.stat().st_mtime_ns, path.read_bytes()) == was for path, was in finished.items())
        assert self.outcomes() == expected
        assert not done.keys() & (self.releases() - released).keys()  # nothing that is finished is released again
        assert max(self.releases().values(), default=0) <= 1 + kills
        left = [*self.results.rglob("*.tmp"), *self.results.rglob("*.lock"), *self.results.rglob(".probe*")]
        assert left == list((self.folder / "files" / "cache" / "calibration").glob(".*")) == []


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    return lambda name: Place(tmp_path / str(name), monkeypatch)


@pytest.fixture(scope="session")
def calm(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], int]:
    """What a run gives that nothing happens to, and how many steps it makes."""
    import dpicl.evaluation.lm_eval_bridge
    import dpicl.leaderboards.cli.run  # noqa: F401  before the forks, once for all children

    with pytest.MonkeyPatch.context() as patch:
        here = Place(tmp_path_factory.mktemp("calm") / "calm", patch)
        code, steps = here.run(Killed(here.folder / "files", None, False))
    assert code == 0 and steps > 100, here.said
    assert here.releases() == {"counted0": 1, "counted1": 1}
    return here.outcomes(), steps


# --- kills -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [None, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_a_run_that_is_killed_at_any_point_of_the_writing_loses_nothing(place, calm, every):
    expected, steps = calm
    for point in range(1, steps + 1, every) if every else random.Random(0).sample(range(1, steps + 1), 1):
        here = place(point)
        code, _ = here.run(Killed(here.folder / "files", point, group=point % 3 == 0))
        assert code == -signal.SIGKILL, (point, here.said)
        here.check_resumed(expected)
        shutil.rmtree(here.folder)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("victim", ["worker", "parent", "group"])
@pytest.mark.parametrize("seed", range(2))
def test_a_run_with_workers_that_is_killed_at_random_times_loses_nothing(dpicl_process, place, calm, seed, victim):
    chance, here = random.Random(f"local {seed} {victim}"), place(f"{victim}{seed}")
    process = dpicl_process(*here.words, "--engine", "local", "--workers", 2, process_group=0)
    while not (workers := children(process.pid)) and process.poll() is None:
        time.sleep(0.02)
    time.sleep(chance.uniform(0, 15))
    with suppress(ProcessLookupError):
        match victim:
            case "worker":
                os.kill(chance.choice(sorted(workers)), signal.SIGKILL)
            case "group":
                os.killpg(process.pid, signal.SIGKILL)
            case _:
                process.kill()
    process.communicate()
    if victim == "worker":
        assert process.returncode == 0 and here.outcomes() == calm[0]
    here.check_resumed(calm[0])
    end = time.monotonic() + 120
    while any(_is_alive(pid) for pid in workers):  # workers die with the run that started them
        assert time.monotonic() < end
        time.sleep(0.05)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(6))
def test_four_runs_on_one_folder_do_every_cell_once(place, calm, seed):
    """One of them may be killed."""
    here, chance = place(seed), random.Random(seed)
    folders = [here.folder / f"run{number}" for number in range(4)]
    for folder in folders:
        folder.mkdir()
    running = [start(here.words, folder) for folder in folders]
    victim = chance.randrange(4) if seed % 2 else None
    if victim is not None:
        time.sleep(chance.uniform(0, 3))
        os.kill(running[victim].pid, signal.SIGKILL)
    codes = [child.wait()[0] for child in running]
    said = [(folder / "said").read_text() for folder in folders]
    assert {code for number, code in enumerate(codes) if number != victim} == {0}, said
    done = [line for text in said for line in text.splitlines() if " in " in line and line.startswith("[")]
    assert victim is not None or len(done) == 3, said
    here.check_resumed(calm[0], kills=int(victim is not None))


# --- disks -----------------------------------------------------------------------------------------------------------


def check_disk(here: Place, expected: dict[str, Any], first: int, number: int) -> None:
    code, _ = here.run(Failing(here.results, number, first))
    assert code == 2 and "Traceback" not in here.said, here.said
    assert len(re.findall(r"^dpicl: ", here.said, flags=re.MULTILINE)) == 1, here.said
    here.check_resumed(expected)
    shutil.rmtree(here.folder)


def test_a_full_disk_under_the_results_ends_the_run_with_one_sentence(place, calm):
    check_disk(place("full"), calm[0], 19, errno.ENOSPC)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_disk_may_fail_at_any_call_that_writes_results_or_the_cache(place, calm):
    here = place("counted")
    code, calls = here.run(Failing(here.results, 0, None))
    assert code == 0 and calls > 30, here.said
    for first in range(1, calls + 1):
        check_disk(place(first), calm[0], first, ERRORS[first % len(ERRORS)])
    for first in range(1, 20, 3):
        here = place(f"cache {first}")
        code, _ = here.run(Failing(here.folder / "files" / "cache", ERRORS[first % len(ERRORS)], first))
        assert code == 0 and "Traceback" not in here.said, here.said
        assert here.outcomes() == calm[0]


def written_records(folder: Path) -> Path:
    path = folder / "own.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows_of("train", 9)))
    return path


def charges_of(cache: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many releases stand on the ledgers of a cache folder; damaged ones raise."""
    monkeypatch.setenv("DPICL_CACHE", str(cache))
    return sum(len(ledger.charges) for ledger in read_all())


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_disk_that_fails_under_the_ledger_costs_budget_and_never_hides_a_release(tmp_path, monkeypatch):
    records, calls, first = written_records(tmp_path), 1, 0
    while first < calls:
        here = tmp_path / str(first)
        cache, out = here / "files" / "cache", here / "out.jsonl"
        cache.mkdir(parents=True)
        monkeypatch.setenv("DPICL_CACHE", str(cache))
        failing = Failing(cache / "private", ERRORS[first % len(ERRORS)], first or None)
        code, counted = start(private_release(records, out), here, failing).wait()
        calls = calls if first else counted
        charges = charges_of(cache, monkeypatch)
        assert out.exists() <= charges <= 1 and "Traceback" not in (here / "said").read_text()
        assert (code == 0) is out.exists()
        if not out.exists():
            assert start(private_release(records, out), here).wait()[0] == 0, (here / "said").read_text()
            assert charges_of(cache, monkeypatch) == charges + 1
        first += 3
    assert calls > 10


# --- power cuts ------------------------------------------------------------------------------------------------------


def test_a_result_is_whole_and_there_once_it_is_written(tmp_path):
    result, files = make_result(), tmp_path / "files"
    files.mkdir()
    journal = Journal(files)

    def work() -> None:
        store = Store(files / "results", "quick")
        store.prepare()
        with store.lock(result.cell):
            assert store.write_first(result)
            journal.write("done")

    seen: Counter[int] = Counter()
    for number, (said, left) in enumerate(cuts(start(work, tmp_path, journal).wait()[1], files)):
        put(left, tmp_path / str(number))
        found, damaged = Store(tmp_path / str(number) / "results", "quick").load_all()
        assert damaged == [] and found in ([], [result])
        assert found or "done" not in said, left.keys()
        seen[len(found)] += 1
    assert seen[0] > 5 and seen[1] > 2


def test_what_was_released_stands_on_the_ledger(tmp_path, monkeypatch):
    files = tmp_path / "files"
    files.mkdir()
    monkeypatch.setenv("DPICL_CACHE", str(files / "cache"))
    records = [Record(f"Secret ticket number {number}", "billing") for number in range(4)]
    journal = Journal(files)

    def work() -> None:
        for _ in range(2):
            budget.charge(records, ONE, ChargeTo("tickets"))
            journal.write("charged")

    seen: Counter[int] = Counter()
    for number, (said, left) in enumerate(cuts(start(work, tmp_path, journal).wait()[1], files)):
        put(left, tmp_path / str(number))
        charges = charges_of(tmp_path / str(number) / "cache", monkeypatch)
        assert said.count("charged") <= charges <= said.count("charged") + 1
        seen[charges] += 1
    assert min(seen[0], seen[1], seen[2]) > 2


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_run_goes_on_after_a_power_cut_at_any_step(place, calm):
    """Every disk is looked at; on some of them the same command runs to the end."""
    first, chance, done = place("journal"), random.Random(0), {}
    code, steps = first.run(Journal(first.folder / "files"))
    assert code == 0, first.said
    for number, (said, left) in enumerate(cuts(steps, first.folder / "files")):
        here = place(number)
        (here.folder / "files").rmdir()
        put(left, here.folder / "files")
        done = here.outcomes()
        assert {line.split()[1] for line in said.splitlines() if re.match(r"\[\d/3\]", line)} <= done.keys()
        if chance.random() < 0.1:
            here.check_resumed(calm[0])
    assert done == calm[0]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_release_is_charged_less_than_it_cost(tmp_path, monkeypatch):
    """What is there was charged, whenever the power was cut; the same command then releases once more."""
    records, files = written_records(tmp_path), tmp_path / "calm" / "files"
    files.mkdir(parents=True)
    monkeypatch.setenv("DPICL_CACHE", str(files / "cache"))
    _, steps = start(private_release(records, files / "out.jsonl"), files.parent, Journal(files)).wait()
    chance, ran = random.Random(0), 0
    for number, (_, left) in enumerate(cuts(steps, files)):
        here = tmp_path / str(number)
        put(left, here / "files")
        out, cache = here / "files" / "out.jsonl", here / "files" / "cache"
        charges = charges_of(cache, monkeypatch)
        # an empty file: it was tried whether there is room for it
        assert (out.exists() and out.stat().st_size > 0) <= charges <= 1
        if chance.random() < 0.1:
            assert start(private_release(records, here / "again.jsonl"), here).wait()[0] == 0
            assert charges_of(cache, monkeypatch) == charges + 1
            ran += 1
    assert ran > 2
