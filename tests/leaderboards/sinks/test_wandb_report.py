"""The report, by the specification that wandb-workspaces makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpicl.harness.run.results import Result
from dpicl.leaderboards.publish.publish import plan
from dpicl.leaderboards.publish.wandb_settings import destination
from tests.leaderboards.factory import make_result
from tests.leaderboards.sinks.stub_server import Run, StubServer

pytest.importorskip("wandb_workspaces")
from dpicl.leaderboards.publish.wandb_report import build_report, saver, title


def spec_of(results: list[Result]) -> dict[str, Any]:
    what = plan(results)
    model = build_report(what.made, what.rows, "somebody", "leaderboard")._to_model()
    found: dict[str, Any] = json.loads(model.spec.model_dump_json(by_alias=True, exclude_none=True))
    return found


def blocks(spec: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [block for block in spec["blocks"] if block["type"] == kind]


def test_the_table_has_the_rows_of_the_board(results: list[Result]) -> None:
    (table,) = blocks(spec_of(results), "markdown-block")
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table["content"].splitlines()]
    assert [line[:3] for line in lines[2:]] == [
        ["zero_shot", "0", "0"],
        ["tang", "1", "0.99"],
        ["tang", "8", "7.9"],
        ["real_demonstrations", "∞", "∞"],
    ]
    assert lines[3][5] == "0.550" and lines[3][7] == "38%"


def test_the_plots_show_the_published_runs_and_no_others(results: list[Result]) -> None:
    (grid,) = blocks(spec_of(results), "panel-grid")
    (runs,) = grid["metadata"]["runSets"]
    (condition,) = runs["filters"]["filters"]
    assert condition["key"] == {"section": "run", "name": "name"} and condition["op"] == "IN"
    assert condition["value"] == [row.id for row in plan(results).rows]
    panels = grid["metadata"]["panelBankSectionConfig"]["panels"]
    assert [panel["viewType"] for panel in panels] == [
        "Scatter Plot",
        "Run History Line Plot",
        "Bar Chart",
        "Bar Chart",
    ]
    assert panels[0]["config"]["yAxis"] == "summary:best_score"
    assert [panel["config"]["metrics"] for panel in panels[2:]] == [
        ["summary_metrics.score/eps=1"],
        ["summary_metrics.score/eps=8"],
    ]


def test_the_keys_of_the_plots_are_in_the_summaries(results: list[Result]) -> None:
    (row,) = [row for row in plan(results).rows if row.config["row"] == "tang"]
    assert {"best_score", "largest_proved_epsilon", "score/eps=1", "score/eps=8"} <= set(row.summary)
    assert "score" in row.rows[0] and "epsilon" in row.rows[0]


def test_names_cannot_be_read_as_markdown(results: list[Result]) -> None:
    (table,) = blocks(spec_of([*results, make_result(label="<script>x|[y](z)`")]), "markdown-block")
    assert r"\<script\>x\|\[y\](z)\`" in table["content"]


def test_a_long_title_is_cut(results: list[Result]) -> None:
    many = [one for i in range(9) for one in [make_result(suite=f"a_rather_long_suite_name_{i}")]]
    assert len(title(plan(many).made)) <= 128
    assert title(plan(results).made) == "dpicl: quick v1, embedded"


def test_a_report_is_saved_and_then_replaced(results: list[Result], server: StubServer, runs_folder: Path) -> None:
    server.runs["there"] = Run("there", "leaderboard")  # a project is there once it has a run
    what, to = plan(results), destination("leaderboard", None, "online", runs_folder)
    assert saver(what.made, what.rows, to)().startswith(f"Report: {server.url}/")
    (first,) = server.reports.values()
    assert first["displayName"] == "dpicl: quick v1, embedded" and "tang" in first["spec"]
    changed = plan([*results, make_result("pta", 0.75), make_result("pta", 0.75, seed=1)])
    saver(changed.made, changed.rows, to)()
    (second,) = server.reports.values()
    assert second["id"] == first["id"] and "pta" in second["spec"] and "pta" not in first["spec"]
