"""Workers in processes of their own: what is heard of one that is killed, breaks, or is too large."""

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
from dpicl.core.interrupts import stop_on_term
from dpicl.engines import processes
from dpicl.engines.dispatch import WorkerLost, make_portable
from dpicl.engines.processes import Processes, WorkerSlot
from dpicl.engines.worker import Job
from dpicl.results.schema import SuiteReference


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
                child = subprocess.Popen(
                    words, close_fds=False, pass_fds=[pipe.fileno()], stdin=subprocess.PIPE
                )
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
    workers = Processes(
        2,
        Job(SuiteReference(name="quick", version=1, hash=""), tmp_path),
        print,
    )
    yield workers
    workers.close()
    assert not multiprocessing.active_children()


def start(pool: Processes, *items: str) -> list[WorkerSlot]:
    return [pool.submit(SimpleNamespace(model=item)) for item in items]


def answer(pool: Processes, slot: WorkerSlot) -> Any:
    while slot not in pool.wait([slot]):
        pass
    return pool.outcome(slot)[1]


def test_a_worker_goes_on_to_the_next_cell_of_its_model(pool):
    first, second = start(pool, "one", "mask")
    assert answer(pool, first) == "one"
    assert answer(pool, second) is True
    (again,) = start(pool, "mask")
    assert again is second and answer(pool, again) is True
    wrong, broken = start(pool, "error", "bug")
    with pytest.raises(DataError, match="too few"):
        answer(pool, wrong)
    with pytest.raises(RuntimeError, match="Unportable"):
        answer(pool, broken)


@pytest.mark.parametrize(
    ("item", "how"),
    [("killed", "SIGKILL"), ("exits", "exit code 7")],
)
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


def test_sigterm_stops_work_as_ctrl_c_does():
    with pytest.raises(KeyboardInterrupt), stop_on_term():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    heard: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        with stop_on_term():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    assert heard == [signal.SIGTERM]
