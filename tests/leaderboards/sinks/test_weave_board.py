"""The Weave leaderboard: what it holds, and what is sent."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dpicl.core.errors import UsageError
from dpicl.leaderboards.publish import weave_board
from dpicl.leaderboards.publish.runs import plan
from dpicl.leaderboards.publish.sink import Destination
from dpicl.leaderboards.publish.weave_board import WeaveBoard, weave_boards
from dpicl.results.schema import Result
from tests.leaderboards.factory import make_result


def board_of(results: list[Result]) -> WeaveBoard:
    (found,) = weave_boards(plan(results).boards)
    return found


def test_columns_are_tasks_at_an_epsilon_and_models_are_rows(results: list[Result]) -> None:
    board = board_of(results)
    names = [f"quick v1, embedded: agnews at epsilon {epsilon}" for epsilon in (1, 8)]
    scorers = (("acc_calibrated", False), ("recovery", False), ("proved_epsilon", True))
    assert list(board.columns) == [(name, *scorer) for name in names for scorer in scorers]
    rows = ("zero_shot", "tang", "real_demonstrations")
    assert [(one["evaluation"], one["model"]["row"]) for one in board.evaluations] == [
        (e, m) for e in names for m in rows
    ]
    tang, real = (one["summary"] for one in board.evaluations[1:3])
    assert tang["acc_calibrated"] == {"mean": pytest.approx(0.55)} and tang["proved_epsilon"] == {
        "mean": 0.99
    }
    assert "proved_epsilon" not in real  # infinite


def test_distances_are_better_when_small() -> None:
    result = make_result(metric="valid", aggregates={"genre_distance": 0.3})
    columns = {scorer: lower for _, scorer, lower in board_of([result]).columns}
    assert columns == {"valid": False, "genre_distance": True, "proved_epsilon": True}


def test_without_the_package_it_says_what_to_install(
    results: list[Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "weave", None)
    with pytest.raises(UsageError, match=r"dpicl-bench\[weave\]"):
        weave_board.exporter(plan(results).boards, Destination("p", None, Path()))


@pytest.fixture
def weave(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """weave's interface, in memory. The reference of an evaluation hangs on all that it is made of, as in weave."""
    made = SimpleNamespace(
        published={}, logged={}, init=lambda project, settings: SimpleNamespace(finish=lambda: None)
    )

    class Logger:
        def __init__(
            self, *, name: str, model: Any, dataset: Any, eval_attributes: Any, scorers: Any
        ) -> None:
            self._pseudo_evaluation = json.dumps([name, dataset, eval_attributes, scorers])
            self._row = name, model["row"]

        def log_summary(self, summary: Any, auto_summarize: bool) -> None:
            made.logged[self._row] = summary

    def ref(name: str) -> Any:
        if name.removesuffix(":latest") not in made.published:
            raise ValueError("not found")
        return SimpleNamespace(get=lambda: made.published[name.removesuffix(":latest")])

    made.EvaluationLogger, made.ref = Logger, ref
    made.publish = lambda board, name: made.published.update({name: board})
    parts = {"": made, ".flow": made, ".trace": made}
    parts[".flow.leaderboard"] = SimpleNamespace(
        Leaderboard=SimpleNamespace, LeaderboardColumn=SimpleNamespace
    )
    parts[".trace.weave_client"] = SimpleNamespace(
        get_ref=lambda evaluation: SimpleNamespace(uri=evaluation)
    )
    for name, part in parts.items():
        monkeypatch.setitem(sys.modules, f"weave{name}", part)
    return made


def test_the_leaderboard_is_sent_once_and_its_rows_share_evaluations(
    results: list[Result], weave: SimpleNamespace
) -> None:
    board = board_of(results)
    export = weave_board.exporter(plan(results).boards, Destination("p", None, Path()))
    assert "1 of 1 leaderboards" in export()
    assert weave.logged == {
        (one["evaluation"], one["model"]["row"]): one["summary"] for one in board.evaluations
    }
    columns = weave.published[board.key].columns
    assert [(one.scorer_name, one.should_minimize) for one in columns] == [
        one[1:] for one in board.columns
    ]
    assert len({one.evaluation_object_ref for one in columns}) == 2
    weave.logged.clear()
    assert "0 of 1 leaderboards" in export() and not weave.logged
