"""Who reads a score is in every output, and no row is ranked by an embedding model that it uses itself."""

from __future__ import annotations

import pytest

from dpicl.leaderboards.compare.rows import compare_named
from dpicl.leaderboards.model.board import Board, build_board
from dpicl.leaderboards.model.marks import CHANGED_CODE, OWN_READER, marks_of
from dpicl.leaderboards.publish.runs import plan
from dpicl.leaderboards.render.as_json import board_json
from dpicl.leaderboards.render.html import pages
from dpicl.plan.sizing import find_mde
from dpicl.results.columns import COLUMNS
from dpicl.results.parts import Embedding
from dpicl.results.schema import Result
from dpicl.tables.console import to_text
from tests.leaderboards.factory import change, ends, make_result, repeat
from tests.leaderboards.shown import render_terminal

SEEDS = 3
MINILM = "st:sentence-transformers/all-MiniLM-L6-v2@main"
CLASSIFIER = "acc_nearest, read by a classifier on the texts (MiniLM)"
MODEL = "acc_calibrated, answered by the model"


def make_voter(
    embedding: str = "embedded", metric: str = "acc_nearest", score: float = 0.9, **more: object
) -> Result:
    """A row that votes by an embedding model."""
    return make_result(
        "private_evolution", score, metric=metric, options={"embedding": embedding}, **more
    )


def make_board() -> Board:
    """On one task a classifier reads the texts, on the other the model answers; the voter is highest on both."""
    results = []
    for task, metric in (("agnews_codes", "acc_nearest"), ("dbpedia", "acc_calibrated")):
        same = {"task": task, "metric": metric, "documents": 50}
        results += [*ends(zero_shot=0.2, real_data=0.9, **same), make_voter(score=0.88, **same)]
        results += [make_result("public_demonstrations", 0.3, epsilon=0.0, **same)]
        results += [
            make_result(name, score, **same) for name, score in (("tang", 0.6), ("pta", 0.4))
        ]
    return build_board(repeat(results))


@pytest.fixture(scope="module")
def board() -> Board:
    return make_board()


@pytest.mark.parametrize(
    ("options", "metric", "model", "marked"),
    [
        ({"embedding": "embedded"}, "acc_nearest", "embedded", True),
        ({"embedding": "embedded"}, "acc_logistic", "embedded", True),
        ({"embedding": "embedded"}, "similarity", "embedded", True),
        ({"embedding": MINILM}, "acc_nearest", "embedded", True),
        ({"embedding": "st:another-model"}, "acc_nearest", "embedded", False),
        ({"embedding": "embedded"}, "acc_calibrated", "embedded", False),
        ({"embedding": "embedded"}, "acc_nearest", "sim", False),
        ({"embedding": "sim"}, "acc_nearest", "sim", True),
        ({"encoder": "embedded"}, "acc_nearest", "embedded", True),
        ({"style": "completion", "slots": 4}, "acc_nearest", "embedded", False),
    ],
)
def test_a_row_is_marked_where_its_metric_reads_its_embeddings(options, metric, model, marked):
    result = make_result("mine", 0.9, metric=metric, options=options)
    result = change(result, "manifest.model.name", model)
    assert (OWN_READER in marks_of([result])) is marked


@pytest.mark.parametrize("embedding", ["embedded", "st:another-model"])
def test_another_reader_does_not_take_the_mark_away(embedding):
    read = Embedding(name="st:another-model", sha256=None)
    assert OWN_READER in marks_of([change(make_voter(embedding), "manifest.embedding", read)])


def test_a_row_with_its_own_reader_is_neither_ranked_nor_advised(board):
    codes, dbpedia = board.sections[0].tables
    rows = {row.label: row for row in codes.rows}
    ranks = {label: str(row.rank) for label, row in rows.items() if row.rank}
    assert ranks == {"tang": "1", "pta": "2"}
    voter = rows["private_evolution"]
    assert voter.unranked == OWN_READER.name and voter.against_public is None
    assert next(str(row.rank) for row in dbpedia.rows if row.label == voter.label) == "1"
    answer, other = board.sections[0].answers
    assert [one.label for one in answer.best] == ["tang"]
    assert [str(one) for one in answer.own_readers] == ["private_evolution (0.880)"]
    assert answer.metrics == CLASSIFIER
    assert [one.label for one in other.best] == ["private_evolution"] and not other.own_readers


def test_the_smallest_difference_is_that_of_the_ranked_rows(board):
    results = [one for row in board.sections[0].rows for one in row.results]
    without = [one for one in results if one.cell.mechanism != "private_evolution"]
    shared = ("embedded", "agnews_codes", "synthetic", 1.0)
    assert find_mde(results)[shared] == find_mde(without)[shared]
    assert board.sections[0].tables[0].detectable[1.0] == find_mde(results)[shared]


def test_a_comparison_says_it_beside_the_verdict(board):
    comparison = compare_named(board, "quick", "private_evolution@1", "tang@1")
    text = " ".join(to_text(comparison.blocks(), False).split())
    assert "¶ private_evolution@1: uses the embeddings that this metric reads." in text
    codes, dbpedia = comparison.pairs
    assert codes.verdict_names == ("private_evolution@1 ¶", "tang@1")
    assert dbpedia.verdict_names == ("private_evolution@1", "tang@1")
    assert [pair["reader"] for pair in comparison.document()["pairs"]] == [
        "read by a classifier on the texts (MiniLM)",
        "answered by the model",
    ]


def test_every_output_names_the_reader_of_a_metric(board):
    reader = "read by a classifier on the texts (MiniLM)"
    for full in (False, True):
        assert reader in " ".join(render_terminal(board, full=full).split())
    files = pages(board)
    assert CLASSIFIER in files["index.html"] and f",{reader}," in files["board.csv"]
    assert all(reader in text for name, text in files.items() if "agnews_codes" in name)
    readers = [one["reader"] for one in board_json(board)["sections"][0]["tasks"]]
    assert readers == [reader, "answered by the model"]
    results = [one for row in board.sections[0].rows for one in row.results]
    configs = [run.config for run in plan(results).runs]
    assert {config["reader"] for config in configs if "reader" in config} == {*readers}
    assert COLUMNS["reader"].value(results[0]) == reader


def test_texts_that_are_scored_themselves_are_read_by_nobody():
    result = make_result("tang", 0.6, task="wikimovies", metric="valid", documents=4)
    samples = change(result.documents["valid"], "ids", [f"sample-{i}" for i in range(4)])
    result = change(result, "documents", {"valid": samples})
    (table,) = build_board([result]).sections[0].tables
    assert table.reader == "counted in the texts"
    assert "valid answers, counted in the texts, 4 released texts" in render_terminal(
        build_board([result])
    )


@pytest.mark.parametrize(("dirty", "marked"), [(True, True), (False, False), (None, False)])
def test_one_result_of_a_changed_checkout_marks_its_row(dirty, marked):
    clean, other = (make_result("tang", 0.6, seed=seed) for seed in (0, 1))
    results = [clean, change(other, "manifest.dirty", dirty)]
    assert (CHANGED_CODE in marks_of(results)) is marked
    files = pages(build_board([*ends(), *results]))
    assert (CHANGED_CODE.name in files["board.csv"]) is marked


def test_a_mark_of_one_task_stands_beside_that_score_alone():
    clean, loose = (make_result("tang", 0.6, task=task) for task in ("agnews", "trec"))
    loose = change(loose, "privacy.slack", 2.0)
    text = render_terminal(
        build_board(repeat([*ends(), *ends(task="trec"), clean, loose])), full=False
    )
    (line,) = [line for line in text.splitlines() if line.startswith("tang")]
    assert line.split() == ["tang", "0.600*", "0.600*", "°"]
    assert "* beats every row without records; ° loose bound\n" in text
