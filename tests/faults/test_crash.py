"""Runs that are killed, and runs that meet: no finished cell is lost, no file is half, no cell is done twice."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from dpicl.harness.run.store import Store
from tests.harness.helpers import children
from tests.leaderboards.factory import make_result

SEEDS = 12
CELLS = 3 * SEEDS


@pytest.fixture
def suite(tmp_path) -> Path:
    """36 cells of about a tenth of a second each."""
    path = tmp_path / "crash.yaml"
    path.write_text(
        "name: crash\nversion: 1\nsource: synthetic\nmodel: sim\n"
        f"seeds: {list(range(SEEDS))}\nepsilons: [4]\ntasks: [agnews]\ntest_records: 12\ntrain_records: 60\n"
        "mechanisms:\n  - name: zero_shot\n  - name: real_demonstrations\n"
        "  - name: prism\n    options: {prompts: 8, tokens: 8}\n"
    )
    return path


def cells_done(log: str) -> list[str]:
    """The cells that a run says it has done, from its lines `[3/36] prism on ..., seed 2, sim: 0.4 in 1 s`."""
    return re.findall(r"^\[\d+/\d+\] (.*, sim): \d\.\d+ in ", log, flags=re.MULTILINE)


def finished_files(folder: Path) -> dict[Path, tuple[int, bytes]]:
    """Every result file with the time it was written and its content; fails when one is not whole."""
    files = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*.json")}
    for _, content in files.values():
        json.loads(content)
    assert Store(folder, "crash").load_all()[1] == []
    return files


def wait_for_first_cell(folder: Path, process: subprocess.Popen[str], known: int) -> None:
    """Returns when a new result is there."""
    end = time.monotonic() + 120
    while len(list(folder.rglob("*.json"))) <= known:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.slow
def test_a_run_killed_at_random_points_goes_on_where_it_was(dpicl_process, suite, tmp_path):
    folder = tmp_path / "results"
    chance = random.Random(4)
    logs, before = [], {}
    for _ in range(3):
        process = dpicl_process("run", suite, "--results", folder)
        wait_for_first_cell(folder, process, len(before))
        time.sleep(chance.uniform(0, 0.6))
        process.send_signal(signal.SIGKILL)
        logs.append(process.communicate()[1])
        after = finished_files(folder)
        assert {path: after.get(path) for path in before} == before  # nothing lost, nothing written again
        before = after
    assert len(before) < CELLS  # else the kills came too late to show anything
    process = dpicl_process("run", suite, "--results", folder, "--json")
    out, log = process.communicate()
    assert process.returncode == 0, log
    assert json.loads(out)["counts"] == {"done": CELLS - len(before), "present": len(before), "skipped": 0, "failed": 0}
    files = finished_files(folder)
    assert len(files) == CELLS
    assert {path: files[path] for path in before} == before
    assert max(Counter(cells_done("\n".join([*logs, log]))).values()) == 1
    assert not [path for path in folder.rglob("*") if path.suffix in (".tmp", ".lock")]


@pytest.mark.slow
def test_two_runs_on_one_folder_share_the_cells(dpicl_process, suite, tmp_path):
    folder = tmp_path / "results"
    processes = [dpicl_process("run", suite, "--results", folder, "--json") for _ in range(2)]
    answers = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], answers
    counts = [json.loads(out)["counts"] for out, _ in answers]
    assert [count["done"] + count["present"] for count in counts] == [CELLS, CELLS]
    assert sum(count["done"] for count in counts) == CELLS
    done = cells_done("\n".join(log for _, log in answers))
    assert len(done) == len(set(done)) == CELLS
    assert len(finished_files(folder)) == CELLS


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_worker_processes_die_with_the_run_that_started_them(dpicl_process, suite, tmp_path):
    folder = tmp_path / "results"
    process = dpicl_process("run", suite, "--results", folder, "--engine", "local", "--workers", 1)
    wait_for_first_cell(folder, process, 0)
    workers = children(process.pid)
    assert workers
    process.send_signal(signal.SIGKILL)
    process.wait()
    end = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() and pid_state(pid) != "Z" for pid in workers):
        assert time.monotonic() < end
        time.sleep(0.05)
    finished_files(folder)


def pid_state(pid: int) -> str:
    """One letter, 'Z' for a process that is gone but not yet buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "Z"


def _write_and_die(folder: Path, point: str) -> None:
    """Writes a result in this process, and is killed just before, or just after, one system call."""
    store, result = Store(folder, "quick"), make_result()
    name, _, after = point.partition(" ")
    real = getattr(os, name)

    def deadly(*arguments: object) -> None:
        if after:
            real(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(os, name, deadly)
    with store.lock(result.cell):
        store.write(result)


@pytest.mark.parametrize("point", ["fsync", "fsync after", "replace", "replace after"])
def test_a_kill_inside_the_writing_leaves_a_whole_file_or_none(tmp_path, point):
    store, result = Store(tmp_path, "quick"), make_result()
    store.prepare()
    process = multiprocessing.get_context("fork").Process(target=_write_and_die, args=(tmp_path, point))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    results, damaged = store.load_all()
    assert damaged == []
    assert results == ([result] if point == "replace after" else [])
    with store.lock(result.cell) as free:
        assert free
    store.prepare()
    assert not list(tmp_path.rglob("*.tmp"))
