"""How much memory is left, and what `--engine local` does where it becomes short."""

from __future__ import annotations

import multiprocessing
import os
import re
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dpicl.core.cell import Cell
from dpicl.engines import local as engines
from dpicl.engines.attempts import TRIES, Attempts
from dpicl.engines.local import _Crew
from dpicl.engines.worker import Done
from tests.leaderboards.factory import make_result

MIB, GIB = 2**20, 2**30


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """machine(total, left, {group: (max, current, inactive)}, own): what the system says; bytes."""

    def make(total: int, left: int, groups: dict[str, tuple[object, int, int]] | None = None, own: str = "") -> None:
        monkeypatch.setattr(engines.psutil, "virtual_memory", lambda: SimpleNamespace(total=total, available=left))
        for name, (most, used, inactive) in (groups or {}).items():
            folder = tmp_path / "cgroup" / name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "memory.max").write_text(f"{most}\n")
            (folder / "memory.current").write_text(f"{used}\n")
            (folder / "memory.stat").write_text(f"anon 1\ninactive_file {inactive}\n")
        (tmp_path / "own").write_text(own)
        monkeypatch.setattr(engines, "_CGROUPS", tmp_path / "cgroup")
        monkeypatch.setattr(engines, "_OWN", tmp_path / "own")

    return make


@pytest.mark.parametrize(
    ("total", "left", "short"),
    [
        (16 * GIB, 8 * GIB, False),
        (16 * GIB, 513 * MIB, False),
        (16 * GIB, 511 * MIB, True),
        (2 * GIB, 110 * MIB, False),  # 5% of a small machine are less
        (2 * GIB, 100 * MIB, True),
        (16 * GIB, 0, True),
    ],
)
def test_memory_of_the_machine(machine, total, left, short):
    machine(total, left)
    assert bool(engines.shortage()) is short


@pytest.mark.parametrize(
    ("groups", "own", "short"),
    [
        ({"a": (4 * GIB, 4 * GIB - 100 * MIB, 0)}, "0::/a\n", True),
        ({"a": (4 * GIB, 4 * GIB - 100 * MIB, GIB)}, "0::/a\n", False),  # files in its cache can go
        ({"a": ("max", 4 * GIB, 0)}, "0::/a\n", False),
        ({"a": (4 * GIB, 4 * GIB, 0), "a/b": ("max", GIB, 0)}, "0::/a/b\n", True),  # the limit of the group around it
        ({"a": (4 * GIB, 4 * GIB, 0)}, "0::/other\n", False),
        ({"a": (4 * GIB, 4 * GIB, 0)}, "0::/../../a\n", False),
        ({"": (4 * GIB, 4 * GIB, 0)}, "0::/\n", True),
        ({"a": ("none", 1, 0)}, "0::/a\n", False),
        ({"a": (4 * GIB, 4 * GIB, 0)}, "", False),
    ],
)
def test_memory_of_the_control_group(machine, groups, own, short):
    machine(16 * GIB, 8 * GIB, groups, own)
    said = engines.shortage()
    assert bool(said) is short
    assert not short or "of 4.0 GiB" in said


def test_without_control_groups_the_machine_counts(machine, tmp_path, monkeypatch):
    machine(16 * GIB, 8 * GIB)
    monkeypatch.setattr(engines, "_OWN", tmp_path / "nowhere")
    assert engines.shortage() == ""


def _holding(size: int, ready: Connection) -> None:
    held = bytearray(os.urandom(1)) * size
    if size > 60 * MIB:
        child = multiprocessing.get_context("fork").Process(target=_holding, args=(size // 2, ready))
        child.start()
        child.join()
    else:
        ready.send(len(held))
        ready.recv()


def test_a_process_is_counted_with_its_children():
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_holding, args=(80 * MIB, there))
    process.start()
    assert here.recv() == 40 * MIB
    assert engines.resident(process.pid) >= 120 * MIB
    here.send(None)
    process.join()
    assert engines.resident(process.pid) == 0


class Worker:
    """A worker process as its crew sees it."""

    def __init__(self, pid: int, cell: Cell) -> None:
        self.process, self.item, self.pipe = SimpleNamespace(pid=pid), cell, object()
        self.killed = False

    def kill(self) -> None:
        self.killed = True


@pytest.fixture
def crew(monkeypatch):
    """crew(sizes) -> (a crew whose workers hold so much, its workers, what it reports); memory is short."""

    def make(*sizes: int, shortage: str = "0.1 of 2.0 GiB of memory are left") -> tuple[_Crew, list[Worker], list[Any]]:
        cells = [make_result(seed=seed).cell for seed in range(len(sizes))]
        attempts, said = Attempts(cells), []
        for _ in cells:
            attempts.next()  # all are at work
        found = _Crew(len(sizes), attempts, said.append)
        workers = [Worker(number, cell) for number, cell in enumerate(cells, start=1)]
        for worker in workers:
            found.running[worker.pipe], found.models[worker.pipe] = worker, "m"  # type: ignore[index, assignment]
        monkeypatch.setattr(engines, "resident", lambda pid: sizes[pid - 1])
        monkeypatch.setattr(engines, "shortage", lambda: shortage)
        return found, workers, said

    return make


def test_the_largest_worker_is_stopped_and_its_cell_waits(crew, caplog):
    found, workers, said = crew(5, 9, 7)
    found.watch_memory()
    assert [worker.killed for worker in workers] == [False, True, False]
    assert (found.size, len(found.running), len(found.attempts), said) == (2, 2, 1, [])
    assert found.attempts.next() == workers[1].item
    assert re.search(r"0\.1 of 2\.0 GiB.*2 workers", caplog.text) and "want of memory" in caplog.text
    found.watch_memory()
    assert found.size == 2  # it has just looked
    found.looked = 0.0
    found.watch_memory()
    assert (found.size, [worker.killed for worker in workers]) == (1, [False, True, True])


def test_the_last_worker_goes_on_and_none_is_stopped_where_there_is_room(crew):
    found, workers, _ = crew(5)
    found.watch_memory()
    assert not workers[0].killed and found.size == 1
    found, workers, _ = crew(5, 9, shortage="")
    found.watch_memory()
    assert not any(worker.killed for worker in workers) and found.size == 2


def test_a_cell_that_never_fits_is_named_at_last(crew):
    found, workers, said = crew(5, 9)
    for _ in range(TRIES - 1):
        found.attempts.lost(workers[1].item, "was stopped")
    found.watch_memory()
    (done,) = said
    assert isinstance(done, Done) and done.status == "failed" and done.worker_died
    assert str(workers[1].item) in done.message and "memory" in done.message


@pytest.mark.slow
def test_a_run_goes_on_with_fewer_workers_and_does_every_cell(dpicl, sim_suite, tmp_path, monkeypatch):
    """Memory is short as soon as both real workers are there, until one was stopped."""
    once = []

    def shortage() -> str:
        if once or len(multiprocessing.active_children()) < 2:
            return ""
        once.append("0.1 of 2.0 GiB of memory are left")
        return once[0]

    monkeypatch.setattr(engines, "shortage", shortage)
    flags = ("--engine", "local", "--workers", 2, "--json", "--results", tmp_path)
    answer = dpicl("run", sim_suite, "--mechanism", "zero_shot", "--seed", "0,1,2,3", *flags)
    assert answer.code == 0, answer.err
    assert answer.json["counts"] == {"done": 4, "present": 0, "skipped": 0, "failed": 0}
    assert "with 1 worker." in answer.err and once
    assert len(list(Path(tmp_path).rglob("*.json"))) == 4
    assert not multiprocessing.active_children()
