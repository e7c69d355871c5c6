"""Who does the cells: this process, local worker processes, or Ray.

An engine takes cells and a `Job`, and calls back with `Step` and `Done`. Every worker does the same: take the cell's
lock, look whether the cell is finished already, run it, write it. So any number of runs may share a results folder. An
error that a user can mend ends its cell only; a bug ends the run.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any, Literal, Protocol

from harness.cells import Cell
from harness.errors import DataError, DpiclError, ResultError, UsageError, unknown
from harness.fingerprints import Fingerprints, noted
from harness.manifest import cores
from harness.registry import load_mechanisms
from harness.results import Result, SuiteReference
from harness.runner import Skipped, Workbench, run_cell
from harness.store import Store

Status = Literal["done", "present", "busy", "skipped", "failed"]

_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Step:
    """A cell has come so far: `done` of `total` units."""

    cell: Cell
    done: int
    total: int
    unit: str


@dataclass(frozen=True)
class Done:
    """A cell is over. message: the error or the reason of a skip. busy: another run has its lock.

    seconds: 0 with secure noise, where they depend on the records.
    """

    cell: Cell
    status: Status
    seconds: float = 0.0
    message: str = ""
    score: float | None = None


Report = Callable[[Step | Done], None]


@dataclass(frozen=True)
class Job:
    """What every worker must know. threads: for each worker's arithmetic; 0 leaves the library's default. reveal:
    whether secure noise may come with an infinite epsilon."""

    suite: SuiteReference
    results: Path
    plugins: tuple[Path, ...] = ()
    threads: int = 0
    reveal: bool = False


class Engine(Protocol):
    """Does cells in any order and reports each of them once with `Done`."""

    def run(self, cells: Sequence[Cell], job: Job, report: Report, *, wait_for_locks: bool = False) -> None: ...


@dataclass
class Worker:
    """Does one cell after the other in one process, keeping tasks and models between them."""

    job: Job
    bench: Workbench = field(init=False)
    store: Store = field(init=False)
    records: Fingerprints = field(default_factory=Fingerprints)

    def __post_init__(self) -> None:
        self.bench = Workbench(load_mechanisms(self.job.plugins), reveal=self.job.reveal)
        self.store = Store(self.job.results, self.job.suite.name)

    def attempt(self, cell: Cell, report: Report, wait_for_lock: bool = False) -> Done:
        """Runs a cell that nobody else has finished or is at work on."""
        with self.store.lock(cell, wait=wait_for_lock) as mine:
            if not mine:
                return Done(cell, "busy")
            start = time.perf_counter()

            def spent() -> float:
                return 0.0 if cell.secure else time.perf_counter() - start

            try:
                if self._there(cell):
                    return Done(cell, "present")
                result = self._run(cell, report)
            except Skipped as reason:
                return Done(cell, "skipped", message=str(reason))
            except ResultError:
                raise  # the folder is the same for every cell
            except DpiclError as error:
                return Done(cell, "failed", spent(), message=str(error))
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
            cell,
            self.job.suite,
            self.bench,
            lambda done, total, unit: report(Step(cell, done, total, unit)),
        )
        if cell.secure:
            result = noted(result, self.bench.task(cell))
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
    """Worker processes on this machine, started afresh (spawn); the processor's cores are divided between them."""

    workers: int

    def run(self, cells: Sequence[Cell], job: Job, report: Report, *, wait_for_locks: bool = False) -> None:
        context = multiprocessing.get_context("spawn")
        steps: Queue[Step] = context.Queue()
        workers = min(self.workers, len(cells))
        job = replace(job, threads=max(1, cores() // max(1, workers)))
        if not cells:
            return
        with ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=(job, steps)) as pool:
            futures = {pool.submit(_attempt, cell, wait_for_locks) for cell in cells}
            try:
                _collect(futures, steps, report)
            except BrokenProcessPool as error:
                raise ResultError(
                    "A worker process was killed, most often for want of memory; finished cells are kept."
                    " Run again with fewer --workers."
                ) from error
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for process in multiprocessing.active_children():
                    process.terminate()
                raise


def _collect(futures: set[Future[Done]], steps: Queue[Step], report: Report) -> None:
    while futures:
        finished, futures = wait(futures, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
        for step in _drained(steps):
            report(step)
        for future in finished:
            report(future.result())


def _drained(steps: Queue[Step]) -> Iterable[Step]:
    while True:
        try:
            yield steps.get_nowait()
        except queue.Empty:
            return


#: The one worker of a worker process and the way its steps go; set once by `_start_worker`.
_here: list[tuple[Worker, Queue[Step]]] = []


def _start_worker(job: Job, steps: Queue[Step]) -> None:
    """Runs first in every worker process, before torch is loaded."""
    limit_threads(job.threads)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    _here.append((Worker(job), steps))


def _attempt(cell: Cell, wait_for_lock: bool) -> Done:
    worker, steps = _here[0]
    return worker.attempt(cell, lambda event: steps.put(event) if isinstance(event, Step) else None, wait_for_lock)


def _die_with_parent() -> None:
    """Ends this worker when its parent dies: nobody would take its answer, and it would hold locks for nothing."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


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
        waiting = list(cells)
        actors = [remote.remote(job) for _ in range(min(self.workers, len(waiting)))]
        running = {actor.attempt.remote(waiting.pop(0), wait_for_locks): actor for actor in actors}
        while running:
            finished, _ = ray.wait(list(running), num_returns=1)
            for reference in finished:
                actor = running.pop(reference)
                report(ray.get(reference))
                if waiting:
                    running[actor.attempt.remote(waiting.pop(0), wait_for_locks)] = actor


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
