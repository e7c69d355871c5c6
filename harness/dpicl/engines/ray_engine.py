"""Runs cells as tasks on a Ray cluster. The nodes need no shared folder: results return through Ray's object store."""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dpicl.core.cell import Cell
from dpicl.core.errors import DpiclError, PluginError, UsageError, one_line
from dpicl.core.extras import require_extras
from dpicl.core.interrupts import ignore_interrupts
from dpicl.core.messages import count
from dpicl.core.plugins import version_of
from dpicl.engines.dispatch import POLL_SECONDS, WorkerLost, make_portable, report_cells
from dpicl.engines.worker import Job, Outcome, Report, Worker, limit_threads
from dpicl.results import manifest

_log = logging.getLogger(__name__)
#: Cores of a task where no number is asked for, if a node has as many.
_CPUS = 2
#: How long the head of a cluster may take to answer.
_ANSWER_SECONDS = 5.0
#: After so long without a finished task a busy cluster is named as the reason.
_QUIET_SECONDS = 60.0
#: Beginnings of the environment variables that workers get from here: where records, caches and models are.
_CARRIED = ("DPICL_", "HF_", "HUGGINGFACE_", "TRANSFORMERS_")
#: Those of them that are paths; workers get them absolute.
_FOLDERS = ("DPICL_DATA", "DPICL_CACHE", "HF_HOME", "HF_HUB_CACHE")


@dataclass(frozen=True)
class Ray:
    """Tasks on a Ray cluster, or on a local one that is started here. workers: tasks at once; None: as many as the
    cluster holds. address: of the cluster. cpus, gpus: of each worker; None: two cores (all of them where no node has
    two), and one GPU where the cluster has any."""

    workers: int | None = None
    address: str | None = None
    cpus: int | None = None
    gpus: int | None = None

    def run(self, cells: Sequence[Cell], job: Job, report: Report) -> None:
        with connect(self.address) as ray:
            report_cells(cells, _RayTasks(ray, self, job), job, report)


class _RayTasks:
    """The tasks of a run; Ray schedules them. One whose worker or node dies is lost."""

    def __init__(self, ray: Any, engine: Ray, job: Job) -> None:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        has_gpus = any(node.get("GPU", 0) for node in nodes)
        self.gpus = int(has_gpus) if engine.gpus is None else engine.gpus
        largest = max((int(node.get("CPU", 0)) for node in nodes), default=0)
        self.cpus = engine.cpus or max(1, min(_CPUS, largest))
        places = sum(_places(node, self.cpus, self.gpus) for node in nodes)
        if not places:
            resources = count(self.cpus, "CPU") + (
                f" and {count(self.gpus, 'GPU')}" if self.gpus else ""
            )
            raise UsageError(
                f"No node of the Ray cluster holds a worker of {resources}; change --cpus or --gpus."
            )
        self.size = engine.workers or places
        self.ray, self.payload = ray, ray.put(WorkerPayload.pack(job))
        self.last_news = time.monotonic()
        options = {"num_cpus": self.cpus, "num_gpus": self.gpus, "max_retries": 0}
        self.attempt = ray.remote(scheduling_strategy="SPREAD", **options)(_attempt)
        self.tasks: set[Any] = set()

    def submit(self, cell: Cell) -> Any:
        task = self.attempt.remote(self.payload, cell, self.cpus, self.gpus)
        self.tasks.add(task)
        return task

    def wait(self, jobs: Collection[Any]) -> list[Any]:
        ready, _ = self.ray.wait(list(jobs), timeout=POLL_SECONDS)
        if ready or time.monotonic() - self.last_news > _QUIET_SECONDS:
            if not ready and self.ray.available_resources().get("CPU", 0) < self.cpus:
                _log.warning(
                    "The Ray cluster is busy: no %s are free; waiting.", count(self.cpus, "CPU")
                )
            self.last_news = time.monotonic()
        return list(ready)

    def outcome(self, job: Any) -> tuple[str, Outcome]:
        self.tasks.remove(job)
        try:
            node, outcome = self.ray.get(job)
        except self.ray.exceptions.RayTaskError as error:
            if isinstance(cause := error.cause, DpiclError):
                raise UsageError(one_line(cause)) from None
            raise
        except self.ray.exceptions.RayError as error:  # the worker or node died, or memory ran out
            raise WorkerLost(f"was lost ({type(error).__name__})") from None
        return node, outcome

    def close(self) -> None:
        for task in self.tasks:
            self.ray.cancel(task, force=True)


def _places(resources: Mapping[str, float], cpus: int, gpus: int) -> int:
    """How many tasks with so many cores and GPUs a node holds."""
    by_cpus = int(resources.get("CPU", 0)) // cpus
    return min(by_cpus, int(resources.get("GPU", 0)) // gpus) if gpus else by_cpus


@contextmanager
def connect(address: str | None) -> Iterator[Any]:
    """Ray, connected to the cluster at the address, else at RAY_ADDRESS, else to one that runs on this machine, else to
    one that is started here. If the program is connected already, it stays so, and the address is not used.

    Raises UsageError where the cluster does not answer or refuses us.
    """
    ray = import_ray()
    if ray.is_initialized():
        yield ray
        return
    address = (os.environ.get("RAY_ADDRESS") or None) if address is None else address
    if address not in (None, "local"):
        _require_answer(address)
    how: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **how)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise UsageError(f"Ray cannot be used: {one_line(error, 500)}") from error
    # Ray prints about its nodes until it is shut down, and standard output is for a command's answer
    with redirect_stdout(sys.stderr):
        try:
            yield ray
        finally:
            with ignore_interrupts():
                ray.shutdown()


def import_ray() -> Any:
    """Raises UsageError where Ray is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no report to Ray's makers
    with require_extras():
        import ray
    return ray


def _require_answer(address: str) -> None:
    """Raises UsageError unless something listens at HOST:PORT: Ray itself waits for minutes."""
    host, _, port = address.rpartition(":")
    try:
        if not host or "/" in host:
            raise ValueError("it is not HOST:PORT")
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_SECONDS).close()
    except (OSError, OverflowError, ValueError) as error:
        raise UsageError(
            f"No Ray cluster answers at the address '{address}' ({one_line(error, 100)}); give HOST:PORT of its head"
            " (usually port 6379) with --address or RAY_ADDRESS, or --address local for a cluster of this machine."
        ) from None


@dataclass(frozen=True)
class WorkerPayload:
    """What a worker on another node must know. environment: variables, of which some may be secret tokens. plugins:
    paths on this machine and content of plug-in files; folders are not sent. code: version and commit, which must be
    the same on all nodes."""

    job: Job
    environment: tuple[tuple[str, str], ...] = field(repr=False)
    plugins: tuple[tuple[Path, bytes], ...] = field(repr=False)
    code: tuple[str | None, str | None]

    @classmethod
    def pack(cls, job: Job) -> WorkerPayload:
        """What the workers of a job need of this machine. They get no results folder: outcomes return through Ray."""
        environment = {
            name: value for name, value in os.environ.items() if name.startswith(_CARRIED) and value
        }
        environment |= {
            name: str(Path(environment[name]).expanduser().absolute())
            for name in _FOLDERS
            if name in environment
        }
        paths = tuple(path.absolute() for path in job.plugins)
        job = replace(job, results=Path(os.devnull), plugins=paths)
        files = tuple((path, path.read_bytes()) for path in paths if path.is_file())
        return cls(job, tuple(environment.items()), files, _code_here())


def _code_here() -> tuple[str | None, str | None]:
    return version_of("dpicl-bench"), manifest.commit()[0]


def _attempt(payload: WorkerPayload, cell: Cell, cpus: int, gpus: int) -> tuple[str, Outcome]:
    """On a node: runs the cell; gives the node's name and the outcome."""
    node = socket.gethostname()
    try:
        os.environ.update(payload.environment)
        if not gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        limit_threads(cpus)
        return node, _prepare(payload, node).compute(cell, lambda event: None)
    except Exception as error:
        raise make_portable(error) from None


@lru_cache(maxsize=1)
def _prepare(payload: WorkerPayload, node: str) -> Worker:
    """The worker of this process, with the plug-in files that came with it; it keeps models between tasks.

    Folders of tasks must be on the node already: they may hold records, which are not sent around.
    """
    if payload.code != _code_here():
        driver_code, node_code = (
            " at ".join(map(str, each)) for each in (payload.code, _code_here())
        )
        raise UsageError(
            f"Node {node} has dpicl {node_code}, this machine {driver_code}; install the same on every node."
        )
    plugins = dict(payload.plugins)
    with TemporaryDirectory(prefix="dpicl-plugins-", ignore_cleanup_errors=True) as folder:
        paths = []
        for number, path in enumerate(payload.job.plugins):
            if path in plugins:
                copy = Path(folder) / str(number) / path.name
                copy.parent.mkdir()
                copy.write_bytes(plugins[path])
                paths.append(copy)
            elif path.is_dir():
                paths.append(path)
            else:
                raise PluginError(
                    f"Node {node} has no folder {path}; a plug-in folder must be at that path on every node."
                )
        return Worker(replace(payload.job, plugins=tuple(paths)))
