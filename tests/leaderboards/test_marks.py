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
def test_rows_that_are_not_known_to_be_read_alone_are_proved_up_to_rounding(alone, queries, dtype):
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
    both = [change(one, ALONE, seen) for one, seen in zip(alone, (None, False), strict=True)]
    board = build_board([*alone, *both])
    assert [(s.group.up_to_rounding, len(s.tables[0].rows)) for s in board.sections] == [
        (False, 2),
        (True, 2),
    ]
    assert len([name for name in pages(board) if name.startswith("rows/")]) == 4
    published = plan([*alone, *both]).runs
    assert (
        len({str(run.stands_for) for run in published}) == 6
        and len({run.group for run in published}) == 2
    )
    boards = [run for run in published if run.job_type == "board"]
    assert [run.config.get("up_to_rounding", False) for run in boards] == [False, True]


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
    own = [make_result("mine", 0.7, plugin="e" * 64), make_result("tang", 0.6)]
    return [change(one, ALONE, None) for one in (*ends(), *own)]


def test_the_mark_stands_at_the_row_in_every_output(results):
    wanted = {"mine": [ROUNDING.name, NOT_CHECKED.name], "tang": [ROUNDING.name]}
    wanted |= {"zero_shot": [], "real_demonstrations": []}
    board = build_board(results)
    text, files = render_terminal(board, color=False), pages(board)
    assert any(line.split()[:1] == ["mine"] and "≈‡" in line for line in text.splitlines())
    table = board_json(board)["sections"][0]["tasks"][0]
    assert {row["label"]: row["marks"] for row in table["rows"]} == wanted
    from_csv = csv.DictReader(io.StringIO(files["board.csv"]))
    assert {line["label"]: line["marks"] for line in from_csv} == {
        name: "; ".join(own) for name, own in wanted.items()
    }
    *rows, board_run = plan(results).runs
    assert {run.config["row"]: run.config["marks"] for run in rows} == wanted
    published = board_run.table
    assert {line["row"]: line["marks"] for line in published} == {
        name: "; ".join(own) for name, own in wanted.items()
    }
    page = Page(files["index.html"])
    assert "mine ≈‡" in page.words and "tang ≈" in page.words and "zero_shot ≈" not in page.words
    (own,) = [Page(text) for name, text in files.items() if name.startswith("rows/mine")]
    assert ROUNDING.why in own.words and NOT_CHECKED.why in own.words


def test_committed_results_were_read_alone_and_are_not_marked():
    folder = Path(__file__).resolve().parents[2] / "results" / "open"
    found = [from_text(path.read_text("utf-8")) for path in folder.glob("*/tang/agnews/*.json")]
    assert {(one.manifest.model.batch_invariant, is_up_to_rounding(one)) for one in found} == {
        (True, False)
    }


def options(result: Result, **own: object) -> Result:
    return change(result, "cell.options", own)


def test_a_row_whose_seeds_share_one_sampling_draw_is_marked_and_in_no_rank_set():
    shared = repeat([options(make_result("voting", 0.9, queries=20), sampling_seed=0)])
    drawn = repeat([options(make_result(name, 0.5), sampling_seed=None) for name in "ab"])
    control = repeat([make_result("zero_shot", 0.4)])
    ranked = {
        row.label: row
        for row in build_board([*shared, *drawn, *control]).sections[0].tables[0].rows
    }
    assert ranked["voting"].marks == (FIXED_DRAW,) and ranked["voting"].unranked == FIXED_DRAW.name
    assert ranked["voting"].rank is None and ranked["a"].rank.high == 2 and ranked["a"].marks == ()


def test_a_public_control_is_compared_where_its_texts_are_drawn_anew():
    own = repeat([make_result("tang", 0.6)])
    drawn = repeat([make_result("public_demonstrations", 0.5, epsilon=0.0)])
    frozen = [change(one, "released", drawn[0].released) for one in drawn]
    likeliest = [options(one, greedy=True) for one in frozen]  # the same whatever is drawn
    labels = [change(one, "text", one.label) for one in drawn[0].released]
    repeated = [change(one, "released", labels) for one in drawn]  # a constant, and no draw
    for control, compared in ((drawn, True), (frozen, False), (likeliest, True), (repeated, True)):
        section = build_board([*own, *control]).sections[0]
        row = next(row for row in section.tables[0].rows if row.label == "tang")
        assert (row.against_public is not None) is compared
        assert "public_demonstrations" in to_text([answers_table(section)])
        assert [one.label for one in section.answers[0].not_compared] == (
            [] if compared else [control[0].cell.label]
        )


def test_rows_are_compared_with_the_public_control_itself_and_not_with_a_better_variant_of_it():
    name, scores = "public_demonstrations", {"public_demonstrations": 0.3, "public_greedy": 0.8}
    controls = repeat(
        make_result(name, score, label=label, epsilon=0.0) for label, score in scores.items()
    )
    section = build_board([*repeat([make_result("tang", 0.6)]), *controls]).sections[0]
    assert next(
        row.against_public.value for row in section.rows if row.label == "tang"
    ) == pytest.approx(0.3, abs=0.01)
