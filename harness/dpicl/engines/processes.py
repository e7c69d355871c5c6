"""Worker processes on this machine; each may be killed at any moment without harm to the others.

An executor of concurrent.futures breaks when one of its processes is killed, and a queue that several processes share
stays locked for ever when one is killed in the middle of a message. Here every worker has its own pipe.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Collection
from contextlib import suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from tqdm.std import tqdm

from dpicl.core.cell import Cell
from dpicl.engines.dispatch import POLL_SECONDS, WorkerLost, make_portable
from dpicl.engines.worker import CellProgress, Job, Outcome, Report, Worker, limit_threads

#: A worker that has nothing left to do may take so long to end.
_LAST_SECONDS = 10.0


class WorkerSlot:
    """A process (spawn), and the pipe to it. event: what it said last, None where it has died. model: what it has
    loaded."""

    def __init__(self, job: Job) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, job))
        self.event: Any = None
        self.idle, self.model = True, ""
        resource_tracker.ensure_running()  # when Python starts it by itself, it lets Ctrl-C through again
        # Ctrl-C is the parent's business
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()  # so that the pipe ends with the worker

    def give(self, cell: Cell | None) -> None:
        """Gives it a cell, or says that there is none left; one that has died meanwhile is found out by `listen`."""
        with suppress(OSError):
            self.pipe.send(cell)

    def listen(self) -> Any:
        """What it says; None when it has died."""
        try:
            self.event = self.pipe.recv() if self.pipe.poll() else None
        except (EOFError, OSError):
            self.event = None
        return self.event

    def end(self, seconds: float) -> str:
        """Ends it, unless it does so by itself in so many seconds; says how it ended."""
        self.process.join(seconds)
        code = self.process.exitcode
        self.process.kill()
        self.process.join()
        self.pipe.close()
        return (
            f"was killed ({signal.Signals(-code).name})"
            if code and code < 0
            else f"ended (exit code {code})"
        )


class Processes:
    """Worker processes, each with one cell at a time."""

    def __init__(self, size: int, job: Job, report: Report) -> None:
        self.size, self._job, self._report = size, job, report
        self._slots: list[WorkerSlot] = []

    def submit(self, cell: Cell) -> WorkerSlot:
        idle = [slot for slot in self._slots if slot.idle]
        if not idle:
            idle = [WorkerSlot(self._job)]
            self._slots += idle
        slot = min(idle, key=lambda slot: slot.model != cell.model)
        slot.idle, slot.model = False, cell.model
        slot.give(cell)
        return slot

    def wait(self, jobs: Collection[WorkerSlot]) -> list[WorkerSlot]:
        ready = wait([slot.pipe for slot in jobs], timeout=POLL_SECONDS)
        ended = []
        for slot in jobs:
            # A child that a killed worker left behind may hold the other end of its pipe open: ask for the process too.
            if slot.pipe in ready or not slot.process.is_alive():
                if isinstance(event := slot.listen(), CellProgress):
                    self._report(event)
                else:
                    ended.append(slot)
        return ended

    def outcome(self, job: WorkerSlot) -> tuple[str, Outcome]:
        if job.event is None:
            self._slots.remove(job)
            raise WorkerLost(job.end(_LAST_SECONDS))
        if isinstance(job.event, BaseException):
            raise job.event
        job.idle = True
        return "", job.event

    def close(self) -> None:
        for slot in self._slots:
            if slot.idle:
                # all of them first, since a process with a model takes seconds to end
                slot.give(None)
        for slot in self._slots:
            slot.end(_LAST_SECONDS if slot.idle else 0)


def _work(pipe: Connection, job: Job) -> None:
    """A worker process: runs the cells that it receives, until it receives None."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    # else it makes a semaphore that a killed process leaves to the parent's complaint
    tqdm.set_lock(threading.RLock())
    try:
        limit_threads(job.threads)  # before torch is used
        worker = Worker(job)
        while (cell := pipe.recv()) is not None:
            pipe.send(worker.compute(cell, pipe.send))
    except Exception as error:
        pipe.send(make_portable(error))


def _die_with_parent() -> None:
    """Ends this worker when its parent dies: nobody would take its answer."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)
