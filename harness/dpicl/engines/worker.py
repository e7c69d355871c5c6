"""The worker of every engine: runs cells one after the other, and keeps tasks and models loaded between them.

A cell has two halves. `Worker.compute` runs it and touches no results folder, so it may happen on any machine.
`Recorder` is beside the results folder: it takes the cell's lock, looks whether the cell is finished already, and
writes what came out. So any number of runs may share a results folder. An error ends its cell only; one of the results
folder, which is the same for all cells, ends the run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from dpicl.core.cell import Cell
from dpicl.core.errors import DataError, DpiclError, ResultError, one_line, place_of
from dpicl.mechanism.registry import load_mechanisms
from dpicl.results.fingerprints import Fingerprints
from dpicl.results.schema import Result, SuiteReference
from dpicl.results.store import Store
from dpicl.run.pipeline import run_cell, score_release
from dpicl.run.workbench import OtherRelease, Skipped, Workbench

Status = Literal["done", "present", "busy", "skipped", "failed"]


@dataclass(frozen=True)
class CellProgress:
    """A cell has come so far: `done` of `total` units."""

    cell: Cell
    done: int
    total: int
    unit: str


@dataclass(frozen=True)
class Done:
    """A cell is over.

    message: the error or the reason of a skip. busy: another run has its lock. worker_died: why it failed.
    failures: as in its result.
    """

    cell: Cell
    status: Status
    seconds: float = 0.0
    message: str = ""
    score: float | None = None
    worker_died: bool = False
    failures: Mapping[str, int] = field(default_factory=dict)


Report = Callable[[CellProgress | Done], None]


@dataclass(frozen=True)
class Job:
    """What every worker must know. threads: for each worker's arithmetic; 0 leaves the library's default. releases: id
    of a cell -> the result whose release it scores; other cells make their own. scores_only: whether none is made where
    that release turns out to be another one."""

    suite: SuiteReference
    results: Path
    plugins: tuple[Path, ...] = ()
    threads: int = 0
    releases: Mapping[str, Result] = field(default_factory=dict, repr=False, hash=False)
    scores_only: bool = False


@dataclass(frozen=True)
class Outcome:
    """How a cell ended that was run, and its result, which is not written yet. fingerprint: of the records that it
    read; it tells neighbouring sets apart and is shown to nobody."""

    done: Done
    result: Result | None = None
    fingerprint: str = field(default="", repr=False)


class Worker:
    """Runs one cell after the other in one process, keeping tasks and models between them."""

    def __init__(self, job: Job) -> None:
        self.job, self.bench = job, Workbench(load_mechanisms(job.plugins))

    def compute(self, cell: Cell, report: Report) -> Outcome:
        """Runs a cell. Reads and writes no results folder."""
        start = time.perf_counter()
        try:
            result = self._make_result(cell, lambda *how: report(CellProgress(cell, *how)))
            score, failures = result.score, result.failures or {}
            done = Done(cell, "done", time.perf_counter() - start, score=score, failures=failures)
            return Outcome(done, result, self.bench.task(cell).fingerprint)
        except Skipped as reason:
            return Outcome(Done(cell, "skipped", message=str(reason)))
        except ResultError:
            raise  # the folder is the same for every cell
        except DpiclError as error:
            return Outcome(
                Done(cell, "failed", time.perf_counter() - start, message=one_line(error))
            )
        except Exception as error:
            # of code that a task or a model brings, or a bug: the other cells go on
            return Outcome(
                Done(cell, "failed", time.perf_counter() - start, message=unknown_failure(error))
            )

    def _make_result(self, cell: Cell, report: Callable[[int, int, str], None]) -> Result:
        scored = self.job.releases.get(cell.id)
        try:
            if scored is not None:
                return score_release(cell, scored, self.job.suite, self.bench, report)
        except OtherRelease as reason:
            if self.job.scores_only:
                raise Skipped(str(reason)) from None
        return run_cell(cell, self.job.suite, self.bench, report)


class Recorder:
    """Beside the results folder: what is finished, who is at what, and what came out."""

    def __init__(self, job: Job) -> None:
        self.store, self.records = Store(job.results, job.suite.name), Fingerprints()

    @contextmanager
    def take(self, cell: Cell) -> Iterator[Done | None]:
        """Holds a cell that is to be run; yields how it ended where there is nothing to do or another run has it."""
        with self.store.lock(cell.id) as mine:
            yield self._find_present(cell) if mine else Done(cell, "busy")

    def keep(self, outcome: Outcome, node: str = "") -> Done:
        """Writes what came out, while the cell is held. node: the other machine that has run it; where it has read
        other records than there are here, nothing is written, and the cell has failed."""
        done, result = outcome.done, outcome.result
        try:
            if result is None:
                return done
            if node and self.records.find_at_hand(done.cell).fingerprint != outcome.fingerprint:
                raise DataError(
                    f"Node {node} has different records of {done.cell.task} than this machine, so its result was"
                    " discarded; give every node the same records under the same DPICL_DATA."
                )
            return done if self.store.write(result) else Done(done.cell, "present")
        except ResultError:
            raise  # the folder is the same for every cell
        except DpiclError as error:
            return replace(done, status="failed", score=None, message=one_line(error))

    def _find_present(self, cell: Cell) -> Done | None:
        """How the cell ended in another run, None where it is to be done."""
        result = self.store.read(cell)
        if result is None:
            return None
        try:
            if reason := self.records.difference(result):
                raise DataError(
                    "Another run has just written this result, computed on different data (fingerprint mismatch:"
                    f" {reason}); give each set of records a --results folder of its own."
                )
        except ResultError:
            raise
        except DpiclError as error:
            return Done(cell, "failed", message=one_line(error))
        return Done(cell, "present")


def unknown_failure(error: Exception) -> str:
    """One sentence on an unexpected error, and where it was raised."""
    return (
        f"{type(error).__name__}: {one_line(error, 300)} ({place_of(error)}); where this"
        " is not code of your own (functions of a task, a model), please report it."
    )


def limit_threads(threads: int) -> None:
    """Threads for arithmetic in this process; 0 changes nothing. Works best before torch is loaded."""
    if not threads:
        return
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
    import torch

    torch.set_num_threads(threads)
