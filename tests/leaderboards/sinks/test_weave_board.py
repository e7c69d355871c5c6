"""The Weave leaderboard: what it holds, and what the package does with it where it is installed."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from dpicl.harness.core.errors import UsageError
from dpicl.harness.run.results import Result
from dpicl.leaderboards.publish import weave_board
from dpicl.leaderboards.publish.publish import plan
from dpicl.leaderboards.publish.wandb_settings import destination
from dpicl.leaderboards.publish.weave_board import WeaveBoard, weave_boards
from tests.leaderboards.factory import make_result


def board_of(results: list[Result]) -> WeaveBoard:
    (found,) = weave_boards(plan(results).made)
    return found


def test_columns_are_tasks_at_an_epsilon_and_say_what_is_better(results: list[Result]) -> None:
    columns = [(one.evaluation, one.scorer, one.should_minimize) for one in board_of(results).columns]
    one, eight = (f"quick v1, embedded: agnews at epsilon {epsilon}" for epsilon in (1, 8))
    assert columns == [
        (one, "acc_calibrated", False),
        (one, "recovery", False),
        (one, "proved_epsilon", True),
        (eight, "acc_calibrated", False),
        (eight, "recovery", False),
        (eight, "proved_epsilon", True),
    ]


def test_distances_are_better_when_small() -> None:
    result = make_result(metric="valid", aggregates={"genre_distance": 0.3})
    columns = {one.scorer: one.should_minimize for one in board_of([result]).columns}
    assert columns == {"valid": False, "genre_distance": True, "proved_epsilon": True}


def test_models_are_rows_and_both_ends_stand_in_every_evaluation(results: list[Result]) -> None:
    board = board_of(results)
    models = [(one.evaluation[-1], one.model) for one in board.evaluations]
    assert models == [(e, m) for e in "18" for m in ("zero_shot", "tang", "real_demonstrations")]
    tang = board.evaluations[1]
    assert tang.summary["acc_calibrated"] == {"mean": pytest.approx(0.55)}
    assert tang.summary["proved_epsilon"] == {"mean": 0.99}
    assert "proved_epsilon" not in board.evaluations[2].summary  # infinite


def test_without_the_package_it_says_what_to_install(results: list[Result], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "weave", None)
    with pytest.raises(UsageError, match=r"dpicl-bench\[weave\]"):
        weave_board.exporter(plan(results).made, destination("p", None, "offline", None))


def test_the_package_sends_the_leaderboard_once(results: list[Result]) -> None:
    weave = pytest.importorskip("weave")
    from weave.trace.context import weave_client_context
    from weave.trace.settings import parse_and_apply_settings
    from weave.trace.weave_client import WeaveClient

    server = recording_server()
    parse_and_apply_settings(weave_board.SETTINGS)
    client = WeaveClient("somebody", "leaderboard", server, ensure_project_exists=False)
    weave_client_context.set_weave_client_global(client)
    board = board_of(results)
    assert weave_board.publish_board(weave, board) is True
    client.flush()
    objects = [obj for name, obj in server.log if name == "obj_create"]
    (published,) = [obj["obj"]["val"] for obj in objects if obj["obj"]["val"].get("_type") == "Leaderboard"]
    columns = published["columns"]
    assert [(one["scorer_name"], one["should_minimize"]) for one in columns] == [
        (one.scorer, one.should_minimize) for one in board.columns
    ]
    evaluations = {obj["obj"]["val"]["metadata"]["evaluation"] for obj in objects if is_evaluation(obj)}
    assert evaluations == {one.evaluation for one in board.evaluations}
    assert len({one["evaluation_object_ref"] for one in columns}) == 2
    outputs = [end["end"]["output"] for name, end in server.log if name == "call_end"]
    for one in board.evaluations:
        assert any(one.summary.items() <= (output or {}).items() for output in outputs)
    for name, call in server.log:
        if name == "call_start":
            assert not {"os_name", "os_release", "sys_version"} & set(call["start"]["attributes"].get("weave", {}))
    before = len(server.log)
    assert weave_board.publish_board(weave, board) is False
    assert [name for name, _ in server.log[before:]] == ["obj_read"]


def is_evaluation(request: dict[str, Any]) -> bool:
    return bool(request["obj"]["val"].get("_type") == "Evaluation")


def recording_server() -> Any:
    """A trace server that remembers every request, answers as one would, and can read a leaderboard back."""
    from weave.trace_server_bindings.client_interface import TraceServerClientInterface as Interface

    class Found:
        def __init__(self, **fields: Any) -> None:
            self.__dict__.update(fields)

    def digest(value: Any) -> str:
        return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:40]

    def method(name: str) -> Any:
        def answer(self: Any, request: Any = None, *rest: Any, **more: Any) -> Any:
            plain = request.model_dump(mode="json") if hasattr(request, "model_dump") else request
            self.log.append((name, plain))
            if name == "obj_create":
                self.objects[plain["obj"]["object_id"]] = plain["obj"]["val"]
                return Found(digest=digest(plain), object_id=plain["obj"]["object_id"])
            if name == "obj_read":
                if plain["object_id"] not in self.objects:
                    raise ValueError("not found")
                return Found(obj=Found(digest="d", val=self.objects[plain["object_id"]]))
            if name in ("table_create", "table_create_from_digests"):
                return Found(digest=digest(plain), row_digests=[digest(row) for row in plain["table"].get("rows", [])])
            if name == "file_create":
                return Found(digest=digest(str(plain)))
            if name == "call_start":
                return Found(id=plain["start"]["id"], trace_id=plain["start"]["trace_id"])
            return Found(id="x", trace_id="t")

        return answer

    methods = {name: method(name) for name in dir(Interface) if not name.startswith("_")}
    server = type("Recording", (Interface,), methods)()
    server.log, server.objects = [], {}
    return server
