"""What the board prints, against numbers that are worked out here from the results alone."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Any

import pytest

from dpicl.core.messages import MOST_NAMED
from dpicl.evaluation import intervals
from dpicl.leaderboards.model.board import Board, Section, build_board
from dpicl.leaderboards.model.rows import MINIMUM_GAIN, Row
from dpicl.leaderboards.publish.runs import plan
from dpicl.leaderboards.render.as_json import board_json
from dpicl.leaderboards.render.html import pages, suites_json
from dpicl.results.schema import Result
from tests.leaderboards.factory import ends, make_result
from tests.leaderboards.random_boards import random_results
from tests.leaderboards.shown import render_terminal

SEEDS = [*range(10), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 60))]


@pytest.fixture(scope="module", autouse=True)
def _few_draws() -> Iterator[None]:
    """Intervals are of no interest here, and of hundreds of rows they take minutes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "DRAWS", 50)
        yield


@dataclass(frozen=True)
class Made:
    """A random board in everything that shows it. published: the lines of the table of a tracker."""

    results: list[Result]
    section: Section
    text: str
    suite: dict[str, Any]
    files: dict[str, str]
    document: dict[str, Any]
    published: list[Mapping[str, Any]]

    @property
    def rows(self) -> list[Row]:
        return list(self.section.rows)

    @property
    def csv(self) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(self.files["board.csv"])))


@cache
def make_board(seed: int) -> Made:
    results = random_results(seed)
    board, section = build_section(results)
    return Made(
        results=results,
        section=section,
        text=render_terminal(board, color=False),
        suite=suites_json({"quick": board})[0],
        files=pages(board),
        document=board_json(board)["sections"][0],
        published=[*plan(results).runs[-1].table],
    )


def score(results: list[Result], name: str, row: Row) -> float | None:
    """The mean of a mechanism over the seeds of a row, from the files alone."""
    by_seed = {
        one.cell.seed: one
        for one in results
        if (one.cell.mechanism, one.cell.task) == (name, row.task)
    }
    if not set(row.seeds) <= by_seed.keys():
        return None
    return fmean(by_seed[seed].scores[by_seed[seed].main_metric].value for seed in row.seeds)


def find_control(results: list[Result], row: Row) -> str:
    """The mechanism of the best row without records that has every seed of zero-shot, from the files alone."""
    by_name: dict[str, dict[int, float]] = {}
    for one in results:
        if one.cell.task == row.task and one.cell.epsilon == 0:
            by_name.setdefault(one.cell.mechanism, {})[one.cell.seed] = one.scores[
                one.main_metric
            ].value
    zero_shot = by_name.get("zero_shot", {})
    known = {
        name: fmean(scores.values())
        for name, scores in by_name.items()
        if zero_shot and scores.keys() >= zero_shot.keys()
    }
    sign = -1 if row.results[0].main_metric == "word_distance" else 1
    best = max(known, key=lambda name: sign * known[name], default="zero_shot")
    return best if known and sign * known[best] > sign * known["zero_shot"] else "zero_shot"


def compute_by_hand(results: list[Result], row: Row) -> float | None:
    """The recovery of a row from the files alone."""
    control, real = (
        score(results, name, row) for name in (find_control(results, row), "real_demonstrations")
    )
    if control is None or real is None:
        return None
    mean = fmean(one.scores[one.main_metric].value for one in row.results)
    gain = real - control if row.results[0].main_metric != "word_distance" else control - real
    return None if gain < MINIMUM_GAIN - 1e-9 else (mean - control) / (real - control)


def build_section(results: list[Result]) -> tuple[Board, Section]:
    board = build_board(results)
    (section,) = board.sections
    return board, section


@pytest.mark.parametrize("seed", SEEDS)
def test_every_output_has_the_recovery_of_the_same_seeds(seed):
    drawn = make_board(seed)
    results = drawn.results
    from_json = [row for task in drawn.document["tasks"] for row in task["rows"]]
    for row, plain, line, published in zip(
        drawn.rows, from_json, drawn.csv, drawn.published, strict=True
    ):
        expected = compute_by_hand(results, row)
        assert (
            row.recovery == pytest.approx(expected)
            if expected is not None
            else row.recovery is None
        )
        assert plain["recovery"] == row.recovery == published["recovery"]
        assert line["recovery"] == ("" if row.recovery is None else f"{row.recovery:.10g}")
        for name, value in (("zero_shot", row.zero_shot), ("real_demonstrations", row.real_data)):
            mean = score(results, name, row)
            assert value is None if mean is None else value == pytest.approx(mean)
            assert published[name] == value
            assert line[name] == ("" if value is None else f"{value:.10g}")
        if row.recovery is None:
            assert plain["recovery_note"]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_list_of_suites_names_the_best_rows_at_each_epsilon(seed):
    section, line = make_board(seed).section, make_board(seed).suite
    levels = {row.epsilon for table in section.tables for row in table.rows if row.rank is not None}
    assert levels <= {answer["epsilon"] for answer in line["answers"]}
    for answer in line["answers"]:
        assert bool(answer["best"]) != answer["verdict"].startswith(
            ("no headroom", "nobody is ranked, because")
        )
        first = {
            row.label: row.rank.first
            for table in section.tables
            if answer["task"] == table.task
            for row in table.rows
            if row.rank is not None and row.epsilon == answer["epsilon"]
        }
        assert all(first.get(one["label"], True) for one in answer["best"])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_mark_is_counted_and_a_row_without_a_rank_says_why(seed):
    section, own_rows = make_board(seed).section, make_board(seed).rows
    for mark in {mark for row in own_rows for mark in row.marks}:
        count = sum(mark in row.marks for row in own_rows)
        start = f"{mark.sign} {mark.name} ({count} row"
        assert [note for note in section.notes if note.startswith(start)]
    files = make_board(seed).files
    page = "".join(text for name, text in files.items() if name.startswith("tasks/"))
    for reason in {row.unranked for row in own_rows if row.unranked and not row.is_baseline}:
        assert reason in page


def test_notes_say_once_what_holds_for_several_rows():
    results = [*ends(), make_result("tang", 0.6, plugin="e" * 64)]
    results += [make_result("prism", 0.5, task=f"t{i}", fingerprint="0" * 64) for i in range(10)]
    results += [
        make_result("prism", 0.5, task=f"t{i}", seed=seed) for i in range(10) for seed in (0, 1)
    ]
    _, section = build_section(results)
    mark, left_out = section.notes
    assert mark.startswith("‡ plug-in, not checked (1 row): ")
    assert left_out.startswith("Left out, with other records: 1 result of prism on t0, ")
    assert left_out.endswith(f" and {10 - MOST_NAMED} more.")


def test_a_gain_of_five_hundredths_is_enough():
    _, section = build_section([*ends(zero_shot=0.4, real_data=0.45), make_result("tang", 0.45)])
    assert section.tables[0].rows[0].recovery == pytest.approx(1.0)
