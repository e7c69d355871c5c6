"""Publishes the rows of a run while its cells finish, and everything else at its end. It never stops a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dpicl.core.cell import Cell
from dpicl.core.errors import DpiclError
from dpicl.leaderboards.publish.runs import Plan
from dpicl.leaderboards.publish.sink import Sink


class Live:
    """Rows are sent when all cells of their task on a model are over, since a recovery needs the reference baselines.

    After a first error nothing more is tried: `failure` has the reason, and the results are on disk.

    cells: those of this run that are not done yet. load: what there is to publish now. connect: makes the sink; its
    error is a failure like any other. failed: called once, with the first failure.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        load: Callable[[], Plan],
        connect: Callable[[], Sink],
        failed: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self._waiting = {(cell.id, cell.label): (cell.model, cell.task) for cell in cells}
        self._load, self._connect, self._failed = load, connect, failed
        self._sink: Sink | None = None
        self.advice: list[str] = []
        self.failure = ""
        self._try(lambda sink: None)

    @property
    def sent(self) -> int:
        """How many runs were created or updated."""
        return len(self._sink.sent) if self._sink else 0

    def finished(self, cell: Cell) -> None:
        """A cell is done or has failed."""
        task = self._waiting.pop((cell.id, cell.label), None)
        if task is None or task in self._waiting.values():
            return
        self._try(
            lambda sink: sink.publish(
                [run for run in self._load().runs if (run.config["model"], run.config.get("task")) == task]
            )
        )

    def finish(self) -> None:
        """The run is over: sends all rows that are not sent yet, and the boards."""

        def send(sink: Sink) -> None:
            sink.publish(self._load().runs)
            self.advice = sink.close()

        self._try(send)

    def _try(self, step: Callable[[Sink], None]) -> None:
        if self.failure:
            return
        try:
            self._sink = self._sink or self._connect()
            step(self._sink)
        except DpiclError as error:
            self.failure = str(error)
        except Exception as error:  # W&B, or numbers that it cannot digest, must not cost a run its cells
            self.failure = f"Publishing failed ({type(error).__name__}: {error})."
        if self.failure:
            self._failed(self.failure)
