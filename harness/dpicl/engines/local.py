"""Who runs the cells: this process, worker processes on this machine, or a Ray cluster.

An engine takes cells and a `Job`, and calls back with `CellProgress` and `Done`. What its workers do is in
dpicl.engines.worker.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol

import psutil
from tqdm.std import tqdm

from dpicl.core.cell import Cell
from dpicl.core.errors import UsageError, unknown
from dpicl.core.interrupts import undisturbed
from dpicl.core.messages import count
from dpicl.core.together import together
from dpicl.engines.attempts import Attempts, lost
from dpicl.engines.ray_engine import ray_engine
from dpicl.engines.settings import ENGINES, EngineSettings
from dpicl.engines.worker import AT_ONCE, Done, Job, LocalWorker, Report, limit_threads, portions
from dpicl.engines.worker_process import WorkerProcess, die_with_parent, make_portable, wait_for_workers
from dpicl.results.manifest import cores

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 1.0
_CGROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
#: Memory is short where less than this share of it, or less than these bytes, is left.
_SHARE, _BYTES = 0.05, 512 * 2**20


class Engine(Protocol):
    """Runs cells in any order and reports each of them once with `Done`."""

    def run(self, cells: Sequence[Cell], job: Job, report: Report, *, wait_for_locks: bool = False) -> None: ...


class Inline:
    """All cells in this process: several of one model at the same time, so that it reads full passes."""

    def run(self, cells: Sequence[Cell], job: Job, report: Report, *, wait_for_locks: bool = False) -> None:
        worker = LocalWorker(job)
        for several in portions(cells, most=1 if wait_for_locks else None):
            calls = [partial(worker.attempt, cell, report, wait_for_locks) for cell in several]
            together(calls, AT_ONCE) if len(calls) > 1 else calls[0]()


@dataclass(frozen=True)
class Local:
    """Worker processes on this machine, started afresh (spawn); the processor's cores are divided between them.

    A worker that is killed costs its cell one more try, by a worker that takes its place (`Attempts`). Where memory
    becomes short, the largest of several workers is stopped, and one fewer goes on.
    """

    workers: int

    def run(self, cells: Sequence[Cell], job: Job, report: Report, *, wait_for_locks: bool = False) -> None:
        crew = _Crew(min(self.workers, len(cells)), Attempts(cells), report)
        job = replace(job, threads=max(1, cores() // max(1, crew.size)))
        try:
            while crew.attempts or crew.running:
                while crew.attempts and len(crew.running) < crew.size:
                    crew.start(WorkerProcess(_work, job, wait_for_locks))
                for worker in wait_for_workers(crew.running):
                    crew.hear(worker)
                crew.watch_memory()
        finally:
            with undisturbed():
                for worker in crew.running.values():
                    worker.kill()


@dataclass
class _Crew:
    """The worker processes of a run. size: how many may be at work. models: by pipe, what each has loaded.
    looked: when it looked after the memory."""

    size: int
    attempts: Attempts
    report: Report
    running: dict[Connection, WorkerProcess] = field(default_factory=dict)
    models: dict[Connection, str] = field(default_factory=dict)
    looked: float = 0.0

    def start(self, worker: WorkerProcess) -> None:
        cell = self.attempts.next(busy=self.models.values())
        self.running[worker.pipe] = worker
        self.models[worker.pipe] = cell.model
        worker.start(cell)

    def hear(self, worker: WorkerProcess) -> None:
        """What a worker says, or that it has died. Raises the exception that ended it."""
        event = worker.heard()
        if event is None:
            self._lose(worker, worker.end())
            return
        self.report(event)
        if not isinstance(event, Done):
            return
        if self.attempts and len(self.running) <= self.size:
            model = self.models.pop(worker.pipe)
            cell = self.attempts.next(loaded=model, busy=self.models.values())
            self.models[worker.pipe] = cell.model
            worker.take(cell)
        else:
            worker.dismiss()
            self._forget(worker)

    def watch_memory(self) -> None:
        """Stops the largest of several workers before the OOM killer does. Memory is looked at once a second, however
        much workers say."""
        now = time.monotonic()
        if len(self.running) < 2 or now - self.looked < _LOOK_SECONDS:
            return
        self.looked = now
        if not (short := shortage()):
            return
        worker = max(self.running.values(), key=lambda worker: resident(worker.process.pid or 0))
        self.size = len(self.running) - 1
        _log.warning("Only %s; the run goes on with %s.", short, count(self.size, "worker"))
        worker.kill()
        self._lose(worker, "was stopped for want of memory")

    def _lose(self, worker: WorkerProcess, how: str) -> None:
        self._forget(worker)
        if message := self.attempts.lost(worker.item, how):
            self.report(lost(worker.item, message))

    def _forget(self, worker: WorkerProcess) -> None:
        del self.running[worker.pipe], self.models[worker.pipe]


def _work(pipe: Connection, job: Job, wait_for_locks: bool) -> None:
    """A worker process: runs the cells that it receives, until it receives None."""
    threading.Thread(target=die_with_parent, daemon=True).start()
    tqdm.set_lock(threading.RLock())  # else it makes a semaphore that a killed process leaves to the parent's complaint
    try:
        limit_threads(job.threads)  # before torch is used
        worker = LocalWorker(job)
        while (cell := pipe.recv()) is not None:
            worker.attempt(cell, pipe.send, wait_for_locks)
    except Exception as error:
        pipe.send(make_portable(error))


def make_engine(name: str, workers: int | None, settings: EngineSettings | None = None) -> Engine:
    """The engine of a name; workers: None means one worker for two cores (local), or what the cluster holds (Ray)."""
    settings = settings or EngineSettings()
    settings.check(name)
    if name == "inline":
        if workers not in (None, 1):
            raise UsageError("--workers needs --engine local or ray: the engine 'inline' is one process.")
        return Inline()
    if name == "local":
        return Local(workers or max(1, cores() // 2))
    if name == "ray":
        return ray_engine(workers, settings)
    raise unknown("engine", name, ENGINES)


def shortage() -> str:
    """'0.3 of 16.0 GiB of memory are left' where memory is short, else ""."""
    total, left = _memory()
    if left >= min(total * _SHARE, _BYTES):
        return ""
    return f"{left / 2**30:.1f} of {total / 2**30:.1f} GiB of memory are left"


def resident(pid: int) -> int:
    """Bytes that a process and its children hold; 0 where it is gone."""
    found = 0
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):
                found += each.memory_info().rss
    return found


def _memory() -> tuple[int, int]:
    """(bytes in all, bytes left) of the narrowest limit."""
    machine = psutil.virtual_memory()
    limits = [(machine.total, machine.available)]
    with suppress(OSError, ValueError):
        own = _OWN.read_text().strip().rpartition("0::/")[2]  # the one line of version 2
        folder = _CGROUPS / own
        for group in (folder, *folder.parents):
            if group.is_relative_to(_CGROUPS):
                with suppress(OSError, ValueError):  # no limit ("max"), or no such file
                    limits.append(_of_group(group))
    return min(limits, key=lambda limit: limit[1])


def _of_group(group: Path) -> tuple[int, int]:
    """The same of a control group (version 2); files that it has cached count as left. Raises OSError, ValueError."""
    most = int((group / "memory.max").read_text())
    used = int((group / "memory.current").read_text())
    rows = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    return most, most - used + int(rows.get("inactive_file", 0))
