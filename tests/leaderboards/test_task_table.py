"""Scores, recovery and ranks, against numbers worked out by hand."""

import math

import pytest

from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.model.rows import MINIMUM_GAIN, recover
from dpicl.leaderboards.model.task_table import TaskTable
from tests.leaderboards.factory import ends, make_result, repeat


def only_table(results) -> TaskTable:
    board = build_board(results)
    assert len(board.sections) == 1
    assert len(board.sections[0].tables) == 1
    return board.sections[0].tables[0]


@pytest.mark.parametrize("real_data", [0.4, 0.4 + MINIMUM_GAIN - 0.001, 0.2])
def test_recovery_needs_a_gain_of_real_demonstrations(real_data):
    assert recover(0.5, 0.4, real_data)[0] is None


def test_rows_for_other_numbers_of_queries_are_ranked_apart():
    results = [*ends(), make_result("voting", 0.7, queries=30, per_query=0.2)]
    equal = [make_result("tang", 0.6), make_result("pta", 0.6), make_result("prism", 0.55)]
    section = build_board(repeat([*results, *equal])).sections[0]
    ranks = {row.name: str(row.rank) for row in section.tables[0].rows}
    assert ranks == {"voting (Q = 30)": "1", "tang": "1–3", "pta": "1–3", "prism": "1–3"}
    assert {one.where for one in section.answers} == {
        "agnews, any number of queries",
        "agnews, 30 queries",
    }


def test_metrics_are_means_of_what_every_seed_has():
    reason = "the word list is not installed"
    first = make_result(
        "esa",
        0.6,
        others={"meteor": 0.5, "rouge1": 0.4},
        aggregates={"genre_distance": 0.1},
        seed=0,
    )
    second = make_result(
        "esa", 0.8, others={"rouge1": 0.5}, aggregates={"genre_distance": 0.4}, seed=1
    )
    second = second.model_copy(update={"skipped_metrics": {"meteor": reason}})
    (row,) = only_table([*ends(), *ends(seed=1), first, second]).rows
    assert row.metrics == {"acc_calibrated": pytest.approx(0.7), "rouge1": pytest.approx(0.45)}
    assert row.aggregates == {"genre_distance": pytest.approx(0.25)}
    assert row.skipped == {"meteor": reason}
    (row,) = only_table(
        [make_result("voting", 0.6, seed=s, queries=5, per_query=0.1 + s) for s in (0, 1)]
    ).rows
    assert row.epsilon_per_query == pytest.approx(1.1)


def test_rows_without_noise_or_over_their_epsilon_are_unranked():
    results = [
        *ends(),
        make_result("tang", 0.8, epsilon=math.inf),
        make_result("pta", 0.7, proved=1.2),
    ]
    results.append(make_result("prism", 0.5))
    rows = only_table(repeat(results)).rows
    assert {row.label for row in rows} == {"tang", "pta", "prism"}
    assert [row.label for row in rows if row.rank] == ["prism"]
    assert {row.label: row.unranked for row in rows if row.unranked} == {
        "tang": "run without noise",
        "pta": "its proved ε is above the ε that it was run for",
    }


@pytest.mark.parametrize(("metric", "ranked"), [("acc_nearest", False), ("acc_calibrated", True)])
def test_an_instruction_is_ranked_where_the_metric_reads_it(metric, ranked):
    other, instruction = (make_result(name, 0.5, metric=metric) for name in ("tang", "dp_opt"))
    instruction = instruction.model_copy(
        update={"released": [], "instruction": "Answer with the topic.\n"}
    )
    rows = {
        row.label: row
        for row in only_table(repeat([*ends(metric=metric), other, instruction])).rows
    }
    assert rows["tang"].rank is not None and (rows["dp_opt"].rank is not None) == ranked
    assert ("an instruction" in rows["dp_opt"].unranked) != ranked
