"""The claims that a suite plans: tested on every task, by Holm over all of them, and nothing else."""

from __future__ import annotations

import pytest

from dpicl.evaluation.statistics import holm
from dpicl.leaderboards.model.board import build_board, choose_part
from dpicl.leaderboards.render.as_json import board_json
from dpicl.leaderboards.render.html import pages
from dpicl.plan.suite_rows import Contrast
from tests.leaderboards.factory import ends, invert_metric, make_result, repeat
from tests.leaderboards.shown import render_terminal

TASKS = ("agnews", "trec")
PLANNED = [
    Contrast(name="first", better="tang", than="pta", tasks=[*TASKS], epsilon=1.0),
    Contrast(name="second", better="pta", than="real_demonstrations", tasks=["trec"], epsilon=1.0),
]


def results(seeds=10):
    found = []
    for task, score in zip(TASKS, (0.8, 0.42), strict=True):
        same = {"task": task, "documents": 50}
        found += [
            *ends(task, 0.3, 0.9, documents=50),
            make_result("tang", score, **same),
            make_result("pta", 0.4, **same),
        ]
        found.append(make_result("tang", 0.1, epsilon=8.0, **same))
    return repeat(found, seeds)


def contrasts(found, planned=PLANNED):
    return build_board(found, contrasts=planned).sections[0].contrasts


def test_every_planned_pair_is_tested_on_every_task_and_holm_counts_them_alone():
    tested = contrasts(results())
    assert [(one.name, one.task) for one in tested] == [
        ("first", "agnews"),
        ("first", "trec"),
        ("second", "trec"),
    ]
    assert [one.verdict for one in tested] == ["shown", "inconclusive", "the opposite is shown"]
    assert [one.test.adjusted for one in tested] == holm(
        [max(one.test.p, one.test.flips) for one in tested]
    )
    assert tested[0].test.mean == pytest.approx(0.4) and tested[0].better == "tang at ε = 1"
    (lower, *_) = contrasts([invert_metric(one) for one in results()])
    assert lower.verdict == "shown" and lower.test.mean == pytest.approx(0.4)


def test_there_is_no_verdict_below_ten_seeds_without_controls_and_of_a_row_without_a_rank():
    (few, *_) = contrasts(results(9))
    assert few.verdict == "no verdict: 9 common seeds of the 10 that it needs"
    (alone, *_) = contrasts([one for one in results() if one.cell.mechanism != "zero_shot"])
    assert alone.verdict == "no verdict: no row that reads no record is there"
    loud = [
        one.model_copy(update={"privacy": one.privacy.model_copy(update={"epsilon_proved": 1.5})})
        if (one.cell.label, one.cell.epsilon) == ("tang", 1.0)
        else one
        for one in results()
    ]
    (over, *_) = contrasts(loud)
    assert over.verdict.startswith("no verdict: tang has no rank: its proved ε is above")


def test_every_output_has_them():
    board = build_board(results(), contrasts=PLANNED)
    assert "Holm over these 3" in " ".join(render_terminal(board).split())
    assert "Planned claims" in pages(board)["index.html"]
    (section,) = board_json(board)["sections"]
    assert section["contrasts"][0]["verdict"] == "shown"
    assert {one.task for one in choose_part(board, tasks=["trec"]).sections[0].contrasts} == {
        "trec"
    }
    assert "Planned claims" not in pages(build_board(results()))["index.html"]
