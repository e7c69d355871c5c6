"""Scores, recovery and ranks, against numbers worked out by hand."""

import math

import pytest

from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.model.rows import MINIMUM_GAIN, recover
from dpicl.leaderboards.model.standings import TaskTable
from tests.leaderboards.factory import ends, make_result


def only_table(results) -> TaskTable:
    board = build_board(results)
    assert len(board.sections) == 1
    assert len(board.sections[0].tables) == 1
    return board.sections[0].tables[0]


@pytest.mark.parametrize("real_data", [0.4, 0.4 + MINIMUM_GAIN - 0.001, 0.2])
def test_recovery_is_not_given_when_real_demonstrations_gain_almost_nothing(real_data):
    assert recover(0.5, 0.4, real_data)[0] is None


def ranks_of(ranking) -> dict[str, tuple[str | None, float | None]]:
    return {
        one.label: (one.rank and str(one.rank), one.recovery and pytest.approx(one.recovery))
        for one in ranking.standings
    }


def test_mechanisms_for_one_kind_of_task_take_nothing_from_another_kind():
    text = {"metric": "rougeL"}
    results = [*ends("agnews"), *ends("trec"), *ends("samsum", **text), *ends("xsum", **text)]
    results += [make_result("voting", score, task=task) for task, score in (("agnews", 0.8), ("trec", 0.6))]
    results += [make_result("tang", score, task=task) for task, score in (("agnews", 0.6), ("trec", 0.6))]
    results += [make_result("esa", score, task=task, **text) for task, score in (("samsum", 0.5), ("xsum", 0.7))]
    section = build_board(results).sections[0]
    classification, texts = section.rankings
    assert (classification.title, classification.tasks) == ("classification tasks", ("agnews", "trec"))
    assert (texts.title, texts.tasks) == ("text tasks", ("samsum", "xsum"))
    # voting (1.0 + 0.5) / 2, tang (0.5 + 0.5) / 2; esa (0.25 + 0.75) / 2
    assert {label: place for label, place in ranks_of(classification).items() if place[0]} == {
        "voting": ("1–2", 0.75),
        "tang": ("1–2", 0.5),
    }
    assert {label: place for label, place in ranks_of(texts).items() if place[0]} == {"esa": ("1", 0.5)}


def test_mechanisms_that_do_every_kind_of_task_share_one_ranking():
    results = [*ends("agnews"), *ends("mit_d", metric="exact_match")]
    for label in ("tang", "pta"):
        results += [make_result(label, 0.6), make_result(label, 0.7, task="mit_d", metric="exact_match")]
    section = build_board(results).sections[0]
    (ranking,) = section.rankings
    assert (ranking.title, ranking.tasks) == ("all tasks", ("agnews", "mit_d"))


def test_a_kind_of_task_that_nobody_has_done_splits_nothing():
    results = [*ends("agnews"), *ends("mit_d", metric="exact_match"), make_result("tang", 0.6)]
    (ranking,) = build_board(results).sections[0].rankings
    assert ranking.tasks == ("agnews",)
    assert [task for task, _ in ranking.left_out] == ["mit_d"]
    # nor does one ε that is not run yet
    results += [make_result("tang", 0.7, epsilon=8.0), make_result("tang", 0.7, task="mit_d", metric="exact_match")]
    (ranking,) = build_board(results).sections[0].rankings
    assert ranking.left_out == (("mit_d", "without a result: tang at ε = 8"),)


def test_rows_for_other_numbers_of_queries_are_ranked_apart():
    results = [*ends(), make_result("voting", 0.7, queries=30, per_query=0.2)]
    equal = [make_result("tang", 0.6), make_result("pta", 0.6), make_result("prism", 0.5)]
    section = build_board([*results, *equal]).sections[0]
    ranked = {label: rank for label, (rank, _) in ranks_of(section.rankings[0]).items() if rank}
    assert ranked == {"voting": "1", "tang": "1–3", "pta": "1–3", "prism": "1–3"}
    rows = section.tables[0].rows
    assert {row.name: str(row.rank) for row in rows if row.rank.high == 1} == {"voting (Q = 30)": "1"}
    assert {one.where for one in section.answers} == {"agnews, any number of queries", "agnews, 30 queries"}


def test_metrics_are_means_over_seeds_of_what_every_seed_has_and_per_query_epsilon_is_the_largest():
    reason = "the word list is not installed"
    first = make_result("esa", 0.6, others={"meteor": 0.5, "rouge1": 0.4}, aggregates={"genre_distance": 0.1}, seed=0)
    second = make_result("esa", 0.8, others={"rouge1": 0.5}, aggregates={"genre_distance": 0.4}, seed=1)
    second = second.model_copy(update={"skipped_metrics": {"meteor": reason}})
    (row,) = only_table([*ends(), *ends(seed=1), first, second]).rows
    assert row.metrics == {"acc_calibrated": pytest.approx(0.7), "rouge1": pytest.approx(0.45)}
    assert row.aggregates == {"genre_distance": pytest.approx(0.25)}
    assert row.skipped == {"meteor": reason}
    (row,) = only_table([make_result("voting", 0.6, seed=s, queries=5, per_query=0.1 + s) for s in (0, 1)]).rows
    assert row.epsilon_per_query == pytest.approx(1.1)


def test_rows_without_noise_and_rows_over_their_epsilon_are_shown_unranked():
    results = [*ends(), make_result("tang", 0.8, epsilon=math.inf), make_result("pta", 0.7, proved=1.2)]
    results.append(make_result("prism", 0.5))
    section = build_board(results).sections[0]
    assert {row.label for row in section.tables[0].rows} == {"tang", "pta", "prism"}
    assert [one.label for one in section.rankings[0].standings if one.rank] == ["prism"]
    assert {row.label: row.unranked for row in section.tables[0].rows if row.unranked} == {
        "tang": "run without noise",
        "pta": "its proved ε is above the ε that it was run for",
    }


def test_paper_accounting_is_apart_and_never_ranked():
    results = [*ends(), make_result("prism", 0.5), make_result("prism", 0.7, mode="paper", proved=0.37, claimed=1.0)]
    section = build_board(results).sections[0]
    (table,) = section.tables
    assert [row.score for row in table.rows] == [0.5]
    assert [(row.score, row.proved, row.claimed) for row in table.paper] == [(0.7, 0.37, 1.0)]
    assert table.paper[0].recovery == pytest.approx(0.75)
    (ranked,) = [one for one in section.rankings[0].standings if one.rank]
    assert ranked.recovery == pytest.approx(0.25)
