"""Which direction of a metric is better: said by the task, held by the result, honoured by whoever looks at scores."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from dpicl.core.errors import DataError, UsageError
from dpicl.data import config as task_config
from dpicl.data.config import load_config
from dpicl.data.task_file import read_task_file
from dpicl.leaderboards.compare.reading import Side
from dpicl.leaderboards.compare.releases import compare
from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.render.as_json import board_json
from dpicl.leaderboards.render.html import pages
from dpicl.results.schema import from_text, to_text
from tests.harness.helpers import write
from tests.leaderboards.factory import ends, invert_metric, make_result, repeat, with_outcomes
from tests.leaderboards.random_boards import random_results
from tests.leaderboards.shown import render_terminal

TASK_FILE = """
task: dpicl_errors
custom_dataset: !function dpicl.tasks.loaders.documents
output_type: generate_until
description: ""
doc_to_text: "Text: {{text}}\\nWords:"
doc_to_target: label
generation_kwargs: {until: ["\\n"], max_gen_toks: 8, do_sample: false, temperature: 0.0}
test_split: test
process_results: !function scoring.results
metric_list:
  - {metric: error, aggregation: mean, higher_is_better: false}
metadata:
  version: 1
  name: errors
  kind: generation
  main_metric: error
  prompts: {stop: ["\\n"]}
  data:
    local: {text: text, label: label}
    hub: {missing: "none"}
    synthetic: {missing: "none"}
"""
SCORING = """
def results(doc, answers):
    words = answers[0].split()
    return {"error": 1 - sum(word in doc["label"].split() for word in words) / max(1, len(words))}
"""
SUITE = """
name: errors
version: 1
source: local
models: [sim]
seeds: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
epsilons: [1]
delta: 1e-5
shots: 2
tasks: [errors]
mechanisms:
  - name: zero_shot
  - name: real_demonstrations
  - name: ksa
    options: {slots: 4, examples_per_slot: 1}
"""


@pytest.fixture
def errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a task whose metric counts errors: the model writes "yes" where the prompt did."""
    monkeypatch.setattr(task_config, "_given", {})
    monkeypatch.setenv("DPICL_DATA", str(tmp_path))
    folder = tmp_path / "errors"
    for name, count in (("train", 60), ("test", 12)):
        rows = ({"text": f"{name} {number}", "label": "yes yes yes"} for number in range(count))
        write(tmp_path, "errors", name, rows)
    for name, text in (("task.yaml", TASK_FILE), ("scoring.py", SCORING), ("suite.yaml", SUITE)):
        (folder / name).write_text(text)
    return folder


def test_a_task_of_errors_from_run_to_board_and_compare(dpicl, errors, tmp_path):
    results, half = tmp_path / "results", tmp_path / "half"
    flags = f"{errors}/suite.yaml --plugin {errors} --results {results}"
    run = dpicl(f"run {flags} --json")
    assert run.code == 0, run.err
    (table,) = dpicl(f"board {flags} --json").json["sections"][0]["tasks"]
    assert table["higher_is_better"] == {"error": False}
    rows = {row["label"]: row for row in table["rows"]}
    zero_shot, real = rows["zero_shot"], rows["real_demonstrations"]
    assert real["score"] < zero_shot["score"]
    assert (zero_shot["recovery"], real["recovery"]) == (0, 1)
    assert "error ↓" in dpicl(f"board {flags} --full").out

    half.mkdir()
    for path in results.rglob("*.json"):
        result = from_text(path.read_text())
        assert result.higher_is_better == {"error": False}
        (half / path.name).write_text(to_text(with_outcomes(result, [0.5] * 12)))
    compared = dpicl(f"compare {results} {half} --json --fail-on-regression")
    assert compared.code == 1
    cells = {cell["mechanism"]: cell for cell in compared.json["cells"]}
    assert cells["zero_shot"]["verdict"] == "improvement"
    assert cells["zero_shot"]["difference"] > 0 > cells["real_demonstrations"]["difference"]
    assert cells["real_demonstrations"]["verdict"] == "regression"


@pytest.mark.parametrize("seed", range(6))
def test_the_opposite_metric_leaves_recovery_and_ranks_unchanged(seed):
    results = random_results(seed)
    sides = (results, [*map(invert_metric, results)])
    sections = [board_json(build_board(side))["sections"] for side in sides]
    for one, other in zip(*sections, strict=True):
        for table, mirror in zip(one["tasks"], other["tasks"], strict=True):
            metric = table["metric"]
            assert mirror["higher_is_better"][metric] is not table["higher_is_better"][metric]
            for row, twin in zip(table["rows"], mirror["rows"], strict=True):
                assert twin["score"] == pytest.approx(1 - row["score"])
                for name in ("cells", "rank", "unranked"):
                    assert twin[name] == row[name]
                for name in ("recovery", "recovery_interval"):
                    assert twin[name] == pytest.approx(row[name], abs=1e-9)


@pytest.mark.parametrize("seed", range(2))
def test_the_opposite_metric_leaves_verdicts_unchanged(seed):
    scores = ((("tang", 0.9), ("pta", 0.2 + seed / 8)), (("tang", 0.5), ("pta", 0.6)))
    base, candidate = (
        repeat(
            make_result(name, score + side / 400, label=name, documents=40) for name, score in rows
        )
        for side, rows in enumerate(scores)
    )

    def verdicts(change):
        sides = (
            Side(name, name, tuple(map(change, rows)))
            for name, rows in (("base", base), ("candidate", candidate))
        )
        return [
            (cell.verdict, cell.difference, cell.test.adjusted, cell.test.low)
            for cell in compare(*sides).cells
        ]

    cells, mirrored = verdicts(lambda result: result), verdicts(invert_metric)
    for one, other in zip(cells, mirrored, strict=True):
        assert other[0] == one[0] and other[1:] == pytest.approx(one[1:])
    assert cells[1][0] == "regression"


def test_pages_and_downloads_say_where_lower_is_better():
    results = [*ends(), make_result("tang", 0.6), make_result("pta", 0.7)]
    board = build_board([invert_metric(one) for one in results])
    assert [row.label for row in board.sections[0].tables[0].rows] == ["pta", "tang"]
    assert "score ↓" in render_terminal(board)
    files = pages(board)
    (line, *_) = csv.DictReader(files["board.csv"].splitlines())
    assert line["higher_is_better"] == "no"
    (task,) = [text for name, text in files.items() if name.startswith("tasks/")]
    assert "lower is better" in task


def test_results_of_other_directions_are_not_compared():
    results = [*ends(), make_result("tang", 0.6)]
    section = build_board([*results, invert_metric(make_result("pta", 0.7))]).sections[0]
    assert [row.label for row in section.tables[0].rows] == ["tang"]
    assert any("Left out" in note and "direction of the metric" in note for note in section.notes)
    sides = (
        Side(name, name, (one,))
        for name, one in (("base", results[2]), ("candidate", invert_metric(results[2])))
    )
    with pytest.raises(UsageError, match="direction of the metric"):
        compare(*sides)


@pytest.mark.parametrize(
    "directions",
    [
        {"acc_calibrated": 0},
        {"acc_calibrated": "no"},
        {},
        {"acc_calibrated": True, "other": True},
        [],
    ],
)
def test_a_file_with_hostile_directions_is_damaged(directions):
    data = json.loads(to_text(make_result()))
    with pytest.raises(ValueError, match=r"damaged: .*higher_is_better"):
        from_text(json.dumps({**data, "higher_is_better": directions}))


def test_a_file_without_directions_means_what_it_did():
    text = to_text(make_result(aggregates={"genre_distance": 0.2}))
    result = from_text(text)
    assert "higher_is_better" not in text
    assert to_text(result) == text
    assert [result.lower_is_better(name) for name in ("acc_calibrated", "genre_distance")] == [
        False,
        True,
    ]


def test_tasks_mean_what_files_without_directions_mean():
    result = make_result()
    for name in ("agnews", "mit_g", "samsum", "wikimovies", "enron"):
        directions = load_config(name).higher_is_better
        directions.pop("log_loss", None)  # which files without directions do not have
        assert directions == {metric: not result.lower_is_better(metric) for metric in directions}


@pytest.mark.parametrize(
    ("name", "old", "new", "line"),
    [
        ("errors", "higher_is_better: false", "higher_is_better: 1", 12),
        (
            "errors",
            "  main_metric: error\n",
            "  main_metric: error\n  lower_is_better: [error]\n",
            18,
        ),
        (
            "errors",
            "metric_list:\n",
            "metric_list:\n  - {metric: error, aggregation: mean, higher_is_better: true}\n",
            13,
        ),
        ("agnews", "higher_is_better: true", "higher_is_better: false", 17),
    ],
)
def test_a_task_file_with_a_contradicting_direction_is_refused(name, old, new, line):
    text = TASK_FILE if name == "errors" else (task_config.TASKS / name / "task.yaml").read_text()
    read_task_file(text, "task.yaml", name, built_in=True)
    with pytest.raises(DataError, match=f"line {line}: "):
        read_task_file(text.replace(old, new, 1), "task.yaml", name, built_in=True)
