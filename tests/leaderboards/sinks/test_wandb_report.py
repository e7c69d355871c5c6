"""The report, by the specification that wandb-workspaces makes of it."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from dpicl.harness.core.errors import UsageError
from dpicl.harness.run.results import Result
from dpicl.leaderboards.publish import wandb_report
from dpicl.leaderboards.publish.publish import plan
from dpicl.leaderboards.publish.wandb_report import build_report, saver
from dpicl.leaderboards.publish.wandb_settings import Destination
from tests.leaderboards.factory import make_result

reports = pytest.importorskip("wandb_workspaces.reports.v2")


def report_of(results: list[Result]) -> Any:
    what = plan(results)
    return build_report(reports, what.made, what.rows, entity="somebody", project="leaderboard")


def block(results: list[Result], kind: str) -> dict[str, Any]:
    spec = json.loads(report_of(results)._to_model().spec.model_dump_json(by_alias=True, exclude_none=True))
    (found,) = [block for block in spec["blocks"] if block["type"] == kind]
    return dict(found)


def test_the_table_has_the_rows_of_the_board(results: list[Result]) -> None:
    table = block(results, "markdown-block")
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table["content"].splitlines()]
    assert [line[:3] for line in lines[2:]] == [
        ["zero_shot", "0", "0"],
        ["tang", "1", "0.99"],
        ["tang", "8", "7.9"],
        ["real_demonstrations", "∞", "∞"],
    ]
    assert lines[3][4] == "0.550" and lines[3][6] == "38%"


def test_the_plots_show_numbers_of_the_published_runs_and_of_no_others(results: list[Result]) -> None:
    grid, rows = block(results, "panel-grid")["metadata"], plan(results).rows
    (condition,) = grid["runSets"][0]["filters"]["filters"]
    assert condition["key"] == {"section": "run", "name": "name"} and condition["op"] == "IN"
    assert condition["value"] == [row.id for row in rows]
    scatter, line = (panel["config"] for panel in grid["panelBankSectionConfig"]["panels"])
    assert (scatter["xAxis"], scatter["yAxis"]) == ("summary:largest_proved_epsilon", "summary:best_score")
    assert line["xAxis"] == "epsilon" and line["metrics"] == ["score"]
    (row,) = [row for row in rows if row.config["row"] == "tang"]
    assert {"best_score", "largest_proved_epsilon"} <= set(row.summary) and {"score", "epsilon"} <= set(row.rows[0])


def test_strange_names_cannot_be_read_as_markdown_and_long_titles_are_cut(results: list[Result]) -> None:
    table = block([*results, make_result(label="<script>x|[y](z)`")], "markdown-block")
    assert r"\<script\>x\|\[y\](z)\`" in table["content"]
    assert len(report_of([make_result(suite=f"a_rather_long_suite_name_{i}") for i in range(9)]).title) <= 128


def test_a_report_of_the_same_title_is_replaced(results: list[Result], monkeypatch: pytest.MonkeyPatch) -> None:
    older = [
        SimpleNamespace(display_name="another", id="1"),
        SimpleNamespace(display_name=report_of(results).title, id="2"),
    ]
    api = SimpleNamespace(default_entity="somebody", reports=lambda path: older if path == "somebody/p" else [])
    monkeypatch.setattr(wandb_report, "load_wandb", lambda: SimpleNamespace(Api=lambda timeout: api))
    saved: list[Any] = []
    monkeypatch.setattr(reports.Report, "url", "https://wandb.example/2")
    monkeypatch.setattr(reports.Report, "save", lambda report: saved.append(report))
    what = plan(results)
    assert saver(what.made, what.rows, Destination("p", None, "online", None))() == "Report: https://wandb.example/2"
    assert [report.id for report in saved] == ["2"]
    monkeypatch.setitem(sys.modules, "wandb_workspaces.reports.v2", None)
    with pytest.raises(UsageError, match="wandb-workspaces"):
        saver(what.made, what.rows, Destination("p", None, "online", None))
