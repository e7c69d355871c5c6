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
    rows = [*ends(zero_shot=0.3, real_data=0.9, **same)]
    rows.append(make_result("public_demonstrations", 0.5, epsilon=0.0, **same))
    for epsilon in (1.0, 8.0):
        for name, score in SCORES.items():
            rows.append(make_result(name, score, epsilon=epsilon, **same))
    return repeat(rows)


@pytest.fixture(scope="module")
def board():
    return build_board([*results(), *results("trec")])


def test_a_pair_agrees_with_the_rank_sets(board):
    table = board.sections[0].tables[0]
    rows = {row.label: row for row in table.rows if row.epsilon <= 1}
    tang, pta, public = rows["tang"], rows["pta"], rows["public_demonstrations"]
    pairs = Pairs(table)
    difference = pairs.difference(tang, pta)
    assert difference.value == pytest.approx(tang.score - pta.score)
    assert (difference.verdict, difference.family) == ("better", 3)
    assert tang.rank.high == 1 < pta.rank.low  # what p says is what the ranks say
    for name in SCORES:
        against = pairs.difference(rows[name], public)
        assert against == rows[name].against_public and against.family == 6
    column = next(one for one in ROWS if one.key == "against_public")
    texts = {name: column.text(column.of(rows[name])) for name in SCORES}
    assert texts["tang"] == "better"
    assert re.fullmatch(r"inconclusive, up to 0\.\d{3}", texts["prism"])
    worse = SimpleNamespace(against_public=replace(tang.against_public, value=-0.3))
    assert column.text(column.of(worse)) == "public_demonstrations is better"


@pytest.mark.parametrize(
    ("one", "other", "tasks", "epsilons", "expected"),
    [
        ("tang", "pta", [], [], [(task, e, e) for task in ("agnews", "trec") for e in (1, 8)]),
        ("tang", "pta", ["trec"], [8.0], [("trec", 8, 8)]),
        ("tang@1", "pta", ["trec"], [], [("trec", 1, 1)]),
        ("tang@1", "tang@8", ["trec"], [], [("trec", 1, 8)]),
        ("public_demonstrations", "tang", ["trec"], [], [("trec", 0, 1), ("trec", 0, 8)]),
        ("zero_shot", "real_demonstrations", ["trec"], [], [("trec", 0, float("inf"))]),
    ],
)
def test_names_stand_for_rows(board, one, other, tasks, epsilons, expected):
    pairs = compare_named(board, "quick", one, other, tasks, epsilons).pairs
    rows = [(pair.table.task, pair.one.epsilon, pair.other.epsilon) for pair in pairs]
    assert rows == expected


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
def test_a_bad_name_is_refused_with_the_closest(board, one, other, more, words):
    with pytest.raises(UsageError) as error:
        compare_named(board, "quick", one, other, **more)
    assert [word for word in words if word not in str(error.value)] == []


def test_a_pair_without_a_verdict_says_why():
    few = [one for one in results() if one.cell.seed < 9]
    alone = [one for one in results() if one.cell.label in SCORES]
    steady = {"pta": 0.4, "twin": 0.6}
    twins = [one for one in results() if one.cell.label != "pta"]
    for name, score in steady.items():
        twins += [make_result(name, score, seed=seed, documents=50) for seed in range(10)]
    apart = [*ends(), make_result("tang", 0.8), make_result("pta", 0.5, seed=1)]
    for rows, one, other, reason in (
        (few, "tang@1", "zero_shot", "9 common seeds of the 10 that a verdict needs"),
        (alone, "tang@1", "pta@1", "no row that reads no record is there"),
        (twins, "twin@1", "pta@1", "by as much at every seed"),
        (apart, "tang", "pta", "0 common seeds of the 10"),
    ):
        (pair, *_) = compare_named(build_board(rows), "quick", one, other).pairs
        assert pair.difference is None and reason in pair.reason


def test_flags_of_the_other_kind_are_refused_in_one_sentence(dpicl, tmp_path):
    for wrong in (
        f"tang {tmp_path}",
        "tang pta --suite quick --alpha 0.1",
        f"{tmp_path} {tmp_path}/ --limit 3",
        f"tang pta --suite quick --results {tmp_path}",
    ):
        answer = dpicl(f"compare {wrong}")
        assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert "--suite" in dpicl("compare tang pta").err


def test_the_command_on_a_run(dpicl, sim_suite, tmp_path):
    folder = tmp_path / "results"
    command = f"compare tang@2 prism_short@2 --suite {sim_suite} --results {folder}"
    missing = dpicl(f"{command} --limit 3 --model sim").err
    assert f"`dpicl run {sim_suite} --limit 3 --model sim --results {folder}`" in missing
    assert dpicl(f"run {sim_suite} --results {folder}").code == 0
    board = dpicl(f"board {sim_suite} --results {folder}").out
    assert f"dpicl compare ROW ROW --suite {sim_suite} --results {folder}\n" in board
    answer = dpicl(command)
    assert answer.code == 0
    assert answer.out.startswith("First tang@2, second prism_short@2.\n")
    (head,) = [line for line in answer.out.splitlines() if line.startswith(" task ")]
    assert head.split()[:3] == ["task", "first", "second"] and len(head) <= 80
    document = dpicl(f"{command} --json").json
    (pair, *_) = document["pairs"]
    assert document["rows"] == ["tang@2", "prism_short@2"] and pair["first"]["row"] == "tang@2"
    assert pair["verdict"] == "not tested" and "common seed" in pair["reason"]
    comparison = api.compare(*document["rows"], suite=sim_suite, results=folder)
    columns = {"first", "second", "difference", "low", "high", "p_adjusted", "verdict"}
    assert columns <= {*comparison.to_frame().columns}
    assert "<table" in comparison._repr_html_() and repr(comparison)


def test_a_part_of_a_board_keeps_baselines_and_ranks(board):
    (section,) = choose_part(board, tasks=["trec"], labels=["tang"], epsilons=[1.0]).sections
    (table,) = section.tables
    assert [row.label for row in table.in_order] == ["zero_shot", "tang", "real_demonstrations"]
    whole = board.sections[0].tables[1].rows
    assert table.rows == tuple(row for row in whole if row.key == ("tang", 1.0))
    assert [answer.task for answer in section.answers] == ["trec"]
    assert choose_part(board) is board
    mixed = build_board([*results(), *results("trec", source="local")])
    assert [one.group.source for one in choose_part(mixed, tasks=["trec"]).sections] == ["local"]
    for wrong in ({"tasks": ["tree"]}, {"labels": ["tong"]}, {"epsilons": [3.0]}):
        with pytest.raises(UsageError):
            choose_part(board, **wrong)
    more = replace(board, tasks=("agnews", "dbpedia", "trec"))
    with pytest.raises(UsageError, match=r"'dbpedia' .* With results: agnews, trec"):
        choose_part(more, tasks=["dbpedia"])


def test_an_answer_names_the_best_and_the_control_to_beat(board):
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


def test_an_answer_names_the_best_that_prompt_a_model():
    """Where one that prompts none scores higher."""
    scores = {"embedding_centroids": 0.9, "tang": 0.7, "prism": 0.68, "voting": 0.2}
    rows = [*make("zero_shot", 0.1)]
    for name, score in scores.items():
        rows += make(name, score)
    (section,) = build_board(rows).sections
    assert [one.label for one in section.answers[0].best] == ["embedding_centroids"]
    assert section.answers[0].controls == ()
    first, *others = section.tables[0].rows
    marked = replace(first, marks=(BY_EMBEDDINGS,))
    (answer,) = answers([replace(section.tables[0], rows=(marked, *others))])
    assert answer.texts == ("tang (0.700) and prism (0.680)", "embedding_centroids (0.900)")
    assert answer.verdict == "2 of 3 tied"


CONTROLS = ("zero_shot", "public_demonstrations")
FEW = "no row has 10 seeds"
#: Case -> (which cells are there, why nobody is ranked).
UNRANKED = {
    "no control": (
        lambda cell: cell.label not in CONTROLS,
        "no row that reads no record (zero_shot, say) is there to compare with",
    ),
    "one row": (lambda cell: cell.label not in (*CONTROLS, "pta", "prism"), "no row that reads no"),
    "nine seeds": (lambda cell: cell.seed < 9, FEW),
    "one row of nine seeds": (
        lambda cell: cell.seed < 9 and cell.label in ("tang", *CONTROLS),
        FEW,
    ),
    "nine seeds of controls": (
        lambda cell: cell.label not in CONTROLS or cell.seed < 9,
        f"{FEW} in common with one that reads no record",
    ),
}


@pytest.mark.parametrize("case", UNRANKED)
def test_without_controls_or_seeds_nobody_is_ranked_or_advised(case):
    """On the terminal, in the table of answers and in JSON."""
    is_there, reason = UNRANKED[case]
    board = build_board([one for one in results() if is_there(one.cell)])
    (section,) = board.sections
    assert all(row.rank is None for row in section.rows)
    for answer in section.answers:
        assert answer.best == () and reason in answer.line
    shown = " ".join(to_text(overview(board, None)).split())
    assert f"No verdict: agnews ({reason}" in shown and " beat" not in shown.split("No verdict")[0]
    levels = board_json(board)["sections"][0]["tasks"][0]["unranked_levels"]
    reason = f"nobody is ranked, because {reason}"
    assert levels and all(reason in why for why in levels.values())


def test_a_row_of_nine_seeds_has_no_rank_beside_rows_of_ten():
    board = build_board([one for one in results() if one.cell.label != "tang" or one.cell.seed < 9])
    ranks = {
        row.label: (row.rank, row.no_rank) for row in board.sections[0].rows if row.epsilon == 1
    }
    assert ranks["tang"] == (None, "it has fewer than 10 seeds") and ranks["pta"][0] is not None
    assert "it has fewer than 10 seeds" in rows_frame(board)["unranked"].to_list()


def test_only_rows_that_beat_the_control_are_advised():
    references = [
        one for one in results() if one.cell.label in ("zero_shot", "real_demonstrations")
    ]
    (answer,) = build_board([*references, *make("a", 0.3), *make("b", 0.3)]).sections[0].answers
    assert answer.beating == ()
    assert "none shown to beat zero_shot (0.300); 2 inconclusive" in answer.line
    tang = [one for one in results() if one.cell.label == "tang"]
    (answer, _) = build_board([*references, *tang]).sections[0].answers
    assert answer.verdict == "the only row"
    assert answer.line == "agnews: tang beats zero_shot (0.300)"


def test_the_scores_beside_a_difference_are_of_its_seeds():
    scores = [*SCORES.items(), ("zero_shot", 0.3)]
    rows = repeat([make_result(*score, documents=50) for score in scores], 20)
    rows = [one for one in rows if one.cell.label != "pta" or one.cell.seed < 10]
    rows = [one for one in rows if one.cell.label != "tang" or one.cell.seed < 10]
    rows += [make_result("tang", 1.0, seed=seed, documents=50) for seed in range(10, 20)]
    (pair,) = compare_named(build_board(rows), "quick", "tang@1", "pta@1").pairs
    one, other = pair.means
    assert pair.seeds == (*range(10),) and one - other == pytest.approx(pair.difference.value)
    assert one == pytest.approx(0.8) and pair.one.score == pytest.approx(0.9)
    data = pair.to_json()
    assert data["first"]["score"] - data["second"]["score"] == pytest.approx(data["difference"])
    assert data["first"]["score_of_all_seeds"] == pytest.approx(0.9)
    apart = [one for one in rows if one.cell.label != "pta" or one.cell.seed == 0]
    apart = [one for one in apart if one.cell.label != "tang" or one.cell.seed > 0]
    comparison = compare_named(build_board(apart), "quick", "tang@1", "pta@1")
    (pair,) = comparison.pairs
    assert pair.difference is None and pair.means == (None, None)
    assert "–" in to_text(comparison.blocks())
