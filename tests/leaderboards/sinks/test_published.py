"""What is published, as a pure step from results."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from dpicl.leaderboards.model.evidence import Evidence
from dpicl.leaderboards.publish.payload import Published
from dpicl.leaderboards.publish.publish import plan
from dpicl.results.schema import Result
from tests.leaderboards.attack_factory import make_attack
from tests.leaderboards.factory import ends, make_result


def row_of(results: list[Result], label: str = "tang", **more: Any) -> Published:
    (found,) = [row for row in plan(results, **more).rows if row.config["row"] == label]
    return found


def seeds_of(results: list[Result]) -> list[dict[str, Any]]:
    """The lines of the board's table of every seed."""
    (board,) = plan(results).boards
    heads, lines = board.seeds
    return [dict(zip(heads, line, strict=True)) for line in lines]


def test_a_row_has_one_line_for_each_epsilon_that_rises_and_the_numbers_of_the_board(results: list[Result]) -> None:
    row = row_of(results)
    assert [line["epsilon"] for line in row.rows] == [1.0, 8.0] and all(line["seeds"] == 2 for line in row.rows)
    for line in row.rows:
        own = [one for one in seeds_of(results) if one["row"] == "tang" and one["epsilon"] == line["epsilon"]]
        assert line["score"] == pytest.approx(sum(one["score"] for one in own) / 2)
        assert line["score"] == row.summary[f"score/eps={line['epsilon']:g}"]
        assert line["score_low"] <= line["score"] <= line["score_high"]
        assert line["epsilon_proved"] == max(one["epsilon_proved"] for one in own)
        assert line["cells"].split() == [one["cell"] for one in own]


def test_every_seed_has_the_numbers_of_its_file_and_stands_in_a_table(results: list[Result]) -> None:
    own = {one.cell_id: one for one in results}
    tang = [line for line in seeds_of(results) if line["row"] == "tang"]
    assert [(line["epsilon"], line["seed"]) for line in tang] == [(1.0, 0), (1.0, 1), (8.0, 0), (8.0, 1)]
    for line in tang:
        result = own[line["cell"]]
        score = result.scores["acc_calibrated"]
        assert (line["epsilon"], line["seed"]) == (result.cell.epsilon, result.cell.seed)
        assert (line["score"], line["score_low"], line["score_high"]) == (score.value, score.low, score.high)
        assert line["epsilon_proved"] == result.privacy.epsilon_proved
        assert line["seconds"] == 15.0 and line["tokens_read"] == 12345
    assert {line["cell"] for line in seeds_of(results)} == {*own}


def test_a_chart_has_the_mechanisms_side_by_side(results: list[Result]) -> None:
    (board,) = plan(results).boards
    assert set(board.charts) == {"agnews at eps=1", "agnews at eps=8"}
    assert all(png.startswith(b"\x89PNG") for png in board.charts.values())


def test_the_recovery_of_a_line_is_taken_at_its_own_seed_where_both_ends_are() -> None:
    scores = [*ends(zero_shot=0.4, real_data=0.8), *ends(zero_shot=0.2, real_data=0.7, seed=1)]
    lines = seeds_of([*scores, make_result(score=0.6), make_result(score=0.6, seed=1)])
    assert [one["recovery"] for one in lines if one["row"] == "tang"] == [pytest.approx(0.5), pytest.approx(0.8)]
    row = row_of([make_result("zero_shot", 0.4), make_result(score=0.6)])
    assert "recovery" not in row.rows[0] and "recovery/eps=1" not in row.summary


def test_the_summary_is_what_the_board_says(results: list[Result]) -> None:
    what = plan(results)
    table = what.made[0].sections[0].tables[0]
    row = row_of(results)
    for own in table.rows:
        at = f"eps={own.epsilon:g}"
        assert row.summary[f"score/{at}"] == own.score
        assert row.summary[f"recovery/{at}"] == own.recovery
        assert row.summary[f"proved_epsilon/{at}"] == own.proved
        assert row.summary[f"seeds/{at}"] == 2
    assert row.summary["score/eps=1"] == pytest.approx(0.55)
    assert row.summary["best_score"] == pytest.approx(0.7) and row.summary["best_score_epsilon"] == 8.0


def test_no_number_is_infinite_or_a_text(results: list[Result]) -> None:
    what = plan(results)
    for thing in (*what.rows, *what.boards):
        json.dumps([thing.config, list(thing.rows)], allow_nan=False)
    for row in what.rows:
        assert all(isinstance(value, float | int) and math.isfinite(value) for value in row.summary.values())
        texts = {name for line in row.rows for name, value in line.items() if isinstance(value, str)}
        assert texts == {"epsilon_text", "cells"}
    real = row_of(results, "real_demonstrations")
    assert all("epsilon" not in line and line["epsilon_text"] == "∞" for line in real.rows)
    assert real.job_type == "end of the scale" and "best_score_epsilon" not in real.summary


def test_a_run_is_what_a_row_stands_for_and_its_content_what_it_holds(
    results: list[Result], changed: list[Result]
) -> None:
    def of(results: list[Result]) -> dict[str, str]:
        return {thing.row: thing.content for thing in (*plan(results).rows, *plan(results).boards)}

    assert of(results) == of(results[::-1]) and of(results).keys() == of(changed).keys()
    assert (
        row_of(results).content
        == row_of([*results, make_result("pta", 0.75), make_result("pta", 0.75, seed=1)]).content
    )
    assert row_of(results).content != row_of(changed).content
    assert row_of(results, "zero_shot").content == row_of(changed, "zero_shot").content


@pytest.mark.parametrize("more", [{"suite_hash": "b" * 64}, {"source": "local"}, {"delta": 1e-6}, {"mode": "paper"}])
def test_what_may_not_be_compared_is_another_row(more: dict[str, Any]) -> None:
    assert row_of([make_result()]).row != row_of([make_result(**more)]).row


def test_the_audited_epsilon_stands_in_line_and_summary(results: list[Result]) -> None:
    row = row_of(results, evidence=Evidence((make_attack(epsilon=1.0, audited=0.4),)))
    assert row.summary["audited_epsilon/eps=1"] == 0.4 and "audited_epsilon/eps=8" not in row.summary
    assert [line.get("epsilon_audited") for line in row.rows] == [0.4, None]


def test_released_texts_are_in_the_result_files_alone_and_the_machine_nowhere(results: list[Result]) -> None:
    what = plan(results)
    rows = json.dumps([vars(row) for row in what.rows])
    assert "a released text" not in rows and "a processor" not in rows
    files = what.boards[0].files
    assert sum("a released text" in text for text in files.values()) == 4 and len(files) == len(results)


def test_hostile_names_are_cut_and_shown() -> None:
    row = row_of([make_result(label="x‮" + "y" * 100_000)], "x‮" + "y" * 100_000)
    assert len(row.name) < 200 and "‮" not in row.name
    assert all(len(tag) <= 64 for tag in row.tags)
