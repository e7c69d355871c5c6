"""Workers in processes of their own: what is heard of one that is killed, breaks, or is too large."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any

import pytest

from dpicl.core.errors import DataError
from dpicl.core.interrupts import stopped_by_term
from dpicl.engines import processes
from dpicl.engines.dispatch import TRIES, Dispatcher, WorkerLost, make_portable
from dpicl.engines.processes import Processes, WorkerSlot
from dpicl.engines.worker import Done, Job, Outcome
from dpicl.results.fingerprints import Fingerprints
from dpicl.results.schema import SuiteReference
from dpicl.results.store import Store
from tests.leaderboards.factory import make_result


class Unportable(Exception):
    """Cannot be made again from its arguments in another process."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(one + other)


def obey(pipe: Connection, job: Any) -> None:
    """Does what the items say."""
    while (item := pipe.recv()) is not None:
        match item.model:
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "exits":
                os._exit(7)
            case "leaves a child":
                words = [sys.executable, "-c", "input()"]
                child = subprocess.Popen(words, close_fds=False, pass_fds=[pipe.fileno()], stdin=subprocess.PIPE)
                pipe.send(child.pid)
                os.kill(os.getpid(), signal.SIGKILL)
            case "mask":
                pipe.send(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
            case "error":
                pipe.send(make_portable(DataError("too few")))
            case "bug":
                pipe.send(make_portable(Unportable("a", "b")))
            case _:
                pipe.send(item.model)


@pytest.fixture
def pool(monkeypatch, tmp_path):
    monkeypatch.setattr(processes, "_work", obey)
    made = Processes(2, Job(SuiteReference(name="quick", version=1, hash=""), tmp_path), print)
    yield made
    made.close()
    assert not multiprocessing.active_children()


def start(pool: Processes, *items: str) -> list[WorkerSlot]:
    return [pool.submit(SimpleNamespace(model=item)) for item in items]


def answer(pool: Processes, slot: WorkerSlot) -> Any:
    while slot not in pool.wait([slot]):
        pass
    return pool.outcome(slot)[1]


def test_a_worker_goes_on_to_the_next_cell_of_its_model_and_hears_no_ctrl_c(pool):
    first, second = start(pool, "one", "mask")
    assert answer(pool, first) == "one"
    assert answer(pool, second) is True
    (again,) = start(pool, "mask")
    assert again is second and answer(pool, again) is True


@pytest.mark.parametrize(("item", "how"), [("killed", "SIGKILL"), ("exits", "exit code 7")])
def test_a_death_is_heard_and_said(pool, item, how):
    with pytest.raises(WorkerLost, match=how):
        answer(pool, *start(pool, item))


def test_a_death_is_heard_although_a_child_holds_the_pipe(pool):
    (slot,) = start(pool, "leaves a child")
    child = answer(pool, slot)
    slot.idle = False
    try:
        with pytest.raises(WorkerLost, match="SIGKILL"):
            answer(pool, slot)
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_cell_for_a_worker_that_is_dead_is_a_death_too(pool):
    (slot,) = start(pool, "one")
    assert answer(pool, slot) == "one"
    slot.process.kill()
    slot.process.join()
    assert start(pool, "two") == [slot]
    with pytest.raises(WorkerLost):
        answer(pool, slot)


def test_errors_come_as_they_are_and_bugs_with_their_place(pool):
    first, second = start(pool, "error", "bug")
    with pytest.raises(DataError, match="too few"):
        answer(pool, first)
    with pytest.raises(RuntimeError, match="Unportable"):
        answer(pool, second)


class Deadly:
    """A pool whose jobs are lost as often as ``deaths`` says: by the seed of a cell."""

    def __init__(self, deaths: dict[int, int]) -> None:
        self.size, self.deaths, self.jobs = 1, deaths, list[int]()

    def submit(self, cell):
        self.cell = cell
        self.jobs.append(cell.seed)
        return len(self.jobs)

    def wait(self, jobs):
        return list(jobs)

    def outcome(self, job):
        seed = self.cell.seed
        if self.deaths.get(seed):
            self.deaths[seed] -= 1
            raise WorkerLost("was killed")
        return "", Outcome(Done(self.cell, "done"), make_result(seed=seed))

    def close(self):
        pass


def test_the_cell_of_a_lost_worker_is_tried_again_after_all_others_and_given_up_at_last(tmp_path, monkeypatch):
    monkeypatch.setattr(Fingerprints, "difference", lambda self, result: "")
    Store(tmp_path, "quick").prepare()
    cells = [make_result(seed=seed).cell for seed in range(4)]
    pool, events = Deadly({1: 2, 3: 99}), list[Done]()
    job = Job(SuiteReference(name="quick", version=1, hash=""), tmp_path)
    Dispatcher(pool, cells, job, events.append, False).run()
    assert TRIES == 3 and pool.jobs == [0, 1, 2, 3, 1, 3, 1, 3]
    failed = [done for done in events if done.status == "failed"]
    assert [(done.cell.seed, done.worker_died) for done in failed] == [(3, True)] and "--workers" in failed[0].message
    assert len(Store(tmp_path, "quick").load_all()[0]) == 3


def test_sigterm_stops_work_as_ctrl_c_does_unless_somebody_else_handles_it():
    with pytest.raises(KeyboardInterrupt), stopped_by_term():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    heard: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        with stopped_by_term():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    assert heard == [signal.SIGTERM]
