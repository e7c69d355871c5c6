"""Cells in jobs of Slurm, by submitit: many cells a job, at most N jobs at once.

The jobs and this process share the results folder, whose locks expire when a job dies (dpicl.harness.core.leases). A
job ends before its time limit; what it has left goes to the next one. This process only submits, watches and counts:
when it is killed the jobs go on, and the same command later finds what they did.
"""

from __future__ import annotations

import logging
import math
import os
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dpicl.harness.core.cell import Cell
from dpicl.harness.core.errors import DpiclError, UsageError, told
from dpicl.harness.core.files import put_whole, unwritable
from dpicl.harness.core.interrupts import undisturbed
from dpicl.harness.core.messages import count
from dpicl.harness.run.attempts import Attempts, lost
from dpicl.harness.run.engine_settings import EngineSettings, refuse_secure
from dpicl.harness.run.store import Store
from dpicl.harness.run.worker import AT_ONCE, Done, Job, LocalWorker, Report, limit_threads, portions, run_portion

_log = logging.getLogger(__name__)
_JOBS, _CPUS, _MINUTES = 4, 2, 60
#: A job takes no more cells when less than this is left of its time (a tenth of it at most), besides what its longest
#: portion took.
_MARGIN_SECONDS = 60.0
_POLL_SECONDS = 2.0
_JOBS_FOLDER = ".jobs"
#: Jobs that may die one after the other without having begun a cell.
_FALSE_STARTS = 3


@dataclass(frozen=True)
class ShardEnd:
    """How the cells of a job ended; those that are not here are left over. error: what ends the run."""

    done: tuple[Done, ...]
    error: str = ""


@dataclass(frozen=True)
class Shard:
    """What a job does. seconds: its time limit. wait: whether it waits for a cell that a dead job has locked."""

    job: Job
    cells: tuple[Cell, ...]
    seconds: float
    wait: bool = False

    def __call__(self) -> ShardEnd:
        """Runs cells until there is none or the time is short; the first portion in any case."""
        longest, done = 0.0, list[Done]()
        end = time.monotonic() + self.seconds - min(_MARGIN_SECONDS, self.seconds / 10)
        limit_threads(self.job.threads)
        try:
            worker = LocalWorker(self.job)

            def attempt(cell: Cell) -> None:
                done.append(worker.attempt(cell, lambda event: None, self.wait))

            for several in portions(self.cells, most=AT_ONCE):
                began = time.monotonic()
                if done and began + longest > end:
                    break
                run_portion(several, attempt)
                longest = max(longest, time.monotonic() - began)
        except DpiclError as error:
            return ShardEnd(tuple(done), told(error))
        return ShardEnd(tuple(done))


@dataclass(frozen=True)
class Slurm:
    """Jobs of Slurm, `workers` at once."""

    workers: int = _JOBS
    settings: EngineSettings = field(default_factory=EngineSettings)

    @property
    def minutes(self) -> int:
        return self.settings.minutes or _MINUTES

    def run(self, cells: Sequence[Cell], job: Job, report: Report, *, wait_for_locks: bool = False) -> None:
        if not cells:
            return
        refuse_secure(cells)
        crew = _Crew(self, cells, job, report, wait_for_locks)
        try:
            crew.work()
        finally:
            with undisturbed():
                for shard in crew.running:
                    shard.cancel()

    def parameters(self) -> dict[str, Any]:
        """What every job asks for."""
        return {
            "timeout_min": self.minutes,
            "cpus_per_task": self.settings.cpus or _CPUS,
            "gpus_per_node": self.settings.gpus or 0,
            "name": "dpicl",
            **({"slurm_additional_parameters": dict(self.settings.sbatch)} if self.settings.sbatch else {}),
        }

    def plan(self, cells: Sequence[Cell]) -> list[int]:
        """How many cells the first jobs get."""
        share = math.ceil(len(cells) / self.workers)
        return [min(share, len(cells) - start) for start in range(0, len(cells), share)] if cells else []


def slurm_engine(workers: int | None, settings: EngineSettings) -> Slurm:
    """Raises UsageError where submitit is not installed."""
    if find_spec("submitit") is None:
        raise UsageError("submitit is not installed; run `pip install 'dpicl-bench[slurm]'`.")
    return Slurm(workers or _JOBS, settings)


@dataclass(eq=False)
class _Running:
    """A job that was submitted. cells: those that have not ended, by id."""

    handle: Any
    owner: str
    cells: dict[str, Cell]

    def cancel(self) -> None:
        try:
            self.handle.cancel()
        except Exception as error:  # scancel fails, or the job is over
            _log.warning("Job %s could not be cancelled: %s", self.handle.job_id, told(error, 200))


class _Crew:
    """The jobs of a run."""

    def __init__(self, engine: Slurm, cells: Sequence[Cell], job: Job, report: Report, wait: bool) -> None:
        self.engine, self.report, self.wait = engine, report, wait
        self.attempts = Attempts(cells)
        threads = engine.settings.cpus or _CPUS
        plugins = tuple(path.absolute() for path in job.plugins)
        self.job = replace(job, results=job.results.absolute(), plugins=plugins, threads=threads)
        self.store = Store(self.job.results, job.suite.name)
        self.running: list[_Running] = []
        self.false_starts = 0
        self.executor = _executor(engine, self.store.folder / _JOBS_FOLDER)

    def work(self) -> None:
        """Until every cell has ended."""
        while self.attempts or self.running:
            while self.attempts and len(self.running) < self.engine.workers:
                self._submit()
            for shard in list(self.running):
                if shard.handle.done():
                    self.running.remove(shard)
                    self._finish(shard)
                else:
                    self._look(shard)
            if self.running:
                time.sleep(_POLL_SECONDS)

    def _submit(self) -> None:
        free = self.engine.workers - len(self.running)
        cells = self.attempts.next(math.ceil(len(self.attempts) / free))
        owner = f"job-{uuid.uuid4().hex}"
        again = self.wait or any(self.attempts.tried(cell) for cell in cells)
        shard = Shard(replace(self.job, owner=owner), tuple(cells), self.engine.minutes * 60.0, again)
        try:
            handle = self.executor.submit(shard)
        except Exception as error:  # sbatch fails, or is not there
            raise UsageError(f"The job could not be submitted: {told(error, 500)}") from error
        _log.info("Job %s has %s.", handle.job_id, count(len(cells), "cell"))
        self.running.append(_Running(handle, owner, {cell.id: cell for cell in cells}))

    def _finish(self, shard: _Running) -> None:
        """What a job that is over has left: cells that wait again, and those that it was at when it died."""
        try:
            end: ShardEnd = shard.handle.result()
        except Exception as error:
            if shard.handle.exception() is None:
                raise
            self._bury(shard, error)
            return
        self.false_starts = 0
        for done in end.done:
            if done.cell.id in shard.cells:
                del shard.cells[done.cell.id]
                self.report(done)
        if end.error:
            raise UsageError(end.error)
        self.attempts.give_back(list(shard.cells.values()))

    def _bury(self, shard: _Running, error: Exception) -> None:
        """The job died. Raises its error where it was no death but a bug."""
        from submitit.core.utils import FailedJobError

        self._look(shard)
        if isinstance(error, FailedJobError):
            raise error
        begun = {cell for cell, owner in self.store.locked().items() if owner == shard.owner} & shard.cells.keys()
        self.false_starts = 0 if begun else self.false_starts + 1
        if self.false_starts >= _FALSE_STARTS:
            raise DpiclError(
                f"{count(self.false_starts, 'job')} died before they began a cell; their logs are in"
                f" {self.store.folder / _JOBS_FOLDER}. Finished cells are kept."
            )
        for cell in (shard.cells.pop(id) for id in sorted(begun)):
            if message := self.attempts.lost(cell, f"in job {shard.handle.job_id} was lost ({shard.handle.state})"):
                self.report(lost(cell, message))
        self.attempts.give_back(list(shard.cells.values()))

    def _look(self, shard: _Running) -> None:
        """What a job has written so far."""
        for cell in list(shard.cells.values()):
            if self.store.path(cell).exists() and (result := self.store.read(cell)) is not None:
                del shard.cells[cell.id]
                seconds = 0.0 if cell.secure else sum(result.cost.seconds.values())
                self.report(Done(cell, "done", seconds, score=result.scores[result.main_metric].value))


def _executor(engine: Slurm, folder: Path) -> Any:
    """What submits jobs. folder: for their pickled arguments, answers and logs."""
    os.environ.setdefault("SUBMITIT_LOG_LEVEL", "NOCONFIG")  # else it writes to stdout
    from submitit import AutoExecutor

    try:
        put_whole(folder / ".gitignore", "*\n", synced=False)
    except OSError as error:
        raise unwritable(folder, error) from error
    scheduler = engine.settings.scheduler or "slurm"
    try:
        executor = AutoExecutor(folder=folder / "%j", cluster=scheduler)
        executor.update_parameters(**engine.parameters())
    except (RuntimeError, TypeError, ValueError, NameError) as error:
        raise UsageError(f"Slurm cannot be used here: {told(error, 500)}") from error
    return executor
