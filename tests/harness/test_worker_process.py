"""A process that takes work through a pipe: what its parent hears when it is killed, breaks, or is dismissed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from multiprocessing.connection import Connection

import pytest

from dpicl.core.errors import DataError
from dpicl.core.interrupts import stopped_by_term
from dpicl.engines.worker_process import WorkerProcess, make_portable, wait_for_workers


class Unportable(Exception):
    """Cannot be made again from its arguments in another process."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(one + other)


def target(pipe: Connection) -> None:
    """Does what the items say."""
    while (item := pipe.recv()) is not None:
        match item:
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "exits":
                os._exit(7)
            case "leaves a child":
                pipe.send(
                    subprocess.Popen(
                        [sys.executable, "-c", "input()"],
                        close_fds=False,
                        pass_fds=[pipe.fileno()],
                        stdin=subprocess.PIPE,
                    ).pid
                )
                os.kill(os.getpid(), signal.SIGKILL)
            case "mask":
                pipe.send(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
            case "error":
                pipe.send(make_portable(DataError("too few")))
            case "bug":
                pipe.send(make_portable(Unportable("a", "b")))
            case _:
                pipe.send(item * 2)


@pytest.fixture
def worker():
    worker = WorkerProcess(target)
    yield worker
    worker.kill()
    assert not multiprocessing.active_children()


def answer(worker: WorkerProcess) -> object:
    spoken: list[WorkerProcess] = []
    while not spoken:
        spoken = wait_for_workers({worker.pipe: worker})
    return spoken[0].heard()


def test_items_go_one_way_and_events_the_other(worker):
    worker.start(1)
    assert answer(worker) == 2
    worker.take("mask")
    assert answer(worker) is True  # Ctrl-C is for the parent
    worker.dismiss()
    assert worker.process.exitcode == 0


@pytest.mark.parametrize(("item", "how"), [("killed", "SIGKILL"), ("exits", "exit code 7")])
def test_a_death_is_heard_and_said(worker, item, how):
    worker.start(item)
    assert answer(worker) is None
    assert how in worker.end()


def test_a_death_is_heard_although_a_child_holds_the_pipe(worker):
    worker.start("leaves a child")
    child = answer(worker)
    try:
        assert answer(worker) is None
        assert "SIGKILL" in worker.end()
    finally:
        os.kill(child, signal.SIGKILL)


def test_an_item_for_a_worker_that_is_dead_is_a_death_too(worker):
    worker.start(1)
    assert answer(worker) == 2
    worker.process.kill()
    worker.process.join()
    worker.take(2)
    assert answer(worker) is None


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


def test_errors_come_as_they_are_and_bugs_with_their_place(worker):
    worker.start("error")
    with pytest.raises(DataError, match="too few"):
        answer(worker)
    worker.take("bug")
    with pytest.raises(RuntimeError, match="Unportable"):
        answer(worker)
