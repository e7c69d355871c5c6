"""Distributes cells to workers that may die, and saves the results; only this process writes to the results folder."""

from __future__ import annotations

import logging
import pickle
import traceback
from collections import Counter, deque
from collections.abc import Collection, Generator, Sequence
from contextlib import ExitStack, closing
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


def run_cells(
    cells: Sequence[Cell],
    pool: Pool,
    recorder: Recorder,
) -> Generator[Done, None, None]:
    """How every cell ended, as it ends, while its lock is held. One whose worker dies is tried again after all others,
    `TRIES` times in all. Raises what ends the run."""
    waiting = deque(cells)
    running: dict[Any, tuple[Cell, ExitStack]] = {}
    deaths = Counter[str]()  # by the cell's id
    try:
        while waiting or running:
            while waiting and len(running) < pool.size:
                cell = waiting.popleft()
                with ExitStack() as lock:
                    over = lock.enter_context(recorder.take(cell))
                    if over is None:
                        running[pool.submit(cell)] = cell, lock.pop_all()
                    else:
                        yield over
            for job in pool.wait(running) if running else ():
                cell, lock = running.pop(job)
                with lock:
                    try:
                        node, outcome = pool.outcome(job)
                    except WorkerLost as how:
                        deaths[cell.id] += 1
                        if deaths[cell.id] < TRIES:
                            _log.warning(
                                "The worker of %s %s; the cell is tried again (%d of %d).",
                                cell,
                                how,
                                deaths[cell.id] + 1,
                                TRIES,
                            )
                            waiting.append(cell)
                        else:
                            yield _give_up(cell, how)
                    else:
                        yield recorder.keep(outcome, node)
    finally:
        with ignore_interrupts():
            pool.close()
            for _, lock in running.values():
                lock.close()


def report_cells(cells: Sequence[Cell], pool: Pool, job: Job, report: Report) -> None:
    """Runs cells in a pool, and reports how each of them ended."""
    with closing(run_cells(cells, pool, Recorder(job))) as ended:
        for done in ended:
            report(done)


def _give_up(cell: Cell, how: WorkerLost) -> Done:
    message = (
        f"{cell}: its worker {how} {TRIES} times, most often for want of memory; finished cells are kept. Run again"
        " with fewer --workers."
    )
    return Done(cell, "failed", message=message, worker_died=True)


def make_portable(error: Exception) -> Exception:
    """An exception that survives the way to another process, with its traceback as a note where it is a bug."""
    if not isinstance(error, DpiclError):
        error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return RuntimeError("".join(traceback.format_exception(error)))
