"""Scores, recovery and ranks, against numbers worked out by hand."""

import math

import pytest

from leaderboards.board import build_board
from leaderboards.standings import MINIMUM_GAIN, TaskTable, recover
from tests.leaderboards.factory import ends, make_result


def only_table(results) -> TaskTable:
    board = build_board(results)
    assert len(board.sections) == 1
    assert len(board.sections[0].tables) == 1
    return board.sections[0].tables[0]


def test_recovery_is_the_share_of_the_gain_of_real_demonstrations():
    # (0.7 - 0.4) / (0.8 - 0.4)
    assert recover(0.7, 0.4, 0.8) == (pytest.approx(0.75), "")


def test_recovery_may_leave_zero_to_one():
    assert recover(0.3, 0.4, 0.8)[0] == pytest.approx(-0.25)
    assert recover(0.9, 0.4, 0.8)[0] == pytest.approx(1.25)


@pytest.mark.parametrize("real_data", [0.4, 0.4 + MINIMUM_GAIN - 0.001, 0.2])
def test_recovery_is_not_given_when_real_demonstrations_gain_almost_nothing(real_data):
    recovery, reason = recover(0.5, 0.4, real_data)
    assert recovery is None
    assert f"{real_data - 0.4:+.3f}" in reason


def test_row_is_the_mean_over_seeds_and_recovers_against_the_same_seeds():
    # Seed 2 of both ends would change the answer, and must not count for a row with seeds 0 and 1.
    results = [*ends(seed=0), *ends(zero_shot=0.5, real_data=0.9, seed=1), *ends(zero_shot=0.1, real_data=0.2, seed=2)]
    results += [make_result("tang", 0.6, seed=0), make_result("tang", 0.8, seed=1)]
    (row,) = only_table(results).rows
    assert row.seeds == (0, 1)
    assert row.score == pytest.approx(0.7)
    assert row.recovery == pytest.approx((0.7 - 0.45) / (0.85 - 0.45))


def test_recovery_needs_both_ends_on_every_seed_of_the_row():
    results = [*ends(seed=0), make_result("real_demonstrations", 0.8, seed=1)]
    results += [make_result("tang", 0.6, seed=0), make_result("tang", 0.8, seed=1)]
    (row,) = only_table(results).rows
    assert row.recovery is None
    assert "zero_shot has no result for seed 1" in row.recovery_note


def test_the_ends_of_the_scale_recover_nothing_and_everything():
    table = only_table([*ends(), make_result("tang", 0.6)])
    assert (table.zero_shot.recovery, table.real_data.recovery) == (0.0, 1.0)
    assert [row.label for row in table.in_order] == ["zero_shot", "tang", "real_demonstrations"]


def test_interval_holds_the_score_and_shrinks_with_more_documents():
    few = only_table([*ends(documents=50), make_result("tang", 0.6, documents=50)]).rows[0]
    many = only_table([*ends(documents=800), make_result("tang", 0.6, documents=800)]).rows[0]
    assert few.low < 0.6 < few.high
    assert many.low < 0.6 < many.high
    # The normal interval of 50 documents is +-0.136, of 800 documents +-0.034.
    assert few.high - few.low == pytest.approx(0.27, abs=0.05)
    assert many.high - many.low == pytest.approx(0.068, abs=0.02)


def test_missing_ends_are_named_with_the_command_that_makes_them():
    table = only_table([make_result("tang", 0.6, seed=0), make_result("tang", 0.6, seed=1), ends(seed=0)[0]])
    assert table.real_data is None
    zero_shot, real_data = table.missing
    assert zero_shot.what == "zero_shot (ε = 0) on agnews, seed 1"
    assert real_data.what == "real_demonstrations (ε = ∞) on agnews, seeds 0–1"
    assert real_data.command == (
        "dpicl run quick --task agnews --mechanism real_demonstrations --model embedded --source synthetic"
    )


def test_overall_is_the_mean_recovery_over_common_tasks_ranked_within_each_epsilon():
    results = [*ends("agnews"), *ends("trec", zero_shot=0.2, real_data=0.6), *ends("dbpedia")]
    for epsilon, scores in {
        1.0: {"tang": (0.5, 0.3), "pta": (0.6, 0.4)},
        8.0: {"tang": (0.8, 0.6), "pta": (0.6, 0.4)},
    }.items():
        for label, (agnews, trec) in scores.items():
            results.append(make_result(label, agnews, task="agnews", epsilon=epsilon))
            results.append(make_result(label, trec, task="trec", epsilon=epsilon))
    results.append(make_result("tang", 0.8, task="dbpedia"))  # pta lacks dbpedia, so nobody's mean has it
    overall = build_board(results).sections[0].overall
    assert overall.tasks == ("agnews", "trec")
    assert [task for task, _ in overall.left_out] == ["dbpedia"]
    assert "pta at ε = 1 has no result" in overall.left_out[0][1]
    found = [(one.epsilon, one.rank, one.label, pytest.approx(one.recovery)) for one in overall.standings]
    assert found == [
        (0.0, None, "zero_shot", 0.0),
        (1.0, 1, "pta", 0.5),
        (1.0, 2, "tang", 0.25),
        (8.0, 1, "tang", 1.0),
        (8.0, 2, "pta", 0.5),
        (math.inf, None, "real_demonstrations", 1.0),
    ]


def test_equal_recoveries_share_a_rank():
    results = [*ends(), make_result("tang", 0.6), make_result("pta", 0.6), make_result("prism", 0.5)]
    ranks = {one.label: one.rank for one in build_board(results).sections[0].overall.standings}
    assert (ranks["tang"], ranks["pta"], ranks["prism"]) == (1, 1, 3)


def test_rows_without_noise_and_rows_over_their_epsilon_are_shown_unranked():
    results = [*ends(), make_result("tang", 0.8, epsilon=math.inf), make_result("pta", 0.7, proved=1.2)]
    results.append(make_result("prism", 0.5))
    section = build_board(results).sections[0]
    assert {row.label for row in section.tables[0].rows} == {"tang", "pta", "prism"}
    assert [one.label for one in section.overall.standings if one.rank] == ["prism"]
    assert any("pta at ε = 1" in note and "above" in note for note in section.notes)


def test_paper_accounting_is_apart_and_never_ranked():
    results = [*ends(), make_result("prism", 0.5), make_result("prism", 0.7, mode="paper", proved=0.37, claimed=1.0)]
    section = build_board(results).sections[0]
    (table,) = section.tables
    assert [row.score for row in table.rows] == [0.5]
    assert [(row.score, row.proved, row.claimed) for row in table.paper] == [(0.7, 0.37, 1.0)]
    assert table.paper[0].recovery == pytest.approx(0.75)
    (ranked,) = [one for one in section.overall.standings if one.rank]
    assert ranked.score == pytest.approx(0.5)
