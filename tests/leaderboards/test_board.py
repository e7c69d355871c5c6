"""What may share a table, and what the terminal shows of it."""

import json

import pytest

from leaderboards.board import board_json, build_board, render_terminal
from tests.leaderboards.factory import ends, make_result

DIFFERENT = {
    "suite": {"suite": "other"},
    "suite content": {"suite_hash": "b" * 64},
    "model": {"model": "hf:gpt2"},
    "source of records": {"source": "local"},
    "δ": {"delta": 1e-6},
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_results_that_are_not_comparable_get_sections_of_their_own(what):
    change = DIFFERENT[what]
    board = build_board([*ends(), make_result("tang", 0.6), *ends(**change), make_result("tang", 0.9, **change)])
    assert len(board.sections) == 2
    for section in board.sections:
        (table,) = section.tables
        assert len(table.in_order) == 3
        assert len({row.results[0].suite.hash + row.results[0].cell.source for row in table.in_order}) == 1
    (note,) = board.notes
    assert what in note


def test_the_ends_of_one_section_never_serve_another():
    board = build_board([*ends(source="local"), make_result("tang", 0.6, source="synthetic")])
    synthetic = next(section for section in board.sections if section.group.source == "synthetic")
    assert synthetic.tables[0].rows[0].recovery is None
    assert len(synthetic.tables[0].missing) == 2


def test_simulated_models_never_stand_beside_real_ones():
    simulated = [*ends(model="sim"), make_result("tang", 0.99, model="sim")]
    board = build_board([*ends(), make_result("tang", 0.6), *simulated])
    assert [section.group.model for section in board.sections] == ["embedded"]
    assert any("3 results of a simulated model" in note for note in board.notes)


def test_a_board_of_a_simulated_model_alone_says_so():
    (section,) = build_board([*ends(model="sim"), make_result("tang", 0.6, model="sim")]).sections
    assert any("simulated" in note for note in section.notes)


def test_other_records_of_the_same_task_are_left_out_and_named():
    results = [*ends(), make_result("tang", 0.6), make_result("pta", 0.9, fingerprint="0" * 64)]
    (section,) = build_board(results).sections
    assert {row.label for row in section.tables[0].in_order} == {"zero_shot", "tang", "real_demonstrations"}
    assert section.notes == ("agnews: left out 1 result of pta: other records.",)


def test_fewer_test_records_are_left_out_and_named():
    (section,) = build_board([*ends(), make_result("tang", 0.6), make_result("pta", 0.9, documents=10)]).sections
    assert any("pta" in note and "number of test records" in note for note in section.notes)


def test_of_two_sets_of_options_the_newer_one_stays_where_both_have_as_many_results():
    old = make_result("tang", 0.5, options={"slots": 10}, created="2026-01-01T00:00:00+00:00")
    new = make_result("tang", 0.7, options={"slots": 20}, created="2026-02-01T00:00:00+00:00")
    for results in ([old, new], [new, old]):
        (section,) = build_board([*ends(), *results]).sections
        assert [row.score for row in section.tables[0].rows] == [0.7]
        assert any("options" in note for note in section.notes)


def test_rows_with_fewer_seeds_are_named():
    results = [*ends(seed=0), *ends(seed=1), make_result("tang", 0.6, seed=0), make_result("tang", 0.6, seed=1)]
    (section,) = build_board([*results, make_result("pta", 0.6, seed=1)]).sections
    assert "pta at ε = 1 on agnews has 1 of 2 seeds so far." in section.notes


def test_no_results_make_an_empty_board_that_says_what_to_run():
    board = build_board([])
    assert board.sections == ()
    assert "dpicl run quick" in render_terminal(board)


def test_terminal_shows_both_ends_intervals_and_how_to_go_on():
    text = render_terminal(build_board([*ends(), make_result("tang", 0.6, claimed=1.7)]))
    first, last = (next(line.split() for line in text.splitlines() if name in line) for name in ("zero_", "real_"))
    assert first[1:3] == ["0", "0"]
    assert last[1:3] == ["∞", "∞"]
    assert "dpicl board quick --html site" in text
    tang = next(line for line in text.splitlines() if line.split()[:1] == ["tang"])
    assert tang.split()[1:5] == ["1", "0.99", "1.7", "0.600"]
    assert "50%" in tang


def test_terminal_shows_a_missing_end_with_the_whole_command_on_one_line():
    text = render_terminal(build_board([make_result("tang", 0.6)]))
    assert text.count("missing  ") == 2
    command = "dpicl run quick --task agnews --mechanism zero_shot --model embedded --source synthetic"
    assert command in [line.strip() for line in text.splitlines()]


def test_terminal_is_plain_aligned_and_narrow_when_it_is_no_terminal():
    label = "a_row_with_a_name_that_is_much_longer_than_any_table_can_hold_in_its_first_column"
    results = [*ends(), make_result("tang", 0.6, label=label), make_result("tang", 0.5, label="x")]
    text = render_terminal(build_board(results), color=False)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 110
    for table in text.split("all tasks:"):
        rows = [line for line in table.splitlines() if "%" in line and "interval" not in line]
        assert len(rows) == 4
        assert len({line.index("%") for line in rows}) == 1
    assert "\x1b[" in render_terminal(build_board(results), color=True)


def test_names_cannot_move_the_cursor_of_a_terminal():
    text = render_terminal(build_board([*ends(), make_result("tang", 0.6, label="evil\x1b[2J\u202ename[bold]")]))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "⟨U+001B⟩" in text


def test_board_json_is_strict_json_without_released_texts():
    results = [*ends(), make_result("tang", 0.6, released=[("a very particular text", "World")])]
    text = json.dumps(board_json(build_board(results)), allow_nan=False)
    (section,) = json.loads(text)["sections"]
    assert section["group"]["source"] == "synthetic"
    rows = section["tasks"][0]["rows"]
    assert [row["epsilon"] for row in rows] == [0.0, 1.0, "Infinity"]
    assert rows[1]["recovery"] == pytest.approx(0.5)
    assert "a very particular text" not in text
