"""Who does the cells: statuses, locks between runs, worker processes, and Ray through a stand-in."""

from __future__ import annotations

import multiprocessing
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from harness import engines
from harness.cells import Cell, expand
from harness.engines import Done, Inline, Job, Local, Ray, Step, Worker, make_engine
from harness.errors import DataError, ResultError, UsageError
from harness.fingerprints import Fingerprints
from harness.registry import load_mechanisms
from harness.results import Result, SuiteReference
from harness.runner import Skipped
from harness.store import Store
from harness.suite import load_suite
from tests.leaderboards.factory import make_result


@pytest.fixture
def job(tmp_path) -> Job:
    Store(tmp_path, "quick").prepare()
    return Job(SuiteReference(name="quick", version=1, hash="a" * 64), tmp_path)


@pytest.fixture
def results() -> list[Result]:
    return [make_result(seed=seed) for seed in range(4)]


@pytest.fixture
def ran(monkeypatch, results) -> list[str]:
    """The ids of the cells that were really run; running one gives its ready-made result."""
    ids: list[str] = []
    by_id = {result.cell_id: result for result in results}

    def run_cell(cell: Cell, suite: SuiteReference, bench: Any, report: Any) -> Result:
        ids.append(cell.id)
        report(1, 1, "demonstrations")
        return by_id[cell.id]

    monkeypatch.setattr(engines, "run_cell", run_cell)
    monkeypatch.setattr(Fingerprints, "difference", lambda self, result: "")  # ready-made results are of no records
    return ids


def collect(engine: Any, cells: list[Cell], job: Job, **flags: bool) -> list[Done]:
    events: list[Step | Done] = []
    engine.run(cells, job, events.append, **flags)
    return [event for event in events if isinstance(event, Done)]


def test_a_finished_cell_is_not_done_again(job, results, ran):
    cells = [result.cell for result in results]
    first = collect(Inline(), cells[:2], job)
    again = collect(Inline(), cells, job)
    assert [done.status for done in first] == ["done", "done"]
    assert [done.status for done in again] == ["present", "present", "done", "done"]
    assert ran == [cell.id for cell in cells]
    assert len(Store(job.results, "quick").load_all()[0]) == 4


def test_a_cell_that_another_run_has_is_left_and_waited_for_only_when_asked(job, results, ran):
    cells = [result.cell for result in results]
    store = Store(job.results, "quick")
    with store.lock(cells[1]):
        statuses = [done.status for done in collect(Inline(), cells, job)]
    assert statuses == ["done", "busy", "done", "done"]
    assert [done.status for done in collect(Inline(), [cells[1]], job, wait_for_locks=True)] == ["done"]


def test_an_error_that_can_be_mended_ends_its_cell_and_a_bug_ends_the_run(job, results, monkeypatch):
    cells = [result.cell for result in results]
    answers: dict[str, Any] = {
        cells[0].id: DataError("too few records"),
        cells[1].id: Skipped("no labels"),
        cells[2].id: results[2],
        cells[3].id: ZeroDivisionError("a bug"),
    }

    def run_cell(cell: Cell, *rest: Any) -> Result:
        answer = answers[cell.id]
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(engines, "run_cell", run_cell)
    done = collect(Inline(), cells[:3], job)
    assert [(each.status, each.message) for each in done] == [
        ("failed", "too few records"),
        ("skipped", "no labels"),
        ("done", ""),
    ]
    with pytest.raises(ZeroDivisionError):
        collect(Inline(), cells, job)
    with Store(job.results, "quick").lock(cells[3]) as free:
        assert free


def test_a_folder_that_stops_taking_files_ends_the_run(job, results, ran, monkeypatch):
    def full(self: Store, result: Result) -> Path:
        raise ResultError("the disk is full")

    monkeypatch.setattr(Store, "write", full)
    with pytest.raises(ResultError):
        collect(Inline(), [result.cell for result in results], job)
    assert len(ran) == 1


def test_worker_processes_do_every_cell_once_and_answer_as_one_process_does(own_cache, sim_suite, tmp_path):
    from harness.commands.selection import task_facts

    suite = load_suite(sim_suite)
    cells = [cell for cell in expand(suite, load_mechanisms(), task_facts()) if cell.mechanism != "tang"]
    reference = SuiteReference(name=suite.name, version=suite.version, hash=suite.hash)
    stores = [Store(tmp_path / name, suite.name) for name in ("one", "two")]
    events: list[Step | Done] = []
    for store, engine in zip(stores, (Inline(), Local(2)), strict=True):
        store.prepare()
        events.clear()
        engine.run(cells, Job(reference, store.results), events.append)
        done = [event for event in events if isinstance(event, Done)]
        assert sorted(event.cell.id for event in done) == sorted(cell.id for cell in cells)
        assert {event.status for event in done} == {"done"}
    assert any(isinstance(event, Step) and event.unit == "demonstrations" for event in events)
    one, two = ({r.cell_id: (r.scores, r.released) for r in store.load_all()[0]} for store in stores)
    assert one == two
    assert not multiprocessing.active_children()


def _killed(*arguments: object) -> None:
    import os
    import signal

    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed_is_an_error_that_says_what_to_do(job, results, monkeypatch):
    monkeypatch.setattr(engines, "_attempt", _killed)
    with pytest.raises(ResultError, match="--workers"):
        Local(1).run([results[0].cell], job, lambda event: None)


def test_no_cells_need_no_workers(job):
    Local(2).run([], job, lambda event: pytest.fail("nothing was to be done"))


class _Actor:
    """Stands in for a Ray actor: calls happen at once."""

    def __init__(self, cls: type, arguments: tuple[Any, ...]) -> None:
        worker = cls(*arguments)
        self.attempt = types.SimpleNamespace(remote=lambda *words: _Reference(worker.attempt(*words)))


class _Reference:
    def __init__(self, value: Any) -> None:
        self.value = value


@pytest.fixture
def ray(monkeypatch) -> types.ModuleType:
    module = types.ModuleType("ray")
    module.init = lambda **settings: None
    module.cluster_resources = lambda: {"CPU": 4.0}
    module.remote = lambda **settings: lambda cls: types.SimpleNamespace(remote=lambda *words: _Actor(cls, words))
    module.wait = lambda references, num_returns: (references[:num_returns], references[num_returns:])
    module.get = lambda reference: reference.value
    monkeypatch.setitem(sys.modules, "ray", module)
    return module


def test_ray_actors_do_every_cell_once(ray, job, results, ran, monkeypatch):
    monkeypatch.setattr(engines, "limit_threads", lambda threads: None)
    cells = [result.cell for result in results]
    done = collect(make_engine("ray", 2), cells, job)
    assert sorted(ran) == sorted(cell.id for cell in cells)
    assert {event.status for event in done} == {"done"}
    assert isinstance(make_engine("ray", 2), Ray)


def test_ray_that_is_not_installed_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"pip install 'dpicl-bench\[ray\]'"):
        make_engine("ray", None)


def test_workers_divide_the_cores():
    assert make_engine("local", None) == Local(max(1, engines.cores() // 2))
    assert make_engine("local", 3) == Local(3)


def test_a_worker_knows_the_plugins_of_its_job(tmp_path):
    from tests.harness.test_registry import PLUGIN

    path = tmp_path / "mine.py"
    path.write_text(PLUGIN)
    worker = Worker(Job(SuiteReference(name="quick", version=1, hash=""), tmp_path, (path,)))
    assert "nothing" in worker.bench.mechanisms
