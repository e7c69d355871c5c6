"""Two rows of a board: which is better and how sure that is, the same as the board's own rank sets say."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

import dpicl as api
from dpicl.core.errors import UsageError
from dpicl.leaderboards.compare.rows import compare_named
from dpicl.leaderboards.model.answers import answers
from dpicl.leaderboards.model.board import build_board, choose_part
from dpicl.leaderboards.model.marks import BY_EMBEDDINGS
from dpicl.leaderboards.model.ranks import Pairs
from dpicl.leaderboards.render.as_json import board_json
from dpicl.leaderboards.render.board_view import overview
from dpicl.leaderboards.render.columns import ROWS, rows_frame
from dpicl.tables.console import to_text
from tests.leaderboards.factory import ends, make_result, repeat

SCORES = {"tang": 0.8, "pta": 0.52, "prism": 0.5}


def make(name, score, **more):
    """A row of ten seeds."""
    return repeat([make_result(name, score, documents=50, **more)])


def results(task="agnews", **more):
    same = {"task": task, "documents": 50, **more}
    found = [*ends(zero_shot=0.3, real_data=0.9, **same)]
    found.append(make_result("public_demonstrations", 0.5, epsilon=0.0, **same))
    for epsilon in (1.0, 8.0):
        found += [
            make_result(label, score, epsilon=epsilon, **same) for label, score in SCORES.items()
        ]
    return repeat(found)


@pytest.fixture(scope="module")
def board():
    return build_board([*results(), *results("trec")])


def test_a_pair_agrees_with_the_rank_sets_and_is_turned_round(board):
    table = board.sections[0].tables[0]
    tang, pta = (
        next(row for row in table.rows if row.label == name and row.epsilon == 1)
        for name in ("tang", "pta")
    )
    pairs = Pairs(table)
    found, back = pairs.difference(tang, pta), pairs.difference(pta, tang)
    assert (
        found.value == pytest.approx(tang.score - pta.score)
        and found.verdict == "better"
        and found.family == 3
    )
    assert found.low < found.value < found.high and 0 < found.p < 0.05
    assert (back.value, back.low, back.high, back.p) == (
        -found.value,
        -found.high,
        -found.low,
        found.p,
    )
    assert tang.rank.high == 1 < pta.rank.low  # what p says is what the ranks say
    public = next(row for row in table.rows if row.mechanism == "public_demonstrations")
    for row in (one for one in table.rows if one.epsilon == 1):
        assert pairs.difference(row, public) == row.against_public
        assert pairs.difference(row, public).family == 6
    column = next(one for one in ROWS if one.key == "against_public")
    said = {row.label: column.text(column.of(row)) for row in table.rows if row.epsilon == 1}
    assert said["tang"] == "better" and re.fullmatch(r"inconclusive, up to 0\.\d{3}", said["prism"])
    worse = pairs.difference(tang, public)
    assert worse is not None
    worse = replace(worse, value=-0.3)
    assert (
        column.text(column.of(SimpleNamespace(against_public=worse)))
        == "public_demonstrations is better"
    )


@pytest.mark.parametrize(
    ("one", "other", "tasks", "epsilons", "expected"),
    [
        (
            "tang",
            "pta",
            [],
            [],
            [("agnews", 1, 1), ("agnews", 8, 8), ("trec", 1, 1), ("trec", 8, 8)],
        ),
        ("tang", "pta", ["trec"], [8.0], [("trec", 8, 8)]),
        ("tang@1", "pta", ["trec"], [], [("trec", 1, 1)]),
        ("tang@1", "tang@8", ["trec"], [], [("trec", 1, 8)]),
        ("public_demonstrations", "tang", ["trec"], [], [("trec", 0, 1), ("trec", 0, 8)]),
        ("tang@8", "real_demonstrations", ["trec"], [], [("trec", 8, float("inf"))]),
        ("zero_shot", "real_demonstrations", ["trec"], [], [("trec", 0, float("inf"))]),
    ],
)
def test_names_stand_for_rows(board, one, other, tasks, epsilons, expected):
    found = compare_named(board, "quick", one, other, tasks, epsilons)
    assert [
        (pair.table.task, pair.one.epsilon, pair.other.epsilon) for pair in found.pairs
    ] == expected


@pytest.mark.parametrize(
    ("one", "other", "more", "words"),
    [
        ("tung", "pta", {}, ["'tung'", "'tang'"]),
        ("tang@2", "pta", {}, ["tang@2", "tang@1", "tang@8"]),
        ("tang@x", "pta", {}, ["'x'", "LABEL@EPSILON"]),
        ("tang@-1", "pta", {}, ["'-1'"]),
        ("tang@1", "tang@1", {}, ["not two rows"]),
        ("tang@1", "pta@8", {"tasks": ["tree"]}, ["'tree'", "'trec'"]),
        ("tang", "pta", {"epsilons": [3.0]}, ["'3'"]),
    ],
)
def test_names_that_make_no_sense_are_told_with_the_closest(board, one, other, more, words):
    with pytest.raises(UsageError) as error:
        compare_named(board, "quick", one, other, **more)
    assert [word for word in words if word not in str(error.value)] == []


def test_rows_without_common_seeds_are_not_tested():
    found = [
        *ends(seed=0),
        make_result("tang", 0.8),
        make_result("pta", 0.5, seed=1),
        make_result("prism", 0.5, seed=1),
    ]
    pair = compare_named(build_board(found), "quick", "tang", "pta").pairs[0]
    assert pair.difference is None


def test_flags_and_names_of_the_other_kind_are_refused_in_one_sentence(dpicl, tmp_path):
    for wrong in (
        ("tang", tmp_path),
        ("tang", "pta", "--suite", "quick", "--alpha", "0.1"),
        (tmp_path, f"{tmp_path}/", "--limit", "3"),
        ("tang", "pta", "--suite", "quick", "--results", tmp_path),
    ):
        answer = dpicl("compare", *wrong)
        assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert "--suite" in dpicl("compare", "tang", "pta").err


def test_the_command_on_a_run(dpicl, sim_suite, tmp_path):
    place = ("--results", tmp_path / "results")
    hint = dpicl(
        "compare", "tang", "pta", "--suite", sim_suite, *place, "--limit", 3, "--model", "sim"
    ).err
    assert f"`dpicl run {sim_suite} --limit 3 --model sim --results {tmp_path / 'results'}`" in hint
    assert dpicl("run", sim_suite, *place).code == 0
    assert (
        f"dpicl compare ROW ROW --suite {sim_suite} --results {tmp_path / 'results'}\n"
        in dpicl("board", sim_suite, *place).out
    )
    answer = dpicl("compare", "tang@2", "prism_short@2", "--suite", sim_suite, *place)
    assert answer.code == 0
    assert answer.out.startswith("First tang@2, second prism_short@2.\n")
    (head,) = [line for line in answer.out.splitlines() if line.startswith(" task ")]
    assert head.split()[:3] == ["task", "first", "second"]
    assert len(head) <= 80
    document = dpicl(
        "compare", "tang@2", "prism_short@2", "--suite", sim_suite, *place, "--json"
    ).json
    assert document["rows"] == ["tang@2", "prism_short@2"]
    pair = document["pairs"][0]
    assert (pair["first"]["row"], pair["verdict"]) == (
        "tang@2",
        "not tested",
    ) and "common seed" in pair["reason"]
    found = api.compare("tang@2", "prism_short@2", suite=sim_suite, results=tmp_path / "results")
    assert set(found.to_frame().columns) >= {
        "first",
        "second",
        "difference",
        "low",
        "high",
        "p_adjusted",
        "verdict",
    }
    assert "<table" in found._repr_html_() and repr(found)


def test_a_part_of_a_board_keeps_the_baselines_and_the_ranks_of_the_whole(board):
    part = choose_part(board, tasks=["trec"], labels=["tang"], epsilons=[1.0])
    (table,) = part.sections[0].tables
    assert [row.label for row in table.in_order] == ["zero_shot", "tang", "real_demonstrations"]
    whole = next(
        row for row in board.sections[0].tables[1].rows if row.label == "tang" and row.epsilon == 1
    )
    assert table.rows == (whole,)
    assert [answer.task for answer in part.sections[0].answers] == ["trec"]
    assert choose_part(board) is board
    mixed = build_board([*results(), *results("trec", source="local")])
    assert [one.group.source for one in choose_part(mixed, tasks=["trec"]).sections] == ["local"]
    for wrong in ({"tasks": ["tree"]}, {"labels": ["tong"]}, {"epsilons": [3.0]}):
        with pytest.raises(UsageError):
            choose_part(board, **wrong)
    with pytest.raises(
        UsageError, match=r"'dbpedia' is in the suite, but .* With results: agnews, trec"
    ):
        choose_part(replace(board, tasks=("agnews", "dbpedia", "trec")), tasks=["dbpedia"])


def test_the_answer_names_the_best_the_tied_and_the_control_that_nobody_beats(board):
    agnews, trec = board.sections[0].answers[:2]
    assert [answer.epsilon for answer in board.sections[0].answers] == [1.0] * 2 + [8.0] * 2
    assert (agnews.where, agnews.verdict) == ("agnews", "better than all 2 others")
    assert agnews.texts == ("tang (0.800)", "–")
    assert {one.to_beat.label for one in (agnews, trec)} == {"public_demonstrations"}
    assert agnews.beating == ("tang",)
    high = [one for one in results() if "_demonstrations" not in one.cell.mechanism]
    high += make("public_demonstrations", 0.94, epsilon=0.0)
    (answer, _) = build_board(high).sections[0].answers
    assert answer.texts[1] == "public_demonstrations (0.940)"
    assert (answer.to_beat.label, answer.beating) == ("public_demonstrations", ())


def test_the_answer_names_the_best_that_prompt_a_model_where_controls_without_one_are_first():
    scores = {
        "embedding_centroids": 0.9,
        "tang": 0.7,
        "prism": 0.68,
        "voting": 0.2,
        "zero_shot": 0.1,
    }
    found = [one for name, score in scores.items() for one in make(name, score)]
    (answer,) = build_board(found).sections[0].answers
    assert [one.label for one in answer.best] == ["embedding_centroids"] and answer.controls == ()
    marked = [
        replace(one, marks=(BY_EMBEDDINGS,)) if one.label == "embedding_centroids" else one
        for one in build_board(found).sections[0].tables[0].rows
    ]
    table = replace(build_board(found).sections[0].tables[0], rows=tuple(marked))
    (answer,) = answers([table])
    assert answer.texts == ("tang (0.700) and prism (0.680)", "embedding_centroids (0.900)")
    assert answer.verdict == "2 of 3 tied"


@pytest.mark.parametrize(
    ("leave_out", "reason"),
    [
        (
            {"zero_shot", "public_demonstrations"},
            "no row that reads no record (zero_shot, say) is there to compare with",
        ),
        ({"zero_shot", "public_demonstrations", "pta", "prism"}, "no row that reads no record"),
    ],
)
def test_without_a_control_that_reads_no_record_nobody_is_ranked_or_advised(leave_out, reason):
    board = build_board([one for one in results() if one.cell.label not in leave_out])
    (section,) = board.sections
    assert all(row.rank is None for row in section.rows)
    assert_said_everywhere(board, f"nobody is ranked, because {reason}")


def assert_said_everywhere(board, said):
    """On the terminal, in the table of answers, in JSON; and no row is advised."""
    for answer in board.sections[0].answers:
        assert answer.best == () and said in answer.line
    shown = " ".join(to_text(overview(board, None)).split())
    assert f": no verdict ({said}" in shown
    assert "better than" not in shown
    (section,) = board_json(board)["sections"]
    (task,) = section["tasks"]
    assert (
        all(said in reason for reason in task["unranked_levels"].values())
        and task["unranked_levels"]
    )


@pytest.mark.parametrize("labels", [("tang",), ("tang", "pta")])
def test_below_ten_seeds_nobody_is_ranked_or_advised(labels):
    found = [
        one for one in results() if one.cell.seed < 9 and one.cell.label in (*labels, "zero_shot")
    ]
    board = build_board(found)
    assert all(row.rank is None for row in board.sections[0].rows)
    assert_said_everywhere(board, "nobody is ranked, because no row has 10 seeds")
    (pair, *_) = compare_named(board, "quick", "tang@1", "zero_shot").pairs
    assert pair.reason == "9 common seeds of the 10 that a verdict needs"


def test_without_ten_seeds_of_a_control_nobody_is_ranked_or_advised():
    controls = ("zero_shot", "public_demonstrations")
    board = build_board(
        [one for one in results() if one.cell.label not in controls or one.cell.seed < 9]
    )
    assert_said_everywhere(
        board,
        "nobody is ranked, because no row has 10 seeds in common with one that reads no record",
    )


def test_a_row_of_nine_seeds_has_no_rank_beside_rows_of_ten():
    board = build_board([one for one in results() if one.cell.label != "tang" or one.cell.seed < 9])
    ranks = {
        row.label: (row.rank, row.no_rank) for row in board.sections[0].rows if row.epsilon == 1
    }
    assert ranks["tang"] == (None, "it has fewer than 10 seeds") and ranks["pta"][0] is not None
    assert "it has fewer than 10 seeds" in rows_frame(board)["unranked"].to_list()


def test_without_a_control_two_rows_have_no_verdict():
    rows = [one for one in results() if one.cell.label in SCORES]
    (pair,) = compare_named(build_board(rows), "quick", "tang@1", "pta@1").pairs
    assert (pair.difference, pair.reason) == (None, "no row that reads no record is there")


def test_a_difference_that_no_seed_changes_has_no_verdict():
    rows = [one for one in results() if one.cell.label != "pta"]
    copies = [make_result("pta", 0.4, seed=seed, documents=50) for seed in range(10)]
    copies += [make_result("twin", 0.6, seed=seed, documents=50) for seed in range(10)]
    (pair,) = compare_named(build_board([*rows, *copies]), "quick", "twin@1", "pta@1").pairs
    assert pair.difference is None and "by as much at every seed" in pair.reason


def test_rows_that_score_alike_and_a_single_one_are_advised_where_they_beat_the_control_alone():
    same = [one for one in results() if one.cell.label in ("zero_shot", "real_demonstrations")]
    alike = [*make("a", 0.3), *make("b", 0.3)]
    (answer,) = build_board([*same, *alike]).sections[0].answers
    assert answer.beating == () and "nothing is shown to be better than zero_shot" in answer.line
    alone = [
        one for one in results() if one.cell.label in ("zero_shot", "real_demonstrations", "tang")
    ]
    (answer, _) = build_board(alone).sections[0].answers
    assert (
        answer.verdict == "the only row" and "tang (0.800) is better than zero_shot" in answer.line
    )


def test_the_scores_beside_a_difference_are_of_the_seeds_that_it_is_of():
    def moved(result):
        better = result.cell.label == "tang" and result.cell.seed > 9
        cell = result.cell
        return (
            make_result("tang", 1.0, epsilon=cell.epsilon, seed=cell.seed, documents=50)
            if better
            else result
        )

    twice = [
        one
        for score in [*SCORES.items(), ("zero_shot", 0.3)]
        for one in repeat([make_result(*score, documents=50)], 20)
    ]
    found = [moved(one) for one in twice if one.cell.label != "pta" or one.cell.seed < 10]
    (pair,) = compare_named(build_board(found), "quick", "tang@1", "pta@1").pairs
    one, other = pair.means
    assert pair.seeds == (*range(10),) and one - other == pytest.approx(pair.difference.value)
    assert one == pytest.approx(0.8) and pair.one.score == pytest.approx(0.9)
    data = pair.to_json()
    assert data["first"]["score"] - data["second"]["score"] == pytest.approx(data["difference"])
    assert data["first"]["score_of_all_seeds"] == pytest.approx(0.9)
    lone = [one for one in found if one.cell.label != "pta" or one.cell.seed == 0]
    apart = [one for one in lone if one.cell.label != "tang" or one.cell.seed > 0]
    (pair,) = compare_named(build_board(apart), "quick", "tang@1", "pta@1").pairs
    assert pair.difference is None and pair.means == (None, None)
    assert "–" in to_text(compare_named(build_board(apart), "quick", "tang@1", "pta@1").blocks())
