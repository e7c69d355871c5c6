"""Publishing: every row and board of some results to W&B, in one go or row by row while a suite runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpicl.core.cell import Cell
from dpicl.core.errors import DpiclError
from dpicl.leaderboards.model.board import Board, build_board
from dpicl.leaderboards.model.comparability import BASELINES
from dpicl.leaderboards.model.evidence import Evidence
from dpicl.leaderboards.model.submissions import Submission
from dpicl.leaderboards.publish.payload import Published, PublishedBoard, published_board, published_rows
from dpicl.leaderboards.publish.tracker import Sink
from dpicl.results.schema import Result


@dataclass(frozen=True)
class Plan:
    """Everything that results give to publish. notes: what the boards leave out."""

    rows: tuple[Published, ...]
    boards: tuple[PublishedBoard, ...]
    notes: tuple[str, ...]
    made: tuple[Board, ...]


def plan(results: Sequence[Result], evidence: Evidence | None = None, submissions: Sequence[Submission] = ()) -> Plan:
    """What there is to publish: one board for each suite. Takes a fraction of a second a row (bootstraps)."""
    suites = sorted({result.suite.name for result in results})
    by_suite = [[result for result in results if result.suite.name == name] for name in suites]
    made = [build_board(own, None, evidence, submissions) for own in by_suite]
    return Plan(
        rows=tuple(row for board in made for row in published_rows(board)),
        boards=tuple(one for board in made for one in map(published_board, board.sections)),
        notes=tuple(note for board in made for note in board.notes),
        made=tuple(made),
    )


def publish(what: Plan, sink: Sink) -> list[str]:
    """Sends everything that this sink has not sent yet; sentences on what a reader can do next. Raises SinkError."""
    things: list[Published | PublishedBoard] = [*what.rows, *what.boards]
    for thing in things:
        if sink.sent.get(sink.run_id(thing)) != thing.content:
            sink.send(thing)
    return sink.close()


class Live:
    """Publishes the rows of a run as their cells finish, and everything else at its end.

    A row is sent when all its cells and the reference baselines on its task are done, since its recovery needs them.
    After a first error nothing more is tried: `failure` has the reason, and the results are on disk.

    cells: those of this invocation that are not done yet. load: the results that exist now. connect: makes the sink;
    its error is a failure like any other. failed: called once, with the first failure.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        load: Callable[[], Sequence[Result]],
        evidence: Evidence,
        connect: Callable[[], Sink],
        submissions: Sequence[Submission] = (),
        failed: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self._waiting = {(cell.id, cell.label): cell for cell in cells}
        self._load = load
        self._evidence = evidence
        self._submissions = submissions
        self._connect = connect
        self._failed = failed
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
        if self._waiting.pop((cell.id, cell.label), None) is None:
            return
        task = (cell.model, cell.task)
        waiting = [one for one in self._waiting.values() if (one.model, one.task) == task]
        is_baseline = cell.mechanism in BASELINES
        open_rows = {one.label for one in waiting}
        if any(one.mechanism in BASELINES for one in waiting) or (cell.label in open_rows and not is_baseline):
            return

        def send(sink: Sink) -> None:
            own = [one for one in self._load() if (one.cell.model, one.cell.task) == task]
            for row in plan(own, self._evidence).rows:
                label = row.config["row"]
                if label not in open_rows and (is_baseline or label == cell.label):
                    sink.send(row)

        self._try(send)

    def finish(self) -> None:
        """The run is over: sends all rows that are not sent yet, and the boards."""

        def send(sink: Sink) -> None:
            if results := self._load():
                self.advice = publish(plan(results, self._evidence, self._submissions), sink)

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
