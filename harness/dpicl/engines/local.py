"""Chooses what runs the cells: this process, worker processes on this machine, or a Ray cluster.

An engine takes cells and a `Job`, and calls back with `CellProgress` and `Done`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from dpicl.core.cell import Cell
from dpicl.core.errors import UsageError, refuse, require_known
from dpicl.engines.dispatch import report_cells
from dpicl.engines.processes import Processes
from dpicl.engines.ray_engine import Ray, import_ray
from dpicl.engines.worker import Job, Recorder, Report, Worker
from dpicl.results.manifest import cores

ENGINES = ("inline", "local", "ray")


class Engine(Protocol):
    """Runs cells in any order and reports each of them once with `Done`."""

    def run(self, cells: Sequence[Cell], job: Job, report: Report) -> None: ...


class Inline:
    """All cells in this process, one after the other."""

    def run(self, cells: Sequence[Cell], job: Job, report: Report) -> None:
        worker, recorder = Worker(job), Recorder(job)
        for cell in cells:
            with recorder.take(cell) as over:
                done = over or recorder.keep(worker.compute(cell, report))
            report(done)


@dataclass(frozen=True)
class Local:
    """Worker processes on this machine, started afresh (spawn); the processor's cores are divided between them."""

    workers: int

    def run(self, cells: Sequence[Cell], job: Job, report: Report) -> None:
        if not cells:
            return
        size = min(self.workers, len(cells))
        pool = Processes(size, replace(job, threads=max(1, cores() // size)), report)
        report_cells(cells, pool, job, report)


def make_engine(
    name: str,
    workers: int | None,
    *,
    address: str | None = None,
    cpus: int | None = None,
    gpus: int | None = None,
) -> Engine:
    """The engine of a name; workers: None means one worker for two cores (local), or what the cluster holds (Ray).

    address, cpus, gpus: fields of `Ray`. Raises UsageError for an unknown engine, and for an option that it does not
    support.
    """
    require_known("engine", [name], ENGINES)
    if name == "ray":
        import_ray()
        return Ray(workers, address, cpus, gpus)
    of_ray = {"address": address, "cpus": cpus, "gpus": gpus is not None}
    refuse(of_ray, f"{{}} goes with --engine ray, not with '{name}'; leave it out.")
    if name == "local":
        return Local(workers or max(1, cores() // 2))
    if workers not in (None, 1):
        raise UsageError(
            "--workers needs --engine local or ray: the engine 'inline' is one process."
        )
    return Inline()
