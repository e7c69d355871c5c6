"""Distributes cells to workers that may die, and saves the results; only this process writes to the results folder."""

from __future__ import annotations

import logging
import pickle
import traceback
from collections import Counter, deque
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from typing import Any, Protocol

from dpicl.core.cell import Cell
from dpicl.core.errors import DpiclError
from dpicl.core.interrupts import ignore_interrupts
from dpicl.engines.worker import Done, Job, Outcome, Recorder, Report

_log = logging.getLogger(__name__)
#: How often a cell is tried whose worker dies.
TRIES = 3
POLL_SECONDS = 1.0


class WorkerLost(Exception):
    """A worker has died. The message says how, as in 'was killed (SIGKILL)'."""


class Pool(Protocol):
    """Workers. size: how many jobs run at once."""

    size: int

    def submit(self, cell: Cell) -> Any:
        """Starts a job that runs a cell."""

    def wait(self, jobs: Collection[Any]) -> list[Any]:
        """The jobs that have ended; returns after `POLL_SECONDS` at most."""

    def outcome(self, job: Any) -> tuple[str, Outcome]:
        """(name of the other machine or "", how the cell ended). Raises WorkerLost, or what ended the worker."""

    def close(self) -> None:
        """Ends all workers, whatever they do."""


class Dispatcher:
    """One run of cells. running: job -> its cell, and the cell's lock."""

    def __init__(self, pool: Pool, cells: Sequence[Cell], job: Job, report: Report) -> None:
        self.pool, self.report = pool, report
        self.recorder = Recorder(job)
        self.waiting = deque(cells)
        self.running: dict[Any, tuple[Cell, ExitStack]] = {}
        self.deaths: Counter[str] = Counter()  # by the cell's id

    def run(self) -> None:
        """Returns when every cell was reported. Raises what ends the run."""
        try:
            while self.waiting or self.running:
                for _ in range(len(self.waiting)):
                    if len(self.running) < self.pool.size:
                        self._submit(self.waiting.popleft())
                for job in self.pool.wait(self.running) if self.running else ():
                    cell, lock = self.running.pop(job)
                    with lock:
                        self._collect(job, cell)
        finally:
            with ignore_interrupts():
                self.pool.close()
                for _, lock in self.running.values():
                    lock.close()

    def _submit(self, cell: Cell) -> None:
        with ExitStack() as lock:
            over = lock.enter_context(self.recorder.take(cell))
            if over is None:
                self.running[self.pool.submit(cell)] = cell, lock.pop_all()
            else:
                self.report(over)

    def _collect(self, job: Any, cell: Cell) -> None:
        try:
            node, outcome = self.pool.outcome(job)
        except WorkerLost as how:
            self._on_lost_job(cell, str(how))
        else:
            self.report(self.recorder.keep(outcome, node))

    def _on_lost_job(self, cell: Cell, how: str) -> None:
        """Tries the cell again after all others; `TRIES` times in all."""
        self.deaths[cell.id] += 1
        if (tries := self.deaths[cell.id]) < TRIES:
            _log.warning(
                "The worker of %s %s; the cell is tried again (%d of %d).",
                cell,
                how,
                tries + 1,
                TRIES,
            )
            self.waiting.append(cell)
            return
        message = f"{cell}: its worker {how} {tries} times, most often for want of memory; finished cells are kept."
        message += " Run again with fewer --workers."
        self.report(Done(cell, "failed", message=message, worker_died=True))


def make_portable(error: Exception) -> Exception:
    """An exception that survives the way to another process, with its traceback as a note where it is a bug."""
    if not isinstance(error, DpiclError):
        error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return RuntimeError("".join(traceback.format_exception(error)))
