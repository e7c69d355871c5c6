"""Who does the cells: statuses, locks between runs, worker processes, and Ray through a stand-in."""

import multiprocessing
import os
import re
import signal
import sys
from collections import Counter
from typing import Any

import pytest

from dpicl.core.cell import Cell
from dpicl.core.errors import DataError, UsageError
from dpicl.engines import worker
from dpicl.engines.dispatch import TRIES
from dpicl.engines.local import Inline, Local, make_engine
from dpicl.engines.worker import CellProgress, Done, Job, Worker
from dpicl.mechanism.registry import load_mechanisms
from dpicl.plan.expand import expand
from dpicl.plan.suite_files import load_suite
from dpicl.results.fingerprints import Fingerprints
from dpicl.results.schema import Result, SuiteReference
from dpicl.results.store import Store
from dpicl.run.workbench import Skipped
from tests.harness.helpers import PLUGIN
from tests.harness.mortal import Lab
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

    monkeypatch.setattr(worker, "run_cell", run_cell)
    monkeypatch.setattr(
        Fingerprints, "difference", lambda self, result: ""
    )  # ready-made results are of no records
    return ids


def collect(engine: Any, cells: list[Cell], job: Job) -> list[Done]:
    events: list[CellProgress | Done] = []
    engine.run(cells, job, events.append)
    return [event for event in events if isinstance(event, Done)]


def test_a_finished_cell_is_not_done_again(job, results, ran):
    cells = [result.cell for result in results]
    first = collect(Inline(), cells[:2], job)
    again = collect(Inline(), cells, job)
    assert [done.status for done in first] == ["done", "done"]
    assert [done.status for done in again] == ["present", "present", "done", "done"]
    assert ran == [cell.id for cell in cells]
    assert len(Store(job.results, "quick").load_all()[0]) == 4


def test_a_cell_that_another_run_has_is_left(job, results, ran):
    cells = [result.cell for result in results]
    store = Store(job.results, "quick")
    with store.lock(cells[1].id):
        statuses = [done.status for done in collect(Inline(), cells, job)]
    assert statuses == ["done", "busy", "done", "done"]


def test_an_error_ends_its_cell_alone(job, results, monkeypatch):
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

    monkeypatch.setattr(worker, "run_cell", run_cell)
    done = collect(Inline(), [cells[3], *cells[:3]], job)
    assert [(each.status, each.message) for each in done[1:]] == [
        ("failed", "too few records"),
        ("skipped", "no labels"),
        ("done", ""),
    ]
    assert (
        done[0].status == "failed"
        and "ZeroDivisionError: a bug (test_engines.py, line" in done[0].message
    )
    with Store(job.results, "quick").lock(cells[3].id) as free:
        assert free


@pytest.mark.parametrize(
    "workers",
    [
        1,
        pytest.param(2, marks=pytest.mark.slow),
    ],
)
def test_worker_processes_answer_as_one_process_does(own_cache, sim_suite, tmp_path, workers):

    suite = load_suite(sim_suite)
    cells = [cell for cell in expand(suite, load_mechanisms()) if cell.mechanism != "tang"]
    reference = SuiteReference(name=suite.name, version=suite.version, hash=suite.hash)
    stores = [Store(tmp_path / name, suite.name) for name in ("one", "two")]
    events: list[CellProgress | Done] = []
    for store, engine in zip(
        stores,
        (Inline(), Local(workers)),
        strict=True,
    ):
        store.prepare()
        events.clear()
        engine.run(cells, Job(reference, store.results), events.append)
        done = [event for event in events if isinstance(event, Done)]
        assert sorted(event.cell.id for event in done) == sorted(cell.id for cell in cells)
        assert {event.status for event in done} == {"done"}
    assert any(
        isinstance(event, CellProgress) and event.unit == "demonstrations" for event in events
    )
    one, two = (
        {r.cell_id: (r.scores, r.released) for r in store.load_all()[0]} for store in stores
    )
    assert one == two
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_a_killed_worker_costs_its_own_cell_a_further_try(dpicl, own_cache, tmp_path, monkeypatch):
    lab = Lab(tmp_path, {0: 99, 1: 0, 2: 2, 3: 0})
    monkeypatch.setenv("DPICL_TEST_LOG", str(lab.log))
    answer = dpicl(*lab.words("local"), "--engine", "local", "--workers", 2)
    assert answer.code == 1
    assert answer.json["counts"] == {"done": 3, "present": 0, "skipped": 0, "failed": 1}
    assert Counter(tag for tag, _ in lab.releases()) == {0: TRIES, 1: 1, 2: 3, 3: 1}
    assert re.search(r"mortal2 .*SIGKILL.*2 of 3", answer.err)
    last = answer.err.strip().splitlines()[-1]
    assert "mortal0" in last and "--workers" in last
    assert not multiprocessing.active_children()
    assert not [
        path for path in (tmp_path / "local").rglob("*") if path.suffix in (".tmp", ".lock")
    ]
    done = ("--mechanism", "mortal2", "--mechanism", "mortal3")
    assert dpicl(*lab.words("inline"), *done).code == 0  # it has died as often as it does
    outcomes = lab.outcomes("local")
    assert set(outcomes) == {"mortal1", "mortal2", "mortal3"}
    assert lab.outcomes("inline") == {label: outcomes[label] for label in ("mortal2", "mortal3")}


@pytest.mark.slow
@pytest.mark.parametrize("at", ["start", "work"])
def test_ctrl_c_leaves_no_traceback_and_no_worker(dpicl_process, sim_suite, tmp_path, at):
    flags = ("--results", tmp_path, "--engine", "local", "--workers", 2)
    process = dpicl_process("run", sim_suite, *flags, process_group=0)
    assert "cells to do" in process.stderr.readline()  # the workers load their libraries now
    if at == "work":
        process.stderr.readline()  # the first cell is done
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, err = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in err and "resource_tracker" not in err and "stopped" in err


def test_no_cells_need_no_workers(job):
    Local(2).run([], job, lambda event: pytest.fail("nothing was to be done"))


def test_ray_that_is_not_installed_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"pip install 'dpicl-bench\[ray\]'"):
        make_engine("ray", None)


def test_an_empty_address_is_no_reason_to_run_here(job):
    pytest.importorskip("ray")
    engine = make_engine("ray", 1, address="")
    with pytest.raises(UsageError, match="HOST:PORT"):
        engine.run([make_result().cell], job, lambda event: pytest.fail("nothing was to be done"))


def test_a_worker_knows_the_plugins_of_its_job(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(PLUGIN)
    worker = Worker(
        Job(
            SuiteReference(name="quick", version=1, hash=""),
            tmp_path,
            (path,),
        )
    )
    assert "nothing" in worker.bench.mechanisms
