"""Publishing: every row and board of some results to one sink, in one go or row by row while a suite runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dpicl.harness.core.cell import Cell
from dpicl.harness.core.errors import DpiclError
from dpicl.harness.run.results import Result
from dpicl.leaderboards.model.board import Board, Evidence
from dpicl.leaderboards.model.rows import REAL_DATA, ZERO_SHOT
from dpicl.leaderboards.model.submissions import Submission
from dpicl.leaderboards.publish.base import Outcome, Published, PublishedBoard, Sink
from dpicl.leaderboards.publish.published import boards, published_boards, published_rows


@dataclass
class Tally:
    """What became of what was to be published."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    advice: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """Everything that results give to publish. notes: what the boards leave out."""

    rows: tuple[Published, ...]
    boards: tuple[PublishedBoard, ...]
    notes: tuple[str, ...]
    made: tuple[Board, ...]


def plan(results: Sequence[Result], evidence: Evidence | None = None, submissions: Sequence[Submission] = ()) -> Plan:
    """What there is to publish. Pure; takes a fraction of a second for each row (the boards' bootstraps)."""
    made = boards(results, evidence, submissions)
    return Plan(
        rows=tuple(row for board in made for row in published_rows(board)),
        boards=tuple(one for board in made for one in published_boards(board)),
        notes=tuple(note for board in made for note in board.notes),
        made=tuple(made),
    )


def publish(what: Plan, sink: Sink, tally: Tally) -> None:
    """Sends everything and closes the sink. Raises SinkError at the first thing that is not taken.

    tally: filled on the way, so that it is right after an error too.
    """
    try:
        for row in what.rows:
            tally.outcomes[sink.send(row)] += 1
        for board in what.boards:
            tally.outcomes[sink.send_board(board)] += 1
    except BaseException:
        sink.abandon()
        raise
    tally.advice += sink.close()


class Live:
    """Publishes the rows of a run as their cells finish, and everything else at its end.

    A row is sent when all its cells and both ends on its task are over, since its recovery needs them. So it is sent
    once, whatever the order of the cells; a run that is killed and started again sends what is missing. After a first
    error nothing more is tried: `failure` has the reason, and the results are on disk.

    cells: those of this invocation that are still to be done. load: the results that are there now. connect: makes the
    sink, anew for every step; an error of it is a failure like any other.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        load: Callable[[], Sequence[Result]],
        evidence: Evidence,
        connect: Callable[[], Sink],
        submissions: Sequence[Submission] = (),
    ) -> None:
        self._waiting = {(cell.id, cell.label): cell for cell in cells}
        self._load = load
        self._evidence = evidence
        self._submissions = submissions
        self._connect = connect
        self.tally = Tally()
        self.failure = ""
        self._try(lambda sink: None)

    def finished(self, cell: Cell) -> None:
        """A cell is over, however it went."""
        if self.failure or self._waiting.pop((cell.id, cell.label), None) is None:
            return
        open_rows = {(one.model, one.task, one.label) for one in self._waiting.values()}
        ends_open = any(
            (one.model, one.task) == (cell.model, cell.task) and one.mechanism in (ZERO_SHOT, REAL_DATA)
            for one in self._waiting.values()
        )
        if ends_open:
            return
        is_end = cell.mechanism in (ZERO_SHOT, REAL_DATA)

        def is_ready(row: Published) -> bool:
            key = (row.config["model"], row.config["task"], row.config["row"])
            own = is_end or key[2] == cell.label
            return own and key[:2] == (cell.model, cell.task) and key not in open_rows

        self._try(lambda sink: self._send_task(cell, is_ready, sink))

    def finish(self) -> None:
        """The run is over: sends all rows that are not sent yet, and the boards."""

        def send(sink: Sink) -> None:
            if results := self._load():
                publish(plan(results, self._evidence, self._submissions), sink, self.tally)
            else:
                sink.abandon()

        self._try(send)

    def _send_task(self, cell: Cell, is_ready: Callable[[Published], bool], sink: Sink) -> None:
        own = [one for one in self._load() if (one.cell.model, one.cell.task) == (cell.model, cell.task)]
        for row in plan(own, self._evidence).rows if own else ():
            if is_ready(row):
                self.tally.outcomes[sink.send(row)] += 1

    def _try(self, step: Callable[[Sink], None]) -> None:
        """Connects, does the step and lets go of the sink, so that others may publish while cells are run."""
        if self.failure:
            return
        sink: Sink | None = None
        try:
            sink = self._connect()
            step(sink)
        except DpiclError as error:
            self.failure = str(error)
        except Exception as error:  # a tracker, or numbers that it cannot digest, must not cost a run its cells
            self.failure = f"Publishing failed ({type(error).__name__}: {error})."
        finally:
            if sink is not None:
                sink.abandon()
