"""Cells on a Ray cluster: one actor for a GPU or some cores of its own node, results through the object store.

This process alone has the results folder: it locks cells, hands them out, and writes what comes back. So the nodes need
no shared folder, and a node that is lost leaves nothing behind. What it had released was shown to nobody, and its cells
are run again elsewhere.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from dpicl.harness.core.cell import Cell
from dpicl.harness.core.errors import DpiclError, UsageError, told
from dpicl.harness.core.interrupts import undisturbed
from dpicl.harness.core.messages import count
from dpicl.harness.run.attempts import Attempts, lost
from dpicl.harness.run.engine_settings import EngineSettings, refuse_secure
from dpicl.harness.run.ray_cluster import Seat, connected, import_ray, live_nodes, placed, seats, seats_of
from dpicl.harness.run.ray_worker import Luggage, RayWorker, code_here
from dpicl.harness.run.worker import AT_ONCE, CellProgress, Job, Outcome, Recorder, Report

_log = logging.getLogger(__name__)
_POLL_SECONDS = 1.0
#: It is said so often that workers do not start; without any node a run goes on for so long.
_START_SECONDS, _ALONE_SECONDS = 20.0, 60.0
#: Actors that a node may lose before they are ready; then it is left out.
_FALSE_STARTS = 3


@dataclass(frozen=True)
class Ray:
    """Actors on a Ray cluster, or on a local one that is started here. workers: None means as many as it holds."""

    workers: int | None = None
    settings: EngineSettings = field(default_factory=EngineSettings)

    def run(self, cells: Sequence[Cell], job: Job, report: Report, *, wait_for_locks: bool = False) -> None:
        if not cells:
            return
        refuse_secure(cells)
        with connected(self.settings.address) as ray:
            crew = _Crew(ray, self, cells, job, report, wait_for_locks)
            try:
                crew.work()
            finally:
                with undisturbed():
                    crew.end()


def ray_engine(workers: int | None, settings: EngineSettings) -> Ray:
    """Raises UsageError where Ray is not installed."""
    import_ray()
    return Ray(workers, settings)


@dataclass(eq=False)
class _Actor:
    """A worker in its seat. stream: of events; None while it has nothing to do. cells: at work, by id. ready: whether
    it has been prepared."""

    seat: Seat
    handle: Any
    stream: Any
    ready: bool = False
    model: str | None = None
    cells: dict[str, Cell] = field(default_factory=dict)


class _Crew:
    """The actors of a run, and the cells that they are at. held: the locks of these, by the cell's id. elsewhere: cells
    that another run has and that are waited for. false_starts: by node."""

    def __init__(self, ray: Any, engine: Ray, cells: Sequence[Cell], job: Job, report: Report, wait: bool) -> None:
        self.ray, self.report, self.wait = ray, report, wait
        self.workers, self.cpus = engine.workers, engine.settings.cpus
        self.attempts, self.recorder = Attempts(cells), Recorder(job)
        self.luggage = ray.put(Luggage.packed(job))
        self.actors: list[_Actor] = []
        self.held: dict[str, ExitStack] = {}
        self.elsewhere: list[Cell] = []
        self.false_starts: Counter[str] = Counter()
        self.looked = self.started = self.last_node = time.monotonic()
        nodes = live_nodes(ray)
        self.gpus = int(any(node.gpus for node in nodes)) if engine.settings.gpus is None else engine.settings.gpus
        self.nodes = {node.id for node in nodes}
        for seat in seats(nodes, self.workers, self.cpus, self.gpus)[: len(self.attempts)]:
            self._start(seat)

    def work(self) -> None:
        """Until every cell has ended."""
        while self.attempts or self.elsewhere or any(actor.cells for actor in self.actors):
            for actor in self.actors:
                if actor.ready and actor.stream is None:
                    self._give(actor)
            streams = {actor.stream: actor for actor in self.actors if actor.stream is not None}
            if streams:
                for stream in self.ray.wait(list(streams), timeout=_POLL_SECONDS)[0]:
                    self._hear(streams[stream])
            else:
                time.sleep(_POLL_SECONDS)
            if time.monotonic() - self.looked > _POLL_SECONDS:
                self._look_around()

    def end(self) -> None:
        """Ends the actors, and frees the cells that they had."""
        for actor in self.actors:
            self.ray.kill(actor.handle)
        for stack in self.held.values():
            stack.close()

    def _start(self, seat: Seat) -> None:
        handle = placed(self.ray, RayWorker, seat)
        self.actors.append(_Actor(seat, handle, handle.prepare.remote(self.luggage, seat.cpus, seat.gpus)))

    def _give(self, actor: _Actor) -> None:
        """The next portion of cells, smaller towards the end, so that all workers end at about the same time."""
        others = [other.model for other in self.actors if other is not actor]
        nodes = {other.seat.node.id for other in self.actors}
        while not actor.cells:
            most = min(AT_ONCE, max(1, len(self.attempts) // (2 * len(self.actors))))
            cells = self.attempts.next(most, actor.model, others, actor.seat.node.id, nodes)
            if not cells:
                return
            actor.cells = {cell.id: cell for cell in cells if self._take(cell)}
        actor.model = cells[0].model
        call = actor.handle.attempt.options(num_returns="streaming")
        actor.stream = call.remote(list(actor.cells.values()))

    def _take(self, cell: Cell) -> bool:
        """Locks a cell. False, and it is reported or waited for, where there is nothing to do now."""
        stack = ExitStack()
        over = stack.enter_context(self.recorder.taken(cell))
        if over is None:
            self.held[cell.id] = stack
            return True
        stack.close()
        if over.status == "busy" and self.wait:
            self.elsewhere.append(cell)
        else:
            self.report(over)
        return False

    def _hear(self, actor: _Actor) -> None:
        """What an actor says, or that it is gone. Raises what it raises."""
        errors = self.ray.exceptions
        try:
            if actor.ready:
                self._note(actor, self.ray.get(next(actor.stream)))
            else:
                self._welcome(actor, self.ray.get(actor.stream))
        except StopIteration:
            actor.stream = None
        except errors.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, DpiclError):
                raise UsageError(f"Node {actor.seat.node.name}: {told(cause)}") from None
            raise
        except errors.RayError as error:  # of the actor, its node, its memory, or what it had stored
            self._lose(actor, error)

    def _welcome(self, actor: _Actor, code: tuple[str | None, str | None]) -> None:
        if code != code_here():
            here, there = (" at ".join(str(part) for part in each) for each in (code_here(), code))
            raise UsageError(
                f"Node {actor.seat.node.name} has dpicl {there}, this machine {here}; install the same on every node."
            )
        actor.ready, actor.stream = True, None

    def _note(self, actor: _Actor, event: CellProgress | Outcome) -> None:
        if isinstance(event, CellProgress):
            self.report(event)
            return
        cell = actor.cells.pop(event.done.cell.id)
        with self.held.pop(cell.id):
            done = self.recorder.keep(event, actor.seat.node.name)
        self.report(done)

    def _lose(self, actor: _Actor, error: Exception) -> None:
        """Its cells are tried again; another actor takes its seat where the node is still there."""
        node = actor.seat.node
        self.ray.kill(actor.handle)  # one that cannot be reached may still be at work
        self.actors.remove(actor)
        for cell in actor.cells.values():
            self.held.pop(cell.id).close()
            if message := self.attempts.lost(cell, f"on node {node.name} was lost", node.id):
                self.report(lost(cell, message))
        if not actor.ready:
            self.false_starts[node.id] += 1
            _log.warning("Node %s cannot start a worker: %s", node.name, told(error, 300))
        if self.false_starts[node.id] < _FALSE_STARTS and node.id in {each.id for each in live_nodes(self.ray)}:
            self._start(actor.seat)

    def _look_around(self) -> None:
        """Cells that another run had, new nodes, workers that do not start. Raises DpiclError where nobody is left."""
        now = self.looked = time.monotonic()
        self.attempts.give_back(self.elsewhere)
        self.elsewhere = []
        new = [node for node in live_nodes(self.ray) if node.id not in self.nodes]
        self.nodes |= {node.id for node in new}
        missing = len(self.attempts) if self.workers is None else self.workers - len(self.actors)
        for seat in seats_of(new, self.cpus, self.gpus)[: max(0, missing)]:
            self._start(seat)
        if self.actors:
            self.last_node = now
        elif now - self.last_node > _ALONE_SECONDS or self.false_starts:
            raise DpiclError(
                f"No node of the Ray cluster is left that can run a worker; {count(len(self.attempts), 'cell')} are not"
                " done. Finished cells are kept, and the same command goes on from there."
            )
        if now - self.started > _START_SECONDS and not any(actor.ready for actor in self.actors):
            self.started = now
            free = self.ray.available_resources()
            _log.warning(
                "No worker has started yet: the Ray cluster is busy (free: %g CPUs, %g GPUs); waiting.",
                free.get("CPU", 0), free.get("GPU", 0),
            )  # fmt: skip
