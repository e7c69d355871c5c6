"""What may share a table, and what the terminal shows of it."""

import re
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from dpicl.core.vocabulary import NEIGHBOURS
from dpicl.leaderboards.model.board import build_board
from dpicl.results.schema import Result
from dpicl.tables.console import to_text
from dpicl.tables.document import text_table
from tests.leaderboards.factory import change, ends, make_result
from tests.leaderboards.shown import render_terminal
from tests.leaderboards.site_factory import submission

DIFFERENT = {
    "suite": {"suite": "other"},
    "suite content": {"suite_hash": "b" * 64},
    "model": {"model": "hf:gpt2"},
    "source of records": {"source": "local"},
    "δ": {"delta": 1e-6},
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_results_that_are_not_comparable_get_other_sections(what):
    change = DIFFERENT[what]
    others = [*ends(**change), make_result("tang", 0.9, **change)]
    board = build_board([*ends(), make_result("tang", 0.6), *others])
    assert len(board.sections) == 2
    for section in board.sections:
        (table,) = section.tables
        results = [row.results[0] for row in table.in_order]
        assert len(results) == 3
        assert len({(result.suite.hash, result.cell.source) for result in results}) == 1
    (note,) = board.notes
    assert what in note


def test_the_section_with_most_private_rows_comes_first():
    """And of these the newest."""

    def list_models(*results):
        return [section.group.model for section in build_board(results).sections]

    private = [*ends(), make_result("tang", 0.6)]
    other = [change(one, "created", "2099-01-01T00:00:00Z") for one in ends(model="hf:gpt2")]
    assert list_models(*private, *other) == ["embedded", "hf:gpt2"]
    other.append(make_result("tang", 0.6, model="hf:gpt2"))
    assert list_models(*private, *other) == ["hf:gpt2", "embedded"]
    private.append(make_result("pta", 0.6))
    assert list_models(*private, *other) == ["embedded", "hf:gpt2"]


def test_the_ends_of_one_section_never_serve_another():
    board = build_board([*ends(source="local"), make_result("tang", 0.6, source="synthetic")])
    synthetic = next(section for section in board.sections if section.group.source == "synthetic")
    assert synthetic.tables[0].rows[0].recovery is None
    assert len(synthetic.tables[0].missing) == 2


def test_simulated_models_never_stand_beside_real_ones():
    simulated = [*ends(model="sim"), make_result("tang", 0.99, model="sim")]
    (section,) = build_board(simulated).sections
    assert any("simulated" in note for note in section.notes)
    board = build_board([*ends(), make_result("tang", 0.6), *simulated], submissions=[submission()])
    assert [section.group.model for section in board.sections] == ["embedded"]
    assert any("3 results of a simulated model" in note for note in board.notes)


@pytest.mark.parametrize(
    ("change", "name"),
    [({"fingerprint": "0" * 64}, "records"), ({"documents": 10}, "number of test records")],
)
def test_other_records_of_the_same_task_are_left_out_and_named(change, name):
    (section,) = build_board(
        [*ends(), make_result("tang", 0.6), make_result("pta", 0.9, **change)]
    ).sections
    assert {row.label for row in section.tables[0].in_order} == {
        "zero_shot",
        "tang",
        "real_demonstrations",
    }
    assert any("1 result of pta on agnews" in note and name in note for note in section.notes)


def test_of_two_sets_of_options_the_newer_one_stays():
    old = make_result("tang", 0.5, options={"slots": 10}, created="2026-01-01T00:00:00+00:00")
    new = make_result("tang", 0.7, options={"slots": 20}, created="2026-02-01T00:00:00+00:00")
    for results in ([old, new], [new, old]):
        (section,) = build_board([*ends(), *results]).sections
        assert [row.score for row in section.tables[0].rows] == [0.7]
        assert any("options" in note for note in section.notes)


def make_answering_rows(task="samsum", **more):
    """The reference baselines and an answer mechanism on a text task with six metrics."""
    text = {
        "task": task,
        "metric": "rougeL",
        "others": {"rouge1": 0.5, "rouge2": 0.3, "bleu1": 0.4, "meteor": 0.2, "similarity": 0.7},
    }
    answering = {
        "queries": 30,
        "per_query": 0.214,
        "claimed": 10.939,
        "aggregates": {"genre_distance": 0.25},
        **more,
    }
    return [
        *ends(**text),
        make_result("esa", 0.6, **text, **answering),
        make_result("tang", 0.5, **text),
    ]


def test_other_metrics_stand_in_tables_of_their_own(monkeypatch):
    monkeypatch.setenv("COLUMNS", "110")
    results = make_answering_rows(skipped={"meteor": "the word list is not installed."})
    text = render_terminal(build_board(results), color=False)
    tables = "\n".join(text.split("samsum: other metrics")[1:])
    rows = [line.split() for line in tables.splitlines() if line.split()[:1] == ["esa"]]
    scores = [word for row in rows for word in row if re.fullmatch(r"0\.\d{3}", word)]
    assert scores == ["0.500", "0.300", "0.400", "0.200", "0.700", "0.250"]
    assert "• METEOR has no score in 1 of 4 rows: the word list is not installed." in text
    two = [*ends(others={"acc": 0.5}), make_result("tang", 0.6, others={"acc": 0.5})]
    assert "other metrics" not in render_terminal(build_board(two))


def test_commands_name_the_suite_as_the_user_wrote_it():
    text = render_terminal(build_board([make_result("tang", 0.6)], asked="my suites/own.yaml"))
    assert "dpicl run 'my suites/own.yaml' --task agnews --mechanism zero_shot" in text
    assert "quick, version 1" in text


def test_a_result_of_other_neighbours_is_refused():
    good = make_result("tang", 0.6).model_dump(mode="json")
    assert Result.model_validate(good).privacy.neighbours == NEIGHBOURS
    for wrong in ({"neighbours": "replace one record"}, {"protected": "labels"}):
        with pytest.raises(ValidationError):
            Result.model_validate({**good, "privacy": {**good["privacy"], **wrong}})


@pytest.mark.parametrize("width", [60, 80, 110])
def test_tables_fit_the_terminal_and_no_number_is_cut(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    results = [
        *make_answering_rows(),
        make_result("a_mechanism_with_quite_a_name", 0.5, task="samsum", metric="rougeL"),
    ]
    text = render_terminal(build_board(results), color=False, attacks=True)
    lines = [line for line in text.splitlines() if "dpicl " not in line]
    assert max(map(len, lines)) <= width
    for number in ("10.939", "0.214", "0.99", "0.600", "0.250"):
        assert number in text


def test_intervals_and_equations_are_not_broken_over_two_lines(monkeypatch):
    monkeypatch.setenv("COLUMNS", "44")
    sentence = "AUC 0.61 [0.48, 0.73] and a share of 10% to 20% at ε = 0.125"
    lines = to_text([text_table(["what", "measured"], [["one", sentence]])], False).splitlines()
    for whole in ("[0.48, 0.73]", "10% to 20%", "ε = 0.125"):
        assert any(whole in line for line in lines)
    assert max(map(len, lines)) <= 44


@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_are_for_terminals_that_have_them(monkeypatch, variable, value):
    board = build_board([*ends(), make_result("tang", 0.6)])
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in render_terminal(board)
    monkeypatch.setenv(variable, value)
    assert "\x1b[" not in render_terminal(board)


def test_the_matrix_says_what_ran_and_why_the_rest_cannot(dpicl, sim_suite, tmp_path):
    dpicl(f"run {sim_suite} --results {tmp_path} --seed 0")
    document = dpicl(f"board {sim_suite} --results {tmp_path} --matrix --json").json
    suite = yaml.safe_load(Path(sim_suite).read_text())
    names = {entry if isinstance(entry, str) else entry["name"] for entry in suite["mechanisms"]}
    assert {(entry["mechanism"], entry["task"]) for entry in document["matrix"]} == {
        (name, task) for name in names for task in suite["tasks"]
    }
    for entry in document["matrix"]:
        assert entry["reason"] or entry["done"] == dict.fromkeys(entry["asked"], 1)
        assert bool(entry["reason"]) != bool(entry["asked"])
