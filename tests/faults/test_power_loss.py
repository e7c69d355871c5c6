"""The power is cut after any step of a run: no result is half there, none is lost that was said to be done, and nothing
was released from private records that is not on their ledger.
"""

from __future__ import annotations

import json
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

from dpicl.harness.core.vocabulary import Record
from dpicl.harness.run import budget
from dpicl.harness.run.budget import ChargeTo
from dpicl.harness.run.private_ledger import read_all
from dpicl.harness.run.store import Store
from tests.faults.deadly import MAY_DIFFER, in_child
from tests.faults.places import Place
from tests.faults.power import Journal, Step, cuts, put
from tests.harness.local_suite import private_release, rows_of
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


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_release_is_charged_less_than_it_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there was charged, whenever the power was cut; the same command then releases once more."""
    records, folder = tmp_path / "own.jsonl", tmp_path / "calm"
    (folder / "files" / "cache").mkdir(parents=True)
    records.write_text("".join(json.dumps(row) + "\n" for row in rows_of("train", 9)))
    monkeypatch.setenv("DPICL_CACHE", str(folder / "files" / "cache"))
    steps = journal_of(private_release(records, folder / "files" / "out.jsonl"), folder)
    chance, ran = random.Random(0), 0
    for number, (_, left) in enumerate(cuts(steps, folder / "files")):
        here = tmp_path / str(number)
        put(left, here / "files")
        monkeypatch.setenv("DPICL_CACHE", str(here / "files" / "cache"))
        charges = sum(len(ledger.charges) for ledger in read_all())
        out = here / "files" / "out.jsonl"  # empty: it was tried whether there is room for it
        assert (out.exists() and out.stat().st_size > 0) <= charges <= 1
        if chance.random() < 0.06:
            code, _ = in_child(private_release(records, here / "again.jsonl"), here)
            assert code == 0, (here / "said").read_text()
            assert sum(len(ledger.charges) for ledger in read_all()) == charges + 1
            ran += 1
    assert ran > 3
