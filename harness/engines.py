"""Who does the cells: this process, local worker processes, or Ray.

An engine takes cells and a `Job`, and calls back with `Step` and `Done`. Every worker does the same: take the cell's
lock, look whether the cell is finished already, run it, write it. So any number of runs may share a results folder. An
error that a user can mend ends its cell only; a bug ends the run.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, Protocol

from harness.cells import Cell
from harness.errors import DpiclError, ResultError, UsageError, unknown
from harness.manifest import cores
from harness.registry import load_mechanisms
from harness.results import Result, SuiteReference
from harness.runner import Skipped, Workbench, run_cell
from harness.store import Store
from harness.worker_process import WorkerProcess, die_with_parent, portable, speaking

Status = Literal["done", "present", "busy", "skipped", "failed"]

#: How often a cell is tried whose worker dies.
TRIES = 3
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Step:
    """A cell has come so far: `done` of `total` units."""

    cell: Cell
    done: int
    total: int
    unit: str


@dataclass(frozen=True)
class Done:
    """A cell is over.

    message: the error or the reason of a skip. busy: another run has its lock. worker_died: why it failed.
    """

    cell: Cell
    status: Status
    seconds: float = 0.0
    message: str = ""
    score: float | None = None
    worker_died: bool = False


Report = Callable[[Step | Done], None]


@dataclass(frozen=True)
class Job:
    """What every worker must know. threads: for each worker's arithmetic; 0 leaves the library's default."""

    suite: SuiteReference
    results: Path
    plugins: tuple[Path, ...] = ()
    threads: int = 0


class Engine(Protocol):
    """Does cells in any order and reports each of them once with `Done`."""

    def run(self, cells: Sequence[Cell], job: Job, report: Report, *, wait_for_locks: bool = False) -> None: ...


@dataclass
class Worker:
    """Does one cell after the other in one process, keeping tasks and models between them."""

    job: Job
    bench: Workbench = field(init=False)
    store: Store = field(init=False)

    def __post_init__(self) -> None:
        self.bench = Workbench(load_mechanisms(self.job.plugins))
        self.store = Store(self.job.results, self.job.suite.name)

    def attempt(self, cell: Cell, report: Report, wait_for_lock: bool = False) -> Done:
        """Runs a cell that nobody else has finished or is at work on."""
        with self.store.lock(cell, wait=wait_for_lock) as mine:
            if not mine:
                return Done(cell, "busy")
            if self.store.holds(cell):
                return Done(cell, "present")
            start = time.perf_counter()
            try:
                result = self._run(cell, report)
            except Skipped as reason:
                return Done(cell, "skipped", message=str(reason))
            except ResultError:
                raise  # the folder is the same for every cell
            except DpiclError as error:
                return Done(cell, "failed", time.perf_counter() - start, message=str(error))
            score = result.scores[result.main_metric].value
            return Done(cell, "done", time.perf_counter() - start, score=score)

    def _run(self, cell: Cell, report: Report) -> Result:
        result = run_cell(
            cell, self.job.suite, self.bench, lambda done, total, unit: report(Step(cell, done, total, unit))
        )
        self.store.write(result)
        return result


class Inline:
    """All cells in this process, one after the other."""

    def run(self, cells: Sequence[Cell], job: Job, report: Report, *, wait_for_locks: bool = False) -> None:
        worker = Worker(job)
        for cell in cells:
            report(worker.attempt(cell, report, wait_for_locks))


@dataclass(frozen=True)
class Local:
    """Worker processes on this machine, started afresh (spawn); the processor's cores are divided between them.

    A worker that is killed costs its cell one more try, by a worker that takes its place (`_Attempts`).
    """

    workers: int

    def run(self, cells: Sequence[Cell], job: Job, report: Report, *, wait_for_locks: bool = False) -> None:
        workers = min(self.workers, len(cells))
        job = Job(job.suite, job.results, job.plugins, threads=max(1, cores() // max(1, workers)))
        attempts = _Attempts(cells)
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
                        lost = attempts.lost(cell, worker.end())
                        if lost is not None:
                            report(lost)
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


class _Attempts:
    """The cells that wait for a worker. One whose worker died is tried again after all others, `TRIES` times in all."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.waiting = deque(cells)
        self._deaths: Counter[str] = Counter()

    def next(self) -> Cell:
        return self.waiting.popleft()

    def lost(self, cell: Cell, how: str) -> Done | None:
        """The worker of a cell has died. Returns what to report where it is given up."""
        self._deaths[cell.id] += 1
        tries = self._deaths[cell.id]
        if tries < TRIES:
            _log.warning("The worker of %s %s; the cell is tried again (%d of %d).", cell, how, tries + 1, TRIES)
            self.waiting.append(cell)
            return None
        message = (
            f"{cell}: its worker {how} {tries} times, most often for want of memory; finished cells are kept. Run again"
            " with fewer --workers."
        )
        return Done(cell, "failed", message=message, worker_died=True)


def _work(pipe: Connection, job: Job, wait_for_locks: bool) -> None:
    """A worker process: does the cells that come, until none does."""
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
        job = Job(job.suite, job.results.resolve(), tuple(path.resolve() for path in job.plugins), threads)
        attempts = _Attempts(cells)
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
                done = ray.get(reference)
            except (ray.exceptions.RayActorError, ray.exceptions.OutOfMemoryError):
                actor = remote.remote(job)  # as a killed process: another actor takes its place
                done = attempts.lost(cell, "was lost")
            if done is not None:
                report(done)
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
