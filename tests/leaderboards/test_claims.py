"""What the board prints, against numbers that are worked out here from the results alone."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from statistics import fmean
from typing import Any

import pytest

from dpicl.evaluation.intervals import bootstrap_interval, ratio_interval
from dpicl.leaderboards.model import rows
from dpicl.leaderboards.model.board import Board, Section, build_board
from dpicl.leaderboards.model.notes import MOST_NAMED
from dpicl.leaderboards.model.rows import MINIMUM_GAIN, Row
from dpicl.leaderboards.publish.runs import plan
from dpicl.leaderboards.render.as_json import board_json
from dpicl.leaderboards.render.html import pages, suites_json
from dpicl.leaderboards.render.terminal import render_terminal
from dpicl.results.schema import Result
from tests.leaderboards.factory import ends, make_result
from tests.leaderboards.random_boards import random_results
from tests.leaderboards.site_factory import Page

SEEDS = [*range(10), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 60))]


@pytest.fixture(scope="module", autouse=True)
def _few_draws() -> Iterator[None]:
    """Intervals are of no interest here, and of hundreds of rows they take minutes."""
    with pytest.MonkeyPatch.context() as patch:
        means, ratios = (partial(one, draws=50) for one in (bootstrap_interval, ratio_interval))
        patch.setattr(rows, "bootstrap_interval", means)
        patch.setattr(rows, "ratio_interval", ratios)
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
    published: list[dict[str, Any]]

    @property
    def rows(self) -> list[Row]:
        return list(self.section.rows)

    @property
    def csv(self) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(self.files["board.csv"])))


@cache
def made(seed: int) -> Made:
    results = random_results(seed)
    board, section = only(results)
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
    own = {one.cell.seed: one for one in results if (one.cell.mechanism, one.cell.task) == (name, row.task)}
    if not set(row.seeds) <= own.keys():
        return None
    return fmean(own[seed].scores[own[seed].main_metric].value for seed in row.seeds)


def by_hand(results: list[Result], row: Row) -> float | None:
    """The recovery of a row from the files alone."""
    zero_shot, real = (score(results, name, row) for name in ("zero_shot", "real_demonstrations"))
    if zero_shot is None or real is None:
        return None
    own = fmean(one.scores[one.main_metric].value for one in row.results)
    gain = real - zero_shot if row.results[0].main_metric != "word_distance" else zero_shot - real
    return None if gain < MINIMUM_GAIN - 1e-9 else (own - zero_shot) / (real - zero_shot)


def only(results: list[Result]) -> tuple[Board, Section]:
    board = build_board(results)
    (section,) = board.sections
    return board, section


@pytest.mark.parametrize("seed", SEEDS)
def test_recovery_is_that_of_the_same_seeds_and_every_output_has_the_same_number(seed):
    found = made(seed)
    results = found.results
    from_json = [row for task in found.document["tasks"] for row in (*task["rows"], *task["paper"])]
    for row, plain, line, published in zip(found.rows, from_json, found.csv, found.published, strict=True):
        wanted = by_hand(results, row)
        assert row.recovery == pytest.approx(wanted) if wanted is not None else row.recovery is None
        assert plain["recovery"] == row.recovery == published["recovery"]
        assert line["recovery"] == ("" if row.recovery is None else f"{row.recovery:.10g}")
        for name, value in (("zero_shot", row.zero_shot), ("real_demonstrations", row.real_data)):
            own = score(results, name, row)
            assert value is None if own is None else value == pytest.approx(own)
            assert published[name] == value
            assert line[name] == ("" if value is None else f"{value:.10g}")
        if row.recovery is None:
            assert plain["recovery_note"]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_terminal_shows_the_two_scores_behind_every_recovery(seed):
    section = made(seed).section
    for table in section.tables:
        others = "|".join(other.task for other in section.tables if other is not table) or "nothing"
        part = " ".join(re.split(rf"\n({others}): ", made(seed).text.split(f"\n{table.task}: ")[1])[0].split())
        for row in table.rows:
            if row.recovery is None:
                continue
            assert table.zero_shot and table.real_data and row.zero_shot is not None and row.real_data is not None
            if {table.zero_shot.seeds, table.real_data.seeds} == {row.seeds}:
                shown = f"{table.zero_shot.score:.3f}", f"{table.real_data.score:.3f}"
            else:
                runs = r"recovery over seeds ([\d–, ]+): 0% is zero_shot ([\d.]+), 100% real_demonstrations ([\d.]+)"
                found = {spelled(seeds): ends for seeds, *ends in re.findall(runs, part)}
                shown = tuple(found[row.seeds])
            zero_shot, real = map(float, shown)
            slack = 0.002 * (1 + abs(row.recovery)) / abs(real - zero_shot)  # of numbers with three decimals
            assert (round(row.score, 3) - zero_shot) / (real - zero_shot) == pytest.approx(row.recovery, abs=slack)


def spelled(seeds: str) -> tuple[int, ...]:
    """'0–2, 4' as (0, 1, 2, 4)."""
    ends_of = [[int(end) for end in part.split("–")] for part in seeds.split(", ")]
    return tuple(seed for part in ends_of for seed in range(part[0], part[-1] + 1))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_mean_is_called_that_of_all_tasks_only_where_every_task_counts_and_only_equal_sets_are_ranked(seed):
    section = made(seed).section
    for ranking in section.rankings:
        own = [table for table in section.tables if ranking.kind in ("", table.kind)]
        assert ranking.total == len(own)
        assert (len(ranking.tasks) == len(own)) == (" of " not in ranking.title)
        if ranking.title == "all tasks":
            assert {table.task for table in section.tables} == set(ranking.tasks)
        assert {task for task, _ in ranking.left_out} == {table.task for table in own} - set(ranking.tasks)
        for one in ranking.standings:
            rows = [row for row in section.rows if row.label == one.label and row.epsilon == one.epsilon]
            rows = [row for row in rows if row.mode == "proved" and row.task in ranking.tasks]
            recoveries = [row.recovery for row in rows if row.recovery is not None]
            if one.recovery is not None:
                assert len(recoveries) == len(ranking.tasks) > 0
                assert one.recovery == pytest.approx(fmean(recoveries))
                assert set(one.seeds) == {number for row in rows for number in row.seeds}
            if one.rank is not None:
                same = (one.epsilon, one.queries)
                level = [each for each in ranking.standings if (each.epsilon, each.queries) == same and each.rank]
                assert 1 <= one.rank.low <= one.rank.high <= len(level)
                if len({other.seeds for other in level}) == 1:  # else differences are over other seeds than means
                    above = sum(other.recovery > one.recovery + 1e-9 for other in level)
                    below = sum(other.recovery < one.recovery - 1e-9 for other in level)
                    assert one.rank.low <= 1 + above and one.rank.high >= len(level) - below


@pytest.mark.parametrize("seed", SEEDS)
def test_the_list_of_suites_says_at_every_epsilon_which_rows_none_is_better_than(seed):
    section, line = made(seed).section, made(seed).suite
    levels = {row.epsilon for table in section.tables for row in table.rows if row.rank is not None}
    assert levels <= {answer["epsilon"] for answer in line["answers"]}
    for answer in line["answers"]:
        assert bool(answer["best"]) == (answer["verdict"] != "no headroom")
        first = {
            row.label: row.rank.first
            for table in section.tables
            if answer["tasks"] == (table.task,)
            for row in table.rows
            if row.rank is not None and row.epsilon == answer["epsilon"]
        }
        assert all(first.get(one["label"], True) for one in answer["best"])


@pytest.mark.parametrize("seed", SEEDS)
def test_ranks_stand_only_at_rows_whose_task_counts(seed):
    section = made(seed).section
    counted = {task for ranking in section.rankings for task in ranking.tasks}
    for line in made(seed).csv:
        assert (line["mean_rank"] == "") == (line["ranked_over"] == "")
        if line["mean_rank"]:
            assert line["task"] in counted and line["accounting"] == "proved" and not line["unranked"]
    for published in made(seed).published:
        if published["mean_rank"] is not None:
            assert published["task"] in counted and not published["not_ranked_because"]
    for note in section.notes:
        if "are ranked together" in note:
            assert set(re.split(", | and ", note.removeprefix("On ").split(" these are")[0])) <= counted


@pytest.mark.parametrize("seed", SEEDS)
def test_counts_in_notes_are_counts_of_rows(seed):
    section, own_rows = made(seed).section, made(seed).rows
    for mark in {mark for row in own_rows for mark in row.marks}:
        count = sum(mark in row.marks for row in own_rows)
        said = "1 row is" if count == 1 else f"{count} rows are"
        assert [note for note in section.notes if note.startswith(f"{mark.sign} {said} marked")]
    for reason in {row.unranked for row in own_rows if row.unranked and not row.is_baseline and row.mode == "proved"}:
        count = sum(row.unranked == reason and row.mode == "proved" for row in own_rows)
        said = f" is not ranked: {reason}." if count == 1 else f"{count} rows are not ranked: {reason} ("
        assert any(said in note for note in section.notes)
    text = " ".join(made(seed).text.split())
    for table in section.tables:
        own = (*table.in_order, *table.paper)
        for reason in {row.recovery_note for row in own if row.recovery is None}:
            count = sum(row.recovery_note == reason for row in own)
            assert f"recovery n/a in {count} of {len(own)} rows: {reason}." in text


def many_unranked() -> list[Result]:
    """50 rows that were run without noise, and 20 with fewer seeds."""
    tasks = [f"task{number}" for number in range(10)]
    results = [one for task in tasks for seed in (0, 1) for one in ends(task, seed=seed)]
    for task in tasks:
        results += [make_result(f"free{i}", 0.6, task=task, epsilon=math.inf, seed=s) for i in range(5) for s in (0, 1)]
        results += [make_result(f"late{i}", 0.6, task=task) for i in range(2)]
    return results


def test_what_is_said_of_many_rows_is_one_line_with_a_count():
    _, section = only(many_unranked())
    (unranked,) = [note for note in section.notes if "not ranked" in note]
    assert unranked.startswith("50 rows are not ranked: run without noise (")
    assert f"{50 - MOST_NAMED} more" in unranked
    (late,) = [note for note in section.notes if "seeds so far" in note]
    assert late.startswith("20 rows have 1 of 2 seeds so far")
    assert len(section.notes) == 2
    words = Page(pages(build_board(many_unranked()))["index.html"]).words
    assert words.count("run without noise") == 1


def test_the_most_important_notes_come_first():
    results = [*ends(), make_result("tang", 0.6, plugin="e" * 64), make_result("pta", 0.6, proved=1.2)]
    results += [make_result("prism", 0.5, fingerprint="0" * 64), make_result("voting", 0.7, queries=30)]
    _, section = only(results)
    wanted = ["pta at ε = 1 on agnews is not ranked", "‡ 1 row is marked", "agnews: left out", "On agnews these are"]
    assert [next(i for i, word in enumerate(wanted) if note.startswith(word)) for note in section.notes] == [0, 1, 2, 3]


def test_one_of_two_tasks_is_not_all_tasks():
    results = [*ends("agnews"), *ends("trec", zero_shot=0.6, real_data=0.5)]
    results += [make_result("tang", 0.7, task=task) for task in ("agnews", "trec")]
    board, section = only(results)
    (ranking,) = section.rankings
    assert (ranking.title, ranking.scope) == ("1 of 2 tasks", "1 of 2 tasks: agnews")
    everything = [render_terminal(board, color=False), *pages(board).values()]
    assert not any("all tasks" in text.lower() for text in everything)


def test_no_recovery_anywhere_is_not_a_word_about_zero_shot():
    """tang scores above zero-shot, and no recovery is defined: nothing may say that nobody does."""
    board, section = only([*ends(zero_shot=0.5, real_data=0.4), make_result("tang", 0.9)])
    assert section.rankings[0].standings[1].rank is None
    assert "above zero-shot" not in render_terminal(board, color=False)


def test_an_end_that_lacks_a_recovery_on_one_task_has_no_mean():
    results = [*ends("agnews", seed=0), *ends("trec", seed=0), make_result("zero_shot", 0.4, task="trec", seed=1)]
    results += [make_result("tang", 0.6, task=task) for task in ("agnews", "trec")]
    _, section = only(results)
    first = section.rankings[0].standings[0]
    assert (first.label, first.recovery) == ("zero_shot", None)


def test_equal_means_share_a_rank_in_whatever_order_they_were_added():
    pairs = {"tang": (0.5, 0.7), "pta": (0.7, 0.5), "prism": (0.6, 0.6)}
    results = [*ends("agnews"), *ends("trec")]
    for label, scores in pairs.items():
        results += [make_result(label, one, task=task) for one, task in zip(scores, ("agnews", "trec"), strict=True)]
    _, section = only(results)
    assert {str(one.rank) for one in section.rankings[0].standings if one.rank} == {"1–3"}


def test_a_gain_that_is_five_hundredths_but_for_rounding_is_enough():
    _, section = only([*ends(zero_shot=0.4, real_data=0.45), make_result("tang", 0.45)])
    assert section.tables[0].rows[0].recovery == pytest.approx(1.0)


def test_a_row_with_paper_accounting_is_not_called_proved():
    board = build_board([*ends(), make_result("tang", 0.9, mode="paper", proved=3.0)])
    (page,) = [text for name, text in pages(board).items() if name.startswith("rows/tang")]
    assert "accounting paper" in Page(page).words
    assert "accounting proved" not in Page(page).words
