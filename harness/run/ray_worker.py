"""A worker that lives in a Ray actor. It runs cells and sends back what came out; it knows no results folder."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import greenlet

from dpicl.harness.core.cell import Cell
from dpicl.harness.core.errors import DpiclError, PluginError
from dpicl.harness.core.plugins import version_of
from dpicl.harness.run import manifest
from dpicl.harness.run.worker import CellProgress, Done, Job, Outcome, Worker, limit_threads, run_portion
from dpicl.harness.run.worker_process import portable

#: What the driver's process tells of its surroundings: where records, caches and models are.
_CARRIED = ("DPICL_", "HF_", "HUGGINGFACE_", "TRANSFORMERS_")
_FOLDERS = ("DPICL_DATA", "DPICL_CACHE", "HF_HOME", "HF_HUB_CACHE")
#: A worker says at most this often how far its cells are.
_QUIET_SECONDS = 1.0


@dataclass(frozen=True)
class Luggage:
    """What a worker on another node must know. environment: variables; it may hold tokens. plugins: content of plug-in
    files by their path here; folders are not among them."""

    job: Job
    environment: Mapping[str, str] = field(repr=False)
    plugins: Mapping[Path, bytes] = field(repr=False)

    @classmethod
    def packed(cls, job: Job) -> Luggage:
        """What the workers of a job need of this machine. The results folder is not among it."""
        found = {name: value for name, value in os.environ.items() if name.startswith(_CARRIED) and value}
        found |= {name: str(Path(found[name]).expanduser().absolute()) for name in _FOLDERS if name in found}
        paths = tuple(path.absolute() for path in job.plugins)
        job = replace(job, results=Path(os.devnull), plugins=paths)
        return cls(job, found, {path: path.read_bytes() for path in paths if path.is_file()})


def code_here() -> tuple[str | None, str | None]:
    """(version, commit) of this program: the same on all nodes."""
    return version_of("dpicl-bench"), manifest.commit()[0]


class RayWorker:
    """Runs portions of cells, keeping tasks and models between them."""

    def prepare(self, luggage: Luggage, cpus: int, gpus: int) -> tuple[str | None, str | None]:
        """Makes it ready; returns `code_here`. Raises DpiclError."""
        os.environ.update(luggage.environment)
        if not gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        limit_threads(cpus)
        self._worker = _with_plugins(luggage)
        return code_here()

    def attempt(self, cells: Sequence[Cell]) -> Iterator[CellProgress | Outcome]:
        """What happens while it runs the cells of a portion, and the outcome of each."""
        here = going = greenlet.getcurrent()
        last = time.monotonic()

        def send(event: Any) -> None:
            nonlocal going
            going = greenlet.getcurrent()
            here.switch(event)

        def report(event: CellProgress | Done) -> None:
            nonlocal last
            if time.monotonic() - last > _QUIET_SECONDS:
                last = time.monotonic()
                send(event)

        def work() -> Exception | None:
            try:
                run_portion(cells, lambda cell: send(self._worker.compute(cell, report)))
            except Exception as error:
                return portable(error)
            return None

        whole = going = greenlet.greenlet(work)
        event = going.switch()
        while not whole.dead:
            yield event
            event = going.switch()
        if event is not None:
            raise event


def _with_plugins(luggage: Luggage) -> Worker:
    """The worker, with the plug-in files that came with it. Folders of tasks must be here already: they may hold
    records, which are not sent around."""
    job, folder = luggage.job, Path(tempfile.mkdtemp(prefix="dpicl-plugins-"))
    try:
        paths = []
        for number, path in enumerate(job.plugins):
            if path in luggage.plugins:
                path = folder / str(number) / path.name
                path.parent.mkdir()
                path.write_bytes(luggage.plugins[job.plugins[number]])
            elif not path.is_dir():
                raise PluginError(f"There is no folder {path}; a plug-in folder must be on every node under one path.")
            paths.append(path)
        return Worker(replace(job, plugins=tuple(paths)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class NodeError(DpiclError):
    """A node of a cluster that cannot take part."""
