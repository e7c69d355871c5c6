"""What boards call things: the model by its name, seeds by their number, one thing in the singular, ε never as Ε."""

import re

import pytest

from dpicl.core.messages import capitalized
from dpicl.leaderboards.compare.track import build_tracks
from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.render import html
from dpicl.tables.console import to_text
from tests.leaderboards.factory import ends, make_result, write_shipped
from tests.leaderboards.shown import render_terminal
from tests.leaderboards.site_factory import Page

MODEL = "SmolLM2-135M-Instruct"
PLURALS = "seeds|rows|cells|records|results|documents|attacks|texts|lines|queries|tokens|releases|runs|tasks"


def results(model="embedded", seeds=(0, 2), documents=40):
    """Two mechanisms and both baselines on a task, all read by the model whose name in the manifest is a spec, too."""
    found = []
    for seed in seeds:
        common = {"model": model, "seed": seed, "documents": documents}
        found += [*ends("agnews", 0.3, 0.9, **common), make_result("tang", 0.8, **common)]
        found.append(make_result("pta", 0.5, queries=1, **common))
    return [one.model_copy(update={"manifest": named(one.manifest, model)}) for one in found]


def named(manifest, model):
    return manifest.model_copy(update={"model": manifest.model.model_copy(update={"name": model})})


def texts(board):
    """What a reader sees of a board: the terminal, and every page of the site in words."""
    files = html.pages(board) | {"suites": html.suites_page({"quick": board}, [])}
    pages = {name: Page(text) for name, text in files.items() if not name.endswith((".csv", ".json"))}
    words = {name: " ".join([page.words, *page.scripts]) for name, page in pages.items()}
    return {"terminal": " ".join(render_terminal(board, color=False).split()), **words}


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("embedded", MODEL),
        ("embedded-float32", f"{MODEL} (float32)"),
        ("ginc", "GPT-2 trained on GINC"),
        ("hf:a/b", "hf:a/b"),
    ],
)
def test_the_model_has_its_name_wherever_a_board_is_read(model, name):
    board = build_board(results(model))
    shown = texts(board)
    shown["releases"] = to_text(build_tracks(results(model), by="model").blocks(), False)
    assert [where for where, text in shown.items() if name not in text and "mechanisms/" not in where] == []
    if name != model:  # a command still says it as a command does
        spec = re.compile(rf"(?<!--model )(?<![-\w/]){model}(?![-\w])")
        assert [where for where, text in shown.items() if spec.search(text)] == []


def test_one_thing_is_in_the_singular():
    wrong = re.compile(rf"(?<![\d.,–-])1 ({PLURALS})\b")
    shown = texts(build_board(results(seeds=(0,), documents=1)[:3]))
    assert {where: found[0] for where, text in shown.items() if (found := wrong.search(text))} == {}
    assert "1 test record" in shown["terminal"] and "1 test record" in shown["index.html"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("ε = 1: first", "ε = 1: first"), ("δ is", "δ is"), ("μ", "μ"), ("plain", "Plain"), ("É", "É"), ("", "")],
)
def test_a_symbol_is_not_capitalized(text, expected):
    assert capitalized(text) == expected


def test_the_run_of_record_comes_first(dpicl, tmp_path, monkeypatch):
    monkeypatch.delenv("DPICL_DATA", raising=False)
    write_shipped(tmp_path, [*ends(suite="quick"), *ends(suite="v1")])
    answer = dpicl("board", "all", "--results", tmp_path, "--no-submissions", "--json")
    assert [line["suite"] for line in answer.json["suites"]] == ["v1", "quick"]
