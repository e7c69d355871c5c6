"""Two rows of a board: which is better and how sure that is, the same as the board's own rank sets say."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

import dpicl as api
from dpicl.core.errors import UsageError
from dpicl.core.messages import capitalize
from dpicl.leaderboards.compare.rows import compare_named
from dpicl.leaderboards.model.answers import answers
from dpicl.leaderboards.model.board import build_board, choose_part
from dpicl.leaderboards.model.marks import BY_EMBEDDINGS
from dpicl.leaderboards.model.ranks import Pairs
from dpicl.leaderboards.render.as_json import board_json
from dpicl.leaderboards.render.board_view import overview
from dpicl.leaderboards.render.columns import ROWS
from dpicl.tables.console import to_text
from tests.leaderboards.factory import ends, make_result

SCORES = {"tang": 0.8, "pta": 0.55, "prism": 0.52}


def shuffle(result, seed):
    """The same score on other documents: a mechanism that errs elsewhere at each seed."""
    (name,) = result.documents
    values = list(result.documents[name].outcomes)
    random.Random(seed).shuffle(values)
    found = result.documents[name].model_copy(update={"outcomes": values})
    return result.model_copy(update={"documents": {name: found}})


def results(task="agnews", change=lambda result: result, **more):
    found = []
    for seed in range(4):
        own = [*ends(task, 0.3, 0.9, seed=seed, documents=200, **more)]
        own.append(make_result("public_demonstrations", 0.5, epsilon=0.0, task=task, seed=seed, documents=200, **more))
        for epsilon in (1.0, 8.0):
            own += [
                make_result(label, score, epsilon=epsilon, task=task, seed=seed, documents=200, **more)
                for label, score in SCORES.items()
            ]
        found += [change(shuffle(one, f"{seed} {i}")) for i, one in enumerate(own)]
    return found


@pytest.fixture(scope="module")
def board():
    return build_board([*results(), *results("trec")])


def test_a_pair_agrees_with_the_rank_sets_and_is_turned_round(board):
    table = board.sections[0].tables[0]
    tang, pta = (next(row for row in table.rows if row.label == name and row.epsilon == 1) for name in ("tang", "pta"))
    pairs = Pairs(table)
    found, back = pairs.difference(tang, pta), pairs.difference(pta, tang)
    assert found.value == pytest.approx(tang.score - pta.score) and found.verdict == "better" and found.family == 3
    assert found.low < found.value < found.high and 0 < found.p < 0.05
    assert (back.value, back.low, back.high, back.p) == (-found.value, -found.high, -found.low, found.p)
    assert tang.rank.high == 1 < pta.rank.low  # what p says is what the ranks say
    public = next(row for row in table.rows if row.mechanism == "public_demonstrations")
    for row in (one for one in table.rows if one.epsilon == 1):
        assert pairs.difference(row, public) == row.against_public
        assert pairs.difference(row, public).family == 4
    column = next(one for one in ROWS if one.key == "against_public")
    said = {row.label: column.text(column.of(row)) for row in table.rows if row.epsilon == 1}
    assert said["tang"] == "better" and re.fullmatch(r"inconclusive, up to 0\.\d{3}", said["prism"])
    worse = pairs.difference(tang, public)
    assert worse is not None
    worse = replace(worse, value=-0.3)
    assert column.text(column.of(SimpleNamespace(against_public=worse))) == "public_demonstrations is better"


@pytest.mark.parametrize(
    ("one", "other", "tasks", "epsilons", "expected"),
    [
        ("tang", "pta", [], [], [("agnews", 1, 1), ("agnews", 8, 8), ("trec", 1, 1), ("trec", 8, 8)]),
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
    assert [(pair.table.task, pair.one.epsilon, pair.other.epsilon) for pair in found.pairs] == expected


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
    assert pair.found is None


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
    hint = dpicl("compare", "tang", "pta", "--suite", sim_suite, *place, "--limit", 3, "--model", "sim").err
    assert f"`dpicl run {sim_suite} --limit 3 --model sim --results {tmp_path / 'results'}`" in hint
    assert dpicl("run", sim_suite, *place).code == 0
    assert (
        f"dpicl compare ROW ROW --suite {sim_suite} --results {tmp_path / 'results'}\n"
        in dpicl("board", sim_suite, *place).out
    )
    answer = dpicl("compare", "tang@2", "prism_short@2", "--suite", sim_suite, *place)
    assert answer.code == 0 and "inconclusive" in answer.out
    heads = [line.split() for line in answer.out.splitlines() if line.startswith(" task ")]
    assert any({"tang@2", "prism_short@2"} <= set(head) for head in heads) and not any("rows" in head for head in heads)
    document = dpicl("compare", "tang@2", "prism_short@2", "--suite", sim_suite, *place, "--json").json
    assert document["rows"] == ["tang@2", "prism_short@2"]
    pair = document["pairs"][0]
    assert pair["first"]["row"] == "tang@2" and pair["verdict"] in (
        "better",
        "equivalent",
        "inconclusive",
        "not tested",
    )
    found = api.compare("tang@2", "prism_short@2", suite=sim_suite, results=tmp_path / "results")
    assert set(found.to_frame().columns) >= {"first", "second", "difference", "low", "high", "p_adjusted", "verdict"}
    assert "<table" in found._repr_html_() and repr(found)


def test_a_part_of_a_board_keeps_the_baselines_and_the_ranks_of_the_whole(board):
    part = choose_part(board, tasks=["trec"], labels=["tang"], epsilons=[1.0])
    (table,) = part.sections[0].tables
    assert [row.label for row in table.in_order] == ["zero_shot", "tang", "real_demonstrations"]
    whole = next(row for row in board.sections[0].tables[1].rows if row.label == "tang" and row.epsilon == 1)
    assert table.rows == (whole,)
    assert [answer.task for answer in part.sections[0].answers] == ["trec"]
    assert choose_part(board) is board
    mixed = build_board([*results(), *results("trec", source="local")])
    assert [one.group.source for one in choose_part(mixed, tasks=["trec"]).sections] == ["local"]
    for wrong in ({"tasks": ["tree"]}, {"labels": ["tong"]}, {"epsilons": [3.0]}):
        with pytest.raises(UsageError):
            choose_part(board, **wrong)
    with pytest.raises(UsageError, match=r"'dbpedia' is in the suite, but .* With results: agnews, trec"):
        choose_part(replace(board, tasks=("agnews", "dbpedia", "trec")), tasks=["dbpedia"])


def test_the_answer_names_the_best_the_tied_and_the_control_that_nobody_beats(board):
    agnews, trec = board.sections[0].answers[:2]
    assert [answer.epsilon for answer in board.sections[0].answers] == [1.0] * 2 + [8.0] * 2
    assert (agnews.where, agnews.verdict) == ("agnews", "better than all 2 others")
    assert agnews.texts == ("tang (0.800)", "–")
    assert {one.to_beat.label for one in (agnews, trec)} == {"public_demonstrations"}
    assert agnews.beating == ("tang",)
    high = [one for one in results() if "_demonstrations" not in one.cell.mechanism]
    high += [
        shuffle(make_result("public_demonstrations", 0.95, epsilon=0.0, seed=seed, documents=200), seed)
        for seed in range(4)
    ]
    (answer, _) = build_board(high).sections[0].answers
    assert answer.texts[1] == "public_demonstrations (0.950)"
    assert (answer.to_beat.label, answer.beating) == ("public_demonstrations", ())


def test_the_answer_names_the_best_that_prompt_a_model_where_controls_without_one_are_first():
    scores = {"embedding_centroids": 0.9, "tang": 0.7, "prism": 0.69, "voting": 0.2, "zero_shot": 0.1}
    found = [
        shuffle(make_result(name, score, epsilon=1.0, seed=seed, documents=200), f"{name} {seed}")
        for name, score in scores.items()
        for seed in range(4)
    ]
    (answer,) = build_board(found).sections[0].answers
    assert [one.label for one in answer.best] == ["embedding_centroids"] and answer.controls == ()
    marked = [
        replace(one, marks=(BY_EMBEDDINGS,)) if one.label == "embedding_centroids" else one
        for one in build_board(found).sections[0].tables[0].rows
    ]
    table = replace(build_board(found).sections[0].tables[0], rows=tuple(marked))
    (answer,) = answers([table])
    assert answer.texts == ("tang (0.700) and prism (0.690)", "embedding_centroids (0.900)")
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
        assert answer.best == () and said in answer.sentence and ", use " not in answer.sentence
    shown = " ".join(to_text(overview(board, None, 99, 9)).split())
    assert capitalize(said) in shown
    assert "use tang" not in shown
    (section,) = board_json(board)["sections"]
    (task,) = section["tasks"]
    assert all(said in reason for reason in task["unranked_levels"].values()) and task["unranked_levels"]


@pytest.mark.parametrize("labels", [("tang",), ("tang", "pta")])
def test_one_test_record_ranks_and_advises_nobody(labels):
    found = [
        make_result(name, score, seed=seed, documents=1)
        for name, score in {"zero_shot": 0.0, "tang": 1.0, "pta": 1.0}.items()
        for seed in range(4)
        if name in (*labels, "zero_shot")
    ]
    board = build_board(found)
    assert all(row.rank is None for row in board.sections[0].rows)
    assert_said_everywhere(board, "nobody is ranked, because the rows have fewer than two test records in common")


def test_rows_of_one_seed_are_called_not_compared_and_not_tied():
    board = build_board([one for one in results() if one.cell.seed == 0])
    (answer, _) = board.sections[0].answers
    assert answer.verdict == "3 of 3 not compared: they have fewer than two seeds in common"
    assert "tied" not in answer.sentence and "95%" not in answer.sentence and "no method is shown" in answer.sentence


def test_rows_that_score_alike_and_a_single_one_are_advised_where_they_beat_the_control_alone():
    same = [one for one in results() if one.cell.label in ("zero_shot", "real_demonstrations")]
    alike = [
        shuffle(make_result(name, 0.3, seed=seed, documents=200), f"{seed} 0") for name in "ab" for seed in range(4)
    ]
    (answer,) = build_board([*same, *alike]).sections[0].answers
    assert answer.beating == () and "no method is shown to be better than zero_shot" in answer.sentence
    alone = [one for one in results() if one.cell.label in ("zero_shot", "real_demonstrations", "tang")]
    (answer, _) = build_board(alone).sections[0].answers
    assert answer.verdict == "the only row" and "use tang (0.800), better than zero_shot" in answer.sentence


def test_the_scores_beside_a_difference_are_of_the_seeds_that_it_is_of():
    def moved(result):
        better = result.cell.label == "tang" and result.cell.seed > 1
        return (
            shuffle(make_result("tang", 1.0, epsilon=result.cell.epsilon, seed=result.cell.seed, documents=200), 0)
            if (better)
            else result
        )

    found = [moved(one) for one in results() if one.cell.label != "pta" or one.cell.seed < 2]
    (pair,) = compare_named(build_board(found), "quick", "tang@1", "pta@1").pairs
    one, other = pair.means
    assert pair.seeds == (0, 1) and one - other == pytest.approx(pair.found.value)
    assert one == pytest.approx(0.8) and pair.one.score == pytest.approx(0.9)
    data = pair.to_json()
    assert data["first"]["score"] - data["second"]["score"] == pytest.approx(data["difference"])
    assert data["first"]["score_of_all_seeds"] == pytest.approx(0.9)
    lone = [one for one in found if one.cell.label != "pta" or one.cell.seed == 0]
    apart = [one for one in lone if one.cell.label != "tang" or one.cell.seed > 0]
    (pair,) = compare_named(build_board(apart), "quick", "tang@1", "pta@1").pairs
    assert pair.found is None and pair.means == (None, None)
    assert "–" in to_text(compare_named(build_board(apart), "quick", "tang@1", "pta@1").blocks())
