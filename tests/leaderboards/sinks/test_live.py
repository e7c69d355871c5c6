"""What a run publishes while it runs, into a sink that remembers."""

from __future__ import annotations

from typing import Any

import pytest

from dpicl.leaderboards.publish.live import Live
from dpicl.leaderboards.publish.runs import plan
from dpicl.leaderboards.publish.sink import SinkError
from dpicl.results.schema import Result


class Memory:
    """A sink. error: what `publish` raises."""

    def __init__(self, error: Exception | None = None) -> None:
        self.sent: dict[str, str] = {}
        self.asked = 0
        self.error = error

    def publish(self, runs: Any) -> None:
        self.asked += 1
        if self.error:
            raise self.error
        self.sent |= {run.name: run.content for run in runs}

    def close(self) -> list[str]:
        return ["done"]


def test_rows_are_sent_when_all_cells_of_their_task_are_over_and_the_board_at_the_end(results: list[Result]) -> None:
    sink, there = Memory(), []
    live = Live([one.cell for one in results], lambda: plan(there), lambda: sink)
    counts = []
    for result in sorted(results, key=lambda one: one.cell.label != "tang"):
        there.append(result)
        live.finished(result.cell)
        counts.append(len(sink.sent))
    assert counts == [0, 0, 0, 0, 0, 0, 0, 3]  # rows need the reference baselines for their recovery
    live.finish()
    assert (live.failure, live.advice, live.sent) == ("", ["done"], 4)


@pytest.mark.parametrize(
    ("error", "failure"),
    [(SinkError("no."), "no."), (OverflowError("int too large"), "Publishing failed (OverflowError: int too large).")],
)
def test_after_a_failure_nothing_more_is_tried(results: list[Result], error: Exception, failure: str) -> None:
    sink = Memory(error)
    live = Live([one.cell for one in results], lambda: plan(results), lambda: sink)
    for result in results:
        live.finished(result.cell)
    live.finish()
    assert live.failure == failure and sink.asked == 1
