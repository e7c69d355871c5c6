"""Controls that read records: they are told from methods, and a row names the control that is above it."""

import csv
import io

import pytest

from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.model.marks import CONTROL, OWN_READER, marks_of
from dpicl.leaderboards.render.as_json import board_json
from dpicl.leaderboards.render.columns import rows_frame, to_csv
from tests.leaderboards.factory import ends, invert_metric, make_result, repeat
from tests.leaderboards.shown import render_terminal

SCORES = {"tang": 0.7, "pta": 0.5, "topic_words": 0.8}


def make_table(scores=SCORES, change=lambda result: result, metric="acc_calibrated"):
    """A board of one task with public demonstrations at 0.6; of each ε the scores, those at 8 lower by 0.1."""
    same = {"documents": 100, "metric": metric}
    rows = [*ends(zero_shot=0.3, real_data=0.9, **same)]
    rows.append(make_result("public_demonstrations", 0.6, epsilon=0.0, **same))
    for name, score in scores.items():
        options = {"embedding": "embedded"} if name == "one_vote" else {}
        for epsilon, value in ((1.0, score), (8.0, score - 0.1)):
            rows.append(make_result(name, value, epsilon=epsilon, options=options, **same))
    return build_board([change(result) for result in repeat(rows)])


def test_a_control_is_known_by_its_mechanism():
    assert CONTROL in marks_of([make_result("topic_words")])
    assert CONTROL not in marks_of(
        [make_result("topic_words", plugin="a" * 64), make_result("tang")]
    )
    vote = make_result("one_vote", metric="acc_nearest", options={"embedding": "embedded"})
    assert {CONTROL, OWN_READER} <= {*marks_of([vote])}


def test_no_control_is_advised_where_there_are_methods():
    (answer, _) = make_table().sections[0].answers
    assert [one.label for one in answer.best] == [
        "tang"
    ] and answer.verdict == "better than the other"
    assert [str(one) for one in answer.controls] == ["topic_words (0.800)"]
    (alone, _) = make_table({"topic_words": 0.8}).sections[0].answers
    assert [one.label for one in alone.best] == ["topic_words"]


def test_a_row_names_the_highest_control_above_it():
    (table,) = make_table().sections[0].tables
    assert {row.key: row.beaten_by for row in table.rows} == {
        ("public_demonstrations", 0.0): "",
        ("topic_words", 1.0): "",
        ("tang", 1.0): "topic_words (0.800)",
        ("pta", 1.0): "topic_words (0.800)",
        ("topic_words", 8.0): "",
        ("tang", 8.0): "topic_words (0.700)",
        ("pta", 8.0): "topic_words (0.700)",
    }
    (table,) = make_table({"tang": 0.6, "pta": 0.5}).sections[0].tables
    beaten = {row.key: row.beaten_by for row in table.rows if row.beaten_by}
    assert beaten == dict.fromkeys(
        (("pta", 1.0), ("tang", 8.0), ("pta", 8.0)), "public_demonstrations (0.600)"
    )


def test_where_lower_is_better_a_lower_control_is_above():
    (table,) = make_table({"tang": 0.5, "topic_words": 0.9}, invert_metric).sections[0].tables
    shown = {row.label: row.beaten_by for row in table.rows if row.epsilon == 1}
    assert shown == {"tang": "topic_words (0.100)", "topic_words": ""}


def test_a_control_that_the_metric_favours_has_its_sign():
    (table,) = make_table({"tang": 0.5, "one_vote": 0.9}, metric="acc_nearest").sections[0].tables
    assert {row.beaten_by for row in table.rows if row.label == "tang" and row.epsilon == 1} == {
        "one_vote ¶ (0.900)"
    }


@pytest.mark.parametrize("scores", [SCORES, {"tang": 0.8, "topic_words": 0.65}])
def test_every_output_of_rows_has_it(scores):
    board = make_table(scores)
    expected = [row.beaten_by for row in board.sections[0].tables[0].in_order]
    text = " ".join(render_terminal(board, False, full=True).split())
    assert ("topic_words (0.800)" in text) is ("topic_words (0.800)" in expected)
    rows = board_json(board)["sections"][0]["tasks"][0]["rows"]
    lines = csv.DictReader(io.StringIO(to_csv(rows_frame(board))))
    for output in (rows, lines):
        assert [row["beaten_by"] for row in output] == expected
