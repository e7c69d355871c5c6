"""The claims that a suite plans: tested on every task, by Holm over all of them, and nothing else."""

from __future__ import annotations

import pytest

from dpicl.evaluation.statistics import holm
from dpicl.leaderboards.model.board import build_board, choose_part
from dpicl.leaderboards.model.evidence import Evidence
from dpicl.leaderboards.render.addresses import claim_page
from dpicl.leaderboards.render.as_json import board_json
from dpicl.leaderboards.render.charts import contrast_panel
from dpicl.leaderboards.render.html import pages, write_site
from dpicl.plan.suite_rows import Contrast
from tests.leaderboards.factory import ends, invert_metric, make_result, repeat
from tests.leaderboards.shown import render_terminal
from tests.leaderboards.site_factory import Page

TASKS = ("agnews", "trec")
PLANNED = [
    Contrast(name="first", better="tang", than="pta", tasks=[*TASKS], epsilon=1.0),
    Contrast(name="second", better="pta", than="real_demonstrations", tasks=["trec"], epsilon=1.0),
]


def results(seeds=10):
    rows = []
    for task, score in zip(TASKS, (0.8, 0.42), strict=True):
        same = {"task": task, "documents": 50}
        rows += [
            *ends(task, 0.3, 0.9, documents=50),
            make_result("tang", score, **same),
            make_result("pta", 0.4, **same),
        ]
        rows.append(make_result("tang", 0.1, epsilon=8.0, **same))
    return repeat(rows, seeds)


def contrasts(rows, planned=PLANNED):
    return build_board(rows, contrasts=planned).sections[0].contrasts


def test_every_planned_pair_is_tested_on_every_task():
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


def test_claims_whose_cells_are_missing_count_too():
    (there, *_) = contrasts([one for one in results() if one.cell.task == "agnews"])
    assert there.family == 3
    assert there.test.adjusted == 3 * max(there.test.p, there.test.flips)


def test_there_is_no_verdict_without_seeds_controls_or_a_rank():
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
    assert "Holm over all 3, tested or not" in " ".join(render_terminal(board).split())
    assert "Planned claims" in pages(board)["index.html"]
    (section,) = board_json(board)["sections"]
    assert section["contrasts"][0]["verdict"] == "shown"
    assert {one.task for one in choose_part(board, tasks=["trec"]).sections[0].contrasts} == {
        "trec"
    }
    assert "Planned claims" not in pages(build_board(results()))["index.html"]


def test_a_claim_has_a_page_with_its_verdicts_forest_limits_and_command(tmp_path):
    board = build_board(results(), contrasts=PLANNED)
    write_site({"quick": board}, tmp_path, Evidence())
    page = Page((tmp_path / claim_page("first")).read_text("utf-8"))
    words = " ".join(page.words.split())
    assert "Shown on agnews (quick 1); inconclusive on trec (quick 1)." in words
    assert "dpicl compare tang@1 pta@1 --suite quick" in words
    assert "All seeds read the same test records" in words
    assert any(tag == "img" for tag, _ in page.tags)
    assert {"../claims/index.html", "../index.html"} <= {*page.links}
    every = Page((tmp_path / "claims/index.html").read_text("utf-8"))
    assert {f"../{claim_page(name)}" for name in ("first", "second")} <= {*every.links}
    suite = Page((tmp_path / "quick/index.html").read_text("utf-8"))
    assert f"../{claim_page('second')}" in suite.links
    for file in tmp_path.rglob("*.html"):
        for link in Page(file.read_text("utf-8")).links:
            target = link.partition("#")[0]
            assert "://" in link or not target or (file.parent / target).exists(), (file, link)


def test_a_claim_without_a_test_has_a_page_without_a_forest(tmp_path):
    write_site({"quick": build_board(results(9), contrasts=PLANNED)}, tmp_path, Evidence())
    page = Page((tmp_path / claim_page("first")).read_text("utf-8"))
    assert "No verdict yet." in page.words and not any(tag == "img" for tag, _ in page.tags)
    assert "9 common seeds of the 10 that it needs" in page.words


def test_differences_stand_on_the_side_of_the_better_row_and_black_where_one_is_shown():
    shown, open_, opposite = contrasts(results())
    panel = contrast_panel([(one.task, one) for one in (shown, open_, opposite)])
    points = panel["data"]["values"]
    assert [point["x"] > 0 for point in points] == [True, True, False]
    assert points[0]["ink"] == points[2]["ink"] != points[1]["ink"]
    low, high = panel["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert low == -high and all(low < point["low"] <= point["high"] < high for point in points)
