"""What is published, as a pure step from results."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.model.evidence import Evidence
from dpicl.leaderboards.publish.runs import Published, plan
from dpicl.results.schema import Result
from tests.leaderboards.attack_factory import make_attack
from tests.leaderboards.factory import make_result


def row_of(results: list[Result], label: str = "tang", **more: Any) -> Published:
    (found,) = [run for run in plan(results, **more).runs if run.config.get("row") == label]
    return found


def test_the_summary_and_the_table_are_what_the_board_says(results: list[Result]) -> None:
    row, table = row_of(results), build_board(results).sections[0].tables[0]
    lines = {(line["row"], line["epsilon"]): line for line in plan(results).runs[-1].table}
    for own in table.rows:
        at, line = f"eps={own.epsilon:g}", lines["tang", own.epsilon]
        for key, value in (
            ("score", own.score),
            ("score_low", own.low),
            ("recovery", own.recovery),
            ("proved", own.proved),
            ("seeds", 2),
        ):
            assert row.summary[f"{key}/{at}"] == line[key] == value
    assert row.summary["score/eps=1"] == pytest.approx(0.55)


def test_no_number_is_infinite_or_a_text(results: list[Result]) -> None:
    for run in plan(results).runs:
        json.dumps([run.config, list(run.table)], allow_nan=False)
        assert all(
            isinstance(value, float | int) and math.isfinite(value)
            for value in run.summary.values()
        )
    real = row_of(results, "real_demonstrations")
    assert (
        real.job_type == "row"
        and "score/eps=inf" in real.summary
        and "proved/eps=inf" not in real.summary
    )
    (line,) = [one for one in plan(results).runs[-1].table if one["row"] == "real_demonstrations"]
    assert line["epsilon"] is None and line["epsilon_text"] == "∞"


def test_a_run_is_what_a_row_stands_for_and_its_content_what_it_holds(
    results: list[Result], changed: list[Result]
) -> None:
    def of(results: list[Result]) -> dict[str, str]:
        return {json.dumps(run.stands_for): run.content for run in plan(results).runs}

    assert of(results) == of(results[::-1]) and of(results).keys() == of(changed).keys()
    others = [make_result("pta", 0.75), make_result("pta", 0.75, seed=1)]
    assert row_of(results).content == row_of([*results, *others]).content
    assert row_of(results).content != row_of(changed).content
    assert row_of(results, "zero_shot").content == row_of(changed, "zero_shot").content


@pytest.mark.parametrize(
    "more", [{"suite_hash": "b" * 64}, {"source": "local"}, {"delta": 1e-6}, {"model": "sim"}]
)
def test_what_may_not_be_compared_is_another_row(more: dict[str, Any]) -> None:
    assert row_of([make_result()]).stands_for != row_of([make_result(**more)]).stands_for


def test_a_row_is_a_curve_over_finite_epsilons_with_tags(results: list[Result]) -> None:
    row = row_of(results, evidence=Evidence((make_attack(epsilon=1.0, audited=0.4),)))
    assert [point["eps"] for point in row.curve] == [1.0, 8.0]
    assert row.curve[0]["score"] == row.summary["score/eps=1"] and row.curve[0]["audited"] == 0.4
    assert "audited" not in row.curve[1] and row.curve[1]["proved"] == 7.9
    assert row.tags == ["embedded", "quick v1", "agnews", "demonstrations"]
    assert row_of(results, "real_demonstrations").curve == []


def test_a_tag_is_no_longer_than_wandb_takes() -> None:
    row = row_of([make_result(model="hf:" + "m" * 200)])
    assert row.tags[0].startswith("hf:mmm") and max(map(len, row.tags)) == 64


def test_the_audited_epsilon_is_in_the_summary(results: list[Result]) -> None:
    row = row_of(results, evidence=Evidence((make_attack(epsilon=1.0, audited=0.4),)))
    assert row.summary["audited/eps=1"] == 0.4 and "audited/eps=8" not in row.summary


def test_texts_are_published_on_request_alone_and_nothing_of_the_machine_is(
    results: list[Result],
) -> None:
    def send(texts: bool) -> str:
        return json.dumps([vars(run) for run in plan(results, texts=texts).runs])

    assert "a released text" in send(True) and "a released text" not in send(False)
    assert "a processor" not in send(True)


def test_scores_of_two_models_are_a_trend_in_the_order_of_their_results() -> None:
    older = make_result("tang", 0.5, created="2026-01-01T00:00:00Z", model="hf:older")
    newer = make_result("tang", 0.6, created="2026-02-01T00:00:00Z", model="hf:newer")
    alone = make_result("pta", 0.7, created="2026-02-01T00:00:00Z", model="hf:newer")
    (trend,) = [run for run in plan([newer, alone, older]).runs if run.job_type == "trend"]
    assert trend.config["models"] == ["hf:older", "hf:newer"] and trend.axis == "release"
    name = "agnews/tang/eps=1"
    assert trend.curve == [{"release": 1, name: 0.5}, {"release": 2, name: 0.6}]
    assert {run.job_type for run in plan([older]).runs} == {"row", "board"}


def test_hostile_names_are_cut_and_shown() -> None:
    row = row_of([make_result(label="x\u202e" + "y" * 100_000)], "x\u202e" + "y" * 100_000)
    assert len(row.name) < 200 and "\u202e" not in row.name + row.notes and len(row.notes) < 600
