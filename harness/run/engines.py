"""Who runs the cells: this process, local worker processes, or Ray.

An engine takes cells and a `Job`, and calls back with `CellProgress` and `Done`. Every worker does the same: take its
lock, look whether the cell is finished already, run it, write it. So any number of runs may share a results folder. An
error ends its cell only; one of the results folder, which is the same for all cells, ends the run.
"""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, Protocol

from dpicl.harness.core.cell import Cell
from dpicl.harness.core.errors import DataError, DpiclError, ResultError, UsageError, told, unknown
from dpicl.harness.core.together import clock, together
from dpicl.harness.mechanism.registry import load_mechanisms
from dpicl.harness.run.fingerprints import Fingerprints, noted
from dpicl.harness.run.manifest import cores
from dpicl.harness.run.pipeline import Skipped, run_cell
from dpicl.harness.run.results import Result, SuiteReference
from dpicl.harness.run.store import Store
from dpicl.harness.run.workbench import Workbench
from dpicl.harness.run.worker_process import Attempts, WorkerProcess, die_with_parent, portable, speaking

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

    message: the error or the reason of a skip. busy: another run has its lock. seconds: 0 with secure noise, where they
    depend on the records. worker_died: why it failed.
    """

    cell: Cell
    status: Status
    seconds: float = 0.0
    message: str = ""
    score: float | None = None
    worker_died: bool = False


Report = Callable[[CellProgress | Done], None]


@dataclass(frozen=True)
class Job:
    """What every worker must know. threads: for each worker's arithmetic; 0 leaves the library's default. reveal:
    whether secure noise may come with an infinite epsilon. total_epsilon: of all releases of a private set."""

    suite: SuiteReference
    results: Path
    plugins: tuple[Path, ...] = ()
    threads: int = 0
    reveal: bool = False
    total_epsilon: float | None = None


class Engine(Protocol):
    """Runs cells in any order and reports each of them once with `Done`."""

    def run(self, cells: Sequence[Cell], job: Job, report: Report, *, wait_for_locks: bool = False) -> None: ...


@dataclass
class Worker:
    """Runs one cell after the other in one process, keeping tasks and models between them."""

    job: Job
    bench: Workbench = field(init=False)
    store: Store = field(init=False)
    records: Fingerprints = field(default_factory=Fingerprints)

    def __post_init__(self) -> None:
        self.bench = Workbench(
            load_mechanisms(self.job.plugins), reveal=self.job.reveal, total_epsilon=self.job.total_epsilon
        )
        self.store = Store(self.job.results, self.job.suite.name)

    def attempt(self, cell: Cell, report: Report, wait_for_lock: bool = False) -> Done:
        """Runs a cell that no other worker has finished or is running."""
        with self.store.lock(cell, wait=wait_for_lock) as mine:
            if not mine:
                return Done(cell, "busy")
            start = clock()

            def spent() -> float:
                return 0.0 if cell.secure else clock() - start

            try:
                if self._there(cell):
                    return Done(cell, "present")
                result = self._run(cell, report)
            except Skipped as reason:
                return Done(cell, "skipped", message=str(reason))
            except ResultError:
                raise  # the folder is the same for every cell
            except DpiclError as error:
                return Done(cell, "failed", spent(), message=told(error))
            except Exception as error:  # of code that a task or a model brings, or a bug: the other cells go on
                return Done(cell, "failed", spent(), message=unknown_failure(error, cell.secure))
            score = result.scores[result.main_metric].value
            return Done(cell, "done", spent(), score=score)

    def _there(self, cell: Cell) -> bool:
        """Whether another run has finished the cell. Raises DataError where that was with other records."""
        found = self.store.read(cell)
        if found is not None and (reason := self.records.difference(found)):
            raise DataError(
                f"Another run has just written this result from other records ({reason}); give each set of records a"
                " --results folder of its own."
            )
        return found is not None

    def _run(self, cell: Cell, report: Report) -> Result:
        result = run_cell(
            cell, self.job.suite, self.bench, lambda done, total, unit: report(CellProgress(cell, done, total, unit))
        )
        if cell.secure:
            result = noted(result, self.bench.task(cell))
        self.store.write(result)
        return result


def unknown_failure(error: Exception, secure: bool) -> str:
    """One sentence on an error that is none of ours, and where it was raised. secure: without what it says, which may
    quote a record."""
    *_, last = traceback.extract_tb(error.__traceback__)
    said = type(error).__name__ if secure else f"{type(error).__name__}: {told(error, 300)}"
    return (
        f"{said} ({Path(last.filename).name}, line {last.lineno}); where this is no code of your own (functions of a"
        " task, a model), please report it."
    )


class Inline:
    """All cells in this process: several of one model at the same time, so that it reads full passes."""

    def run(self, cells: Sequence[Cell], job: Job, report: Report, *, wait_for_locks: bool = False) -> None:
        worker = Worker(job)

        def attempt(cell: Cell) -> None:
            report(worker.attempt(cell, report, wait_for_locks))

        for several in _at_the_same_time(cells, wait_for_locks):
            if several[0].secure:
                attempt(several[0])
            else:
                together([partial(attempt, cell) for cell in several], AT_ONCE)


#: Cells of a process that run at the same time, at most. Each holds its records, and what it has read.
AT_ONCE = 8


def _at_the_same_time(cells: Sequence[Cell], one_by_one: bool) -> Iterator[Sequence[Cell]]:
    """The cells in portions that may run together: those of one model. Alone runs a cell with secure noise, which must
    not print, and one whose lock is waited for."""
    for key, group in groupby(cells, key=lambda cell: (cell.model, cell.secure)):
        several = list(group)
        if one_by_one or key[1]:
            yield from ([cell] for cell in several)
        else:
            yield several


@dataclass(frozen=True)
class Local:
    """Worker processes on this machine, started afresh (spawn); the processor's cores are divided between them.

    A worker that is killed costs its cell one more try, by a worker that takes its place (`Attempts`).
    """

    workers: int

    def run(self, cells: Sequence[Cell], job: Job, report: Report, *, wait_for_locks: bool = False) -> None:
        workers = min(self.workers, len(cells))
        job = replace(job, threads=max(1, cores() // max(1, workers)))
        attempts = Attempts(cells)
        running: dict[Connection, WorkerProcess] = {}
        try:
            while attempts.waiting or running:
                while attempts.waiting and len(running) < workers:
                    worker = WorkerProcess(_work, job, wait_for_locks)
                    running[worker.pipe] = worker
                    worker.start(attempts.next())
                for worker in speaking(running):
                    cell = worker.item
                    event = worker.heard()
                    if event is None:
                        del running[worker.pipe]
                        if message := attempts.lost(cell, worker.end()):
                            report(_lost(cell, message))
                        continue
                    report(event)
                    if isinstance(event, Done) and attempts.waiting:
                        worker.take(attempts.next())
                    elif isinstance(event, Done):
                        worker.dismiss()
                        del running[worker.pipe]
        finally:
            for worker in running.values():
                worker.kill()


def _lost(cell: Cell, message: str) -> Done:
    return Done(cell, "failed", message=message, worker_died=True)


def _work(pipe: Connection, job: Job, wait_for_locks: bool) -> None:
    """A worker process: runs the cells that it receives, until it receives None."""
    threading.Thread(target=die_with_parent, daemon=True).start()
    try:
        limit_threads(job.threads)  # before torch is used
        worker = Worker(job)
        while (cell := pipe.recv()) is not None:
            pipe.send(worker.attempt(cell, pipe.send, wait_for_locks))
    except Exception as error:
        pipe.send(portable(error))


def limit_threads(threads: int) -> None:
    """Threads for arithmetic in this process; 0 changes nothing. Works best before torch is loaded."""
    if not threads:
        return
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
    import torch

    torch.set_num_threads(threads)


@dataclass(frozen=True)
class Ray:
    """Actors on a Ray cluster, or on a local one that is started here.

    All nodes must see the results folder, the data and the plugin files under the same paths.
    """

    workers: int

    def run(self, cells: Sequence[Cell], job: Job, report: Report, *, wait_for_locks: bool = False) -> None:
        ray = _import_ray()
        ray.init(ignore_reinit_error=True, log_to_driver=False)
        gpus = 1 if ray.cluster_resources().get("GPU", 0) else 0
        threads = max(1, cores() // max(1, self.workers))
        remote = ray.remote(num_cpus=threads, num_gpus=gpus)(_RayWorker)
        plugins = tuple(path.resolve() for path in job.plugins)
        job = replace(job, results=job.results.resolve(), plugins=plugins, threads=threads)
        attempts = Attempts(cells)
        running: dict[Any, tuple[Any, Cell]] = {}

        def give(actor: Any) -> None:
            cell = attempts.next()
            running[actor.attempt.remote(cell, wait_for_locks)] = actor, cell

        for _ in range(min(self.workers, len(cells))):
            give(remote.remote(job))
        while running:
            (reference, *_), _ = ray.wait(list(running), num_returns=1)
            actor, cell = running.pop(reference)
            try:
                report(ray.get(reference))
            except (ray.exceptions.RayActorError, ray.exceptions.OutOfMemoryError):
                actor = remote.remote(job)  # as a killed process: another actor takes its place
                if message := attempts.lost(cell, "was lost"):
                    report(_lost(cell, message))
            if attempts.waiting:
                give(actor)


class _RayWorker:
    """A worker that lives in a Ray actor; it reports whole cells only."""

    def __init__(self, job: Job) -> None:
        limit_threads(job.threads)
        self._worker = Worker(job)

    def attempt(self, cell: Cell, wait_for_lock: bool) -> Done:
        return self._worker.attempt(cell, lambda event: None, wait_for_lock)


def _import_ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError:
        raise UsageError("Ray is not installed; run `pip install 'dpicl-bench[ray]'` or use --engine local.") from None
    return ray


def work(
    engine: Engine, cells: Sequence[Cell], job: Job, report: Report, waiting: Callable[[int], None] = lambda cells: None
) -> list[Done]:
    """How every cell ended, in that order. Cells that another run has locked are waited for, at the end.

    waiting: called with their number before that.
    """
    finished: list[Done] = []

    def note(event: CellProgress | Done) -> None:
        report(event)
        if isinstance(event, Done):
            finished.append(event)

    engine.run(cells, job, note)
    if busy := [done.cell for done in finished if done.status == "busy"]:
        waiting(len(busy))
        engine.run(busy, job, note, wait_for_locks=True)
    return [done for done in finished if done.status != "busy"]


def make_engine(name: str, workers: int | None) -> Engine:
    """The engine of a name; workers: None means one worker for two cores (local, Ray)."""
    if name == "inline":
        if workers not in (None, 1):
            raise UsageError("--workers needs --engine local or ray: the engine 'inline' is one process.")
        return Inline()
    count = workers or max(1, cores() // 2)
    if name == "local":
        return Local(count)
    if name == "ray":
        _import_ray()
        return Ray(count)
    raise unknown("engine", name, ("inline", "local", "ray"))
