"""Hands cells out to workers that may die, and keeps what comes back. This process alone has the results folder."""

from __future__ import annotations

import logging
import pickle
import time
import traceback
from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Protocol

from dpicl.core.cell import Cell
from dpicl.core.errors import DpiclError
from dpicl.core.interrupts import undisturbed
from dpicl.engines.worker import Done, Job, Outcome, Recorder, Report

_log = logging.getLogger(__name__)
#: How often a cell is tried whose worker dies.
TRIES = 3
POLL_SECONDS = 1.0


class WorkerLost(Exception):
    """A worker has died. The message says how, as in 'was killed (SIGKILL)'."""


class Pool(Protocol):
    """Workers. size: how many jobs run at once. portion: how many cells a job may have, at most."""

    size: int
    portion: int

    def submit(self, cells: Sequence[Cell]) -> Any:
        """Starts a job with cells of one model."""

    def wait(self, jobs: Collection[Any]) -> list[Any]:
        """The jobs that have ended; returns after `POLL_SECONDS` at most."""

    def outcomes(self, job: Any) -> tuple[str, list[Outcome]]:
        """(name of the other machine or "", how the cells ended). Raises WorkerLost, or what ended the worker."""

    def close(self) -> None:
        """Ends all workers, whatever they do."""


class Dispatcher:
    """One run of cells. running: job -> its cells, and their locks."""

    def __init__(self, pool: Pool, cells: Sequence[Cell], job: Job, report: Report, wait_for_locks: bool) -> None:
        self.pool, self.report, self.wait_for_locks = pool, report, wait_for_locks
        self.recorder = Recorder(job)
        self.waiting = deque(_portions(cells, min(pool.portion, max(1, len(cells) // (4 * pool.size)))))
        self.running: dict[Any, tuple[list[Cell], ExitStack]] = {}
        self.deaths: Counter[str] = Counter()  # by the cell's id

    def run(self) -> None:
        """Returns when every cell was reported. Raises what ends the run."""
        try:
            while self.waiting or self.running:
                for _ in range(len(self.waiting)):
                    if len(self.running) < self.pool.size:
                        self._submit(self.waiting.popleft())
                if not self.running:  # another run has the cells that are left
                    time.sleep(POLL_SECONDS)
                    continue
                for job in self.pool.wait(self.running):
                    cells, locks = self.running.pop(job)
                    with locks:
                        self._collect(job, cells)
        finally:
            with undisturbed():
                self.pool.close()
                for _, locks in self.running.values():
                    locks.close()

    def _submit(self, cells: Sequence[Cell]) -> None:
        taken, elsewhere, locks = [], [], ExitStack()
        for cell in cells:
            with ExitStack() as lock:
                over = lock.enter_context(self.recorder.taken(cell))
                if over is None:
                    taken.append(cell)
                    locks.enter_context(lock.pop_all())
                elif over.status == "busy" and self.wait_for_locks:
                    elsewhere.append(cell)
                else:
                    self.report(over)
        if elsewhere:
            self.waiting.append(elsewhere)
        if taken:
            self.running[self.pool.submit(taken)] = taken, locks

    def _collect(self, job: Any, cells: Sequence[Cell]) -> None:
        try:
            node, outcomes = self.pool.outcomes(job)
        except WorkerLost as how:
            self._on_lost_job(cells, str(how))
            return
        for outcome in outcomes:
            self.report(self.recorder.keep(outcome, node))

    def _on_lost_job(self, cells: Sequence[Cell], how: str) -> None:
        """Tries each cell again after all others, alone; `TRIES` times alone in all."""
        for cell in cells:
            self.deaths[cell.id] += len(cells) == 1
            if (tries := self.deaths[cell.id]) < TRIES:
                _log.warning("The worker of %s %s; the cell is tried again (%d of %d).", cell, how, tries + 1, TRIES)
                self.waiting.append([cell])
                continue
            message = f"{cell}: its worker {how} {tries} times, most often for want of memory; finished cells are kept."
            message += " Run again with fewer --workers."
            self.report(Done(cell, "failed", message=message, worker_died=True))


def _portions(cells: Sequence[Cell], size: int) -> Iterator[list[Cell]]:
    for model in dict.fromkeys(cell.model for cell in cells):
        own = [cell for cell in cells if cell.model == model]
        yield from (own[start : start + size] for start in range(0, len(own), size))


def make_portable(error: Exception) -> Exception:
    """An exception that survives the way to another process, with its traceback as a note where it is a bug."""
    if not isinstance(error, DpiclError):
        error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return RuntimeError("".join(traceback.format_exception(error)))
