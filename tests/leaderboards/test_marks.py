"""What weakens a proved ε: by rules over results, in every output."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import pytest

from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.model.comparability import group_of, value_of
from dpicl.leaderboards.model.marks import (
    FIXED_DRAW,
    NOT_CHECKED,
    ROUNDING,
    is_up_to_rounding,
    is_vouched,
    marks_of,
)
from dpicl.leaderboards.publish.runs import plan
from dpicl.leaderboards.render.as_json import board_json
from dpicl.leaderboards.render.board_tables import answers_table
from dpicl.leaderboards.render.html import pages
from dpicl.results.schema import Result, from_text
from dpicl.tables.console import to_text
from tests.leaderboards.factory import change, ends, make_result, repeat
from tests.leaderboards.shown import render_terminal
from tests.leaderboards.site_factory import Page

GAUSSIAN = {"event": "gaussian", "noise_multiplier": 2.0}
NONE = {"event": "none"}
ALONE = "manifest.model.batch_invariant"


def make_with_event(event: dict[str, object], **more: object) -> Result:
    return change(make_result("somebody", 0.6, **more), "privacy.event", event)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("queries", [None, 20])
@pytest.mark.parametrize("alone", [True, False, None])
def test_rows_not_read_alone_are_proved_up_to_rounding(alone, queries, dtype):
    """One rule for the mark, for which rows share a ranking, and for which attacks are about a row."""
    result = make_with_event(GAUSSIAN, dtype=dtype, queries=queries, batch_invariant=alone)
    assert is_up_to_rounding(result) is (alone is not True)
    assert group_of(result).up_to_rounding is (alone is not True)
    assert value_of(result, "batch invariance") is (alone is True)


def test_ends_and_free_releases_are_not():
    assert not any(is_up_to_rounding(change(one, ALONE, None)) for one in ends())
    assert not is_up_to_rounding(
        make_with_event(GAUSSIAN, epsilon=math.inf, proved=math.inf, batch_invariant=None)
    )


def test_rows_of_both_kinds_share_no_ranking_no_page_and_no_run():
    """Unknown ones stand with those that are known to move each other."""
    alone = [make_result("tang", 0.6), make_result("pta", 0.5)]
    both = [*alone, change(alone[0], ALONE, None), change(alone[1], ALONE, False)]
    board = build_board(both)
    rows = {one.group.up_to_rounding: len(one.tables[0].rows) for one in board.sections}
    assert rows == {False: 2, True: 2}
    assert len([name for name in pages(board) if name.startswith("rows/")]) == 4
    runs = plan(both).runs
    assert len({str(run.stands_for) for run in runs}) == 6
    assert len({run.group for run in runs}) == 2
    boards = [run.config for run in runs if run.job_type == "board"]
    assert [config.get("up_to_rounding", False) for config in boards] == [False, True]


@pytest.mark.parametrize(
    ("event", "private"),
    [
        (NONE, False),
        ({"event": "repeat", "count": 3, "of": NONE}, False),
        ({"event": "parallel", "of": {"World": NONE, "event": NONE}}, False),
        ({"event": "parallel", "of": {"none": NONE, "event": GAUSSIAN}}, True),
        (
            {"event": "compose", "of": [NONE, {"event": "poisson", "rate": 0.1, "of": GAUSSIAN}]},
            True,
        ),
        ({"event": "epsilon_delta", "epsilon": 1.0, "delta": 0.0}, True),
        ({"event": "of a kind that is not known"}, True),
    ],
)
def test_only_an_event_that_is_private_is_marked(event, private):
    assert is_up_to_rounding(make_with_event(event, batch_invariant=None)) is private


def test_an_event_of_any_depth_is_read():
    event: dict[str, object] = GAUSSIAN
    for _ in range(5000):
        event = {"event": "repeat", "count": 1, "of": event}
    assert is_up_to_rounding(make_with_event(event, batch_invariant=None))


def test_a_plug_in_without_a_recorded_check_is_not_checked():
    assert is_vouched(make_result("tang", 0.6)) is None
    assert is_vouched(make_result("mine", 0.6, plugin="e" * 64)) is False
    assert marks_of([make_result("mine", 0.6, plugin="e" * 64)]) == (NOT_CHECKED,)


def test_one_seed_that_was_not_read_alone_is_enough():
    alone, not_alone = (
        make_result("tang", 0.6),
        make_result("tang", 0.6, seed=1, batch_invariant=None),
    )
    assert marks_of([alone, alone]) == ()
    assert marks_of([alone, not_alone]) == (ROUNDING,)


@pytest.fixture
def results() -> list[Result]:
    """A row with both marks, one with the first; the ends of the scale have none."""
    rows = [make_result("mine", 0.7, plugin="e" * 64), make_result("tang", 0.6)]
    return [change(one, ALONE, None) for one in (*ends(), *rows)]


def test_the_mark_stands_at_the_row_in_every_output(results):
    both = [ROUNDING.name, NOT_CHECKED.name]
    marks = {"mine": both, "tang": both[:1], "zero_shot": [], "real_demonstrations": []}
    joined = {label: "; ".join(names) for label, names in marks.items()}
    board = build_board(results)
    files = pages(board)
    lines = render_terminal(board, color=False).splitlines()
    assert any(line.split()[:1] == ["mine"] and "≈‡" in line for line in lines)
    rows = board_json(board)["sections"][0]["tasks"][0]["rows"]
    assert {row["label"]: row["marks"] for row in rows} == marks
    from_csv = csv.DictReader(io.StringIO(files["board.csv"]))
    assert {line["label"]: line["marks"] for line in from_csv} == joined
    *runs, board_run = plan(results).runs
    assert {run.config["row"]: run.config["marks"] for run in runs} == marks
    assert {line["row"]: line["marks"] for line in board_run.table} == joined
    words = Page(files["index.html"]).words
    assert "mine ≈‡" in words and "tang ≈" in words and "zero_shot ≈" not in words
    (row,) = [Page(text) for name, text in files.items() if name.startswith("rows/mine")]
    assert ROUNDING.why in row.words and NOT_CHECKED.why in row.words


def test_committed_results_were_read_alone_and_are_not_marked():
    folder = Path(__file__).resolve().parents[2] / "results" / "open"
    results = [from_text(path.read_text("utf-8")) for path in folder.glob("*/tang/agnews/*.json")]
    assert {(one.manifest.model.batch_invariant, is_up_to_rounding(one)) for one in results} == {
        (True, False)
    }


def options(result: Result, **values: object) -> Result:
    return change(result, "cell.options", values)


def test_a_row_whose_seeds_share_one_sampling_draw_has_no_rank():
    shared = repeat([options(make_result("voting", 0.9, queries=20), sampling_seed=0)])
    drawn = repeat([options(make_result(name, 0.5), sampling_seed=None) for name in "ab"])
    (section,) = build_board([*shared, *drawn, *repeat([make_result("zero_shot", 0.4)])]).sections
    rows = {row.label: row for row in section.rows}
    assert rows["voting"].marks == (FIXED_DRAW,) and rows["voting"].unranked == FIXED_DRAW.name
    assert rows["voting"].rank is None and rows["a"].rank.high == 2 and rows["a"].marks == ()


def test_a_public_control_is_compared_if_texts_are_drawn_anew():
    rows = repeat([make_result("tang", 0.6)])
    drawn = repeat([make_result("public_demonstrations", 0.5, epsilon=0.0)])
    texts = drawn[0].released
    frozen = [change(one, "released", texts) for one in drawn]
    likeliest = [options(one, greedy=True) for one in frozen]  # the same whatever is drawn
    labels = [change(one, "text", one.label) for one in texts]
    repeated = [change(one, "released", labels) for one in drawn]  # a constant, and no draw
    for control, compared in ((drawn, True), (frozen, False), (likeliest, True), (repeated, True)):
        (section,) = build_board([*rows, *control]).sections
        (answer, *_), (row,) = section.answers, [one for one in section.rows if one.label == "tang"]
        assert (row.against_public is not None) is compared
        assert "public_demonstrations" in to_text([answers_table(section)])
        left_out = [] if compared else ["public_demonstrations"]
        assert [one.label for one in answer.not_compared] == left_out


def test_rows_are_compared_with_the_public_control_itself():
    """And not with a better variant of it."""
    name, scores = "public_demonstrations", {"public_demonstrations": 0.3, "public_greedy": 0.8}
    controls = [
        make_result(name, score, label=label, epsilon=0.0) for label, score in scores.items()
    ]
    (section,) = build_board(repeat([make_result("tang", 0.6), *controls])).sections
    (row,) = [row for row in section.rows if row.label == "tang"]
    assert row.against_public.value == pytest.approx(0.3, abs=0.01)
