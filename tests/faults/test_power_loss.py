"""The power is cut after any step of a run: no result is half there, none is lost that was said to be done, and nothing
was released from private records that is not on their ledger.
"""

from __future__ import annotations

import os
import pickle
import random
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpicl.core.vocabulary import Record
from dpicl.run import budget
from dpicl.run.budget import ChargeTo
from dpicl.run.private_ledger import read_all
from dpicl.run.store import Store
from tests.faults.deadly import MAY_DIFFER, in_child
from tests.faults.places import Place
from tests.faults.power import Journal, Step, cuts, put
from tests.harness.secure_suite import rows_of, suite, write_records
from tests.harness.test_budget import ONE
from tests.leaderboards.factory import make_result

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")


class _Said:
    """A stream whose lines stand in a journal."""

    def __init__(self, stream: Any, journal: Journal) -> None:
        self._stream, self._journal = stream, journal

    def write(self, text: str) -> int:
        for line in text.splitlines():
            self._journal.said(line)
        return int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def journal_of(words: list[object], folder: Path) -> list[Step]:
    """What a command does to the files under ``folder/files``, and says."""
    journal = Journal(folder / "files", folder / "files" / "cache" / "calibration")
    there = [path for path in (folder / "files").iterdir() if path.is_dir()]
    before: list[Step] = [step for path in there for step in (("mkdir", str(path)), ("sync", str(path.parent), None))]

    def begin() -> None:
        sys.stderr = _Said(sys.stderr, journal)
        journal.install()

    code, steps = in_child(words, folder, begin, lambda: pickle.dumps(journal.steps))
    assert code == 0, (folder / "said").read_text()
    return [*before, *pickle.loads(steps)]


def in_process(folder: Path, work: Callable[[Journal], None]) -> list[Step]:
    """What some work in a child of this process does to the files under a folder."""
    journal = Journal(folder)
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            journal.install()
            work(journal)
            with os.fdopen(there, "wb") as answer:
                answer.write(pickle.dumps(journal.steps))
        finally:
            os._exit(0)
    os.close(there)
    with os.fdopen(here, "rb") as file:
        steps: list[Step] = pickle.loads(file.read())
    os.waitpid(child, 0)
    return steps


def said(steps: list[Step]) -> str:
    return "\n".join(words[0] for name, *words in steps if name == "said")


def test_a_result_is_whole_and_there_once_it_is_written(tmp_path: Path) -> None:
    result, results = make_result(), tmp_path / "files" / "results"
    results.parent.mkdir()

    def work(journal: Journal) -> None:
        store = Store(results, "quick")
        store.prepare()
        with store.lock(result.cell):
            assert store.write_first(result)
            journal.said("done")

    seen = Counter()
    for number, (steps, left) in enumerate(cuts(in_process(results.parent, work), results.parent)):
        put(left, tmp_path / str(number))
        found, damaged = Store(tmp_path / str(number) / "results", "quick").load_all()
        assert damaged == []
        assert found in ([], [result])
        assert found or "done" not in said(steps), left.keys()
        seen[len(found)] += 1
    assert seen[0] > 5 and seen[1] > 3


def test_what_was_released_stands_on_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = tmp_path / "files"
    files.mkdir()
    monkeypatch.setenv("DPICL_CACHE", str(files / "cache"))
    records = [Record(f"Secret ticket number {number}", "billing") for number in range(4)]

    def work(journal: Journal) -> None:
        for _ in range(2):
            budget.charge(records, ONE, ChargeTo("tickets"))
            journal.said("charged")

    seen = Counter()
    for number, (steps, left) in enumerate(cuts(in_process(files, work), files)):
        put(left, tmp_path / str(number))
        monkeypatch.setenv("DPICL_CACHE", str(tmp_path / str(number) / "cache"))
        charges = sum(len(ledger.charges) for ledger in read_all())  # damaged ones raise
        assert said(steps).count("charged") <= charges <= said(steps).count("charged") + 1
        seen[charges] += 1
    assert min(seen[0], seen[1], seen[2]) > 3


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_run_goes_on_after_a_power_cut_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache
) -> None:
    """Every disk is looked at; on some of them the same command runs to the end."""
    calm = Place(tmp_path / "calm")
    calm.use(monkeypatch)
    steps = journal_of(calm.words(), calm.folder)
    chance, expected = random.Random(0), calm.outcomes()
    done = {}
    for number, (before, left) in enumerate(cuts(steps, calm.folder / "files")):
        here = Place(tmp_path / str(number))
        (here.folder / "files").rmdir()
        put(left, here.folder / "files")
        found, damaged = Store(here.results, "deadly").load_all()
        assert damaged == []
        done = {result.cell.label: result.model_dump(exclude=MAY_DIFFER) for result in found}
        reported = {line.split()[1] for line in said(before).splitlines() if re.match(r"\[\d/3\]", line)}
        assert reported <= done.keys() <= expected.keys()
        if chance.random() < 0.1:
            here.use(monkeypatch)
            code, _ = in_child(here.words(), here.folder)
            assert code == 0, (here.folder / "said").read_text()
            assert here.outcomes() == expected
            assert here.left_over() == []
            assert not done.keys() & set(here.releases())
    assert done == expected


def cache_of(folder: Path, shared: Path) -> Path:
    """The cache of a run, with the calibrations of all tests."""
    cache = folder / "files" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    (shared / "calibration").mkdir(exist_ok=True)
    (cache / "calibration").symlink_to(shared / "calibration")
    return cache


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_private_run_is_charged_less_than_it_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache
) -> None:
    """A cell with secure noise that was said to be done is there, on the ledger, and known to be of these records."""
    folder = tmp_path / "calm"
    cache_of(folder, own_cache)
    path = suite(folder, "tang", "pta")
    monkeypatch.setenv("DPICL_DATA", str(write_records(tmp_path / "data", rows_of("train", 40))))
    monkeypatch.setenv("DPICL_CACHE", str(folder / "files" / "cache"))
    words: list[object] = ["run", path, "--results"]
    steps = journal_of([*words, folder / "files" / "results"], folder)
    chance, ran = random.Random(0), 0
    for number, (before, left) in enumerate(cuts(steps, folder / "files")):
        here = tmp_path / str(number)
        put(left, here / "files")
        monkeypatch.setenv("DPICL_CACHE", str(cache_of(here, own_cache)))
        found, damaged = Store(here / "files" / "results", "private").load_all()
        assert damaged == []
        reported = len(re.findall(r"^\[\d/2\]", said(before), flags=re.MULTILINE))
        charges = sum(len(ledger.charges) for ledger in read_all())
        assert reported <= len(found) <= charges <= 2
        if chance.random() < 0.06:
            code, _ = in_child([*words, here / "files" / "results"], here)
            assert code == 0, (here / "said").read_text()
            after = sum(len(ledger.charges) for ledger in read_all())
            assert after == charges + 2 - len(found)  # what is there is not released again
            ran += 1
    assert ran > 3
