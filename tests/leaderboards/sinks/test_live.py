"""What a run publishes while it runs, into a sink that remembers."""

from __future__ import annotations

from typing import Any

import pytest

from dpicl.leaderboards.model.evidence import Evidence
from dpicl.leaderboards.publish.publish import Live
from dpicl.leaderboards.publish.wandb_settings import SinkError
from dpicl.results.schema import Result


class Memory:
    """A sink. error: what `send` raises."""

    def __init__(self, error: Exception | None = None) -> None:
        self.sent: dict[str, str] = {}
        self.asked = 0
        self.error = error

    def run_id(self, thing: Any) -> str:
        return str(thing.row)

    def send(self, thing: Any) -> None:
        self.asked += 1
        if self.error:
            raise self.error
        self.sent[thing.row] = thing.content

    def close(self) -> list[str]:
        return ["done"]


def test_a_row_is_sent_when_its_cells_and_both_ends_are_over(results: list[Result]) -> None:
    sink, there = Memory(), []
    live = Live([one.cell for one in results], lambda: there, Evidence(), lambda: sink)
    counts = []
    for result in sorted(results, key=lambda one: one.cell.label != "tang"):
        there.append(result)
        live.finished(result.cell)
        counts.append(sink.asked)
    assert counts == [0, 0, 0, 0, 0, 0, 0, 3]  # rows need the reference baselines for their recovery
    live.finish()
    assert (live.failure, live.advice, live.sent, sink.asked) == ("", ["done"], 4, 4)


def test_a_row_follows_its_own_cells_when_the_ends_are_there(results: list[Result]) -> None:
    sink = Memory()
    tang = [one.cell for one in results if one.cell.label == "tang"]
    live = Live(tang, lambda: results, Evidence(), lambda: sink)
    counts = [live.finished(cell) or sink.asked for cell in tang]
    assert counts == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("error", "failure"),
    [(SinkError("no."), "no."), (OverflowError("int too large"), "Publishing failed (OverflowError: int too large).")],
)
def test_after_a_failure_nothing_more_is_tried(results: list[Result], error: Exception, failure: str) -> None:
    sink = Memory(error)
    live = Live([one.cell for one in results], lambda: results, Evidence(), lambda: sink)
    for result in results:
        live.finished(result.cell)
    live.finish()
    assert live.failure == failure and sink.asked == 1
