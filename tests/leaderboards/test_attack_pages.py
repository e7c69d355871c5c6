"""Attacks on pages and in `dpicl board`: complete, damaged files named."""

import json
import re

import pytest

from dpicl.attacks import store
from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.model.evidence import Evidence, build_attacks
from dpicl.leaderboards.render.as_json import attacks_json, board_json
from dpicl.leaderboards.render.html import attacks_page, pages
from dpicl.program import main
from tests.leaderboards.attack_factory import AUC, make_attack
from tests.leaderboards.factory import ends, make_result, shipped_options, write_shipped
from tests.leaderboards.shown import render_attacks
from tests.leaderboards.site_factory import Page

COUNTS = {"addresses released": 3, "of them in the baseline": 1}


def some_attacks():
    membership = [
        make_attack(name, epsilon, 0.0, attack="inquiry", access="black-box", measures=AUC)
        for name, epsilon in (
            ("zero_shot", 0.0),
            ("tang", 1.0),
            ("tang", 8.0),
            ("real_demonstrations", 1.0),
        )
    ]
    pii = make_attack(
        "pta", audited=None, task="enron", attack="pii", access="black-box", counts=COUNTS
    )
    return [make_attack(audited=0.4, notes=["one query"]), *membership, pii]


def suite_page(attacks=()):
    """The board's page and the pages of all its rows, one after another."""
    results = [*ends(), make_result("tang", 0.6), make_result("tang", 0.7, epsilon=8.0)]
    files = pages(build_board(results, evidence=Evidence(tuple(attacks))))
    return "".join(content for name, content in files.items() if name.endswith(".html"))


def words(page):
    return " ".join(" ".join(Page(page).texts).split())


def test_a_refuted_row_is_struck_and_says_why():
    page = suite_page([make_attack(audited=2.1)])
    assert "audited ε 2.1 exceeds proved ε 0.99" in words(page)
    assert [tag for tag, attributes in Page(page).tags if attributes.get("class") == "flagged"] == [
        "tr"
    ] * 3


def test_the_board_of_attacks_shows_every_attack_whether_a_suite_has_a_row_or_not():
    board = build_attacks(some_attacks())
    assert [one.attack for one in board.attacks] == ["audit", *["inquiry"] * 4, "pii"]
    inquiries = [one.subject.mechanism for one in board.attacks if one.attack == "inquiry"]
    assert inquiries == ["zero_shot", "tang", "tang", "real_demonstrations"]
    for text in (render_attacks(board, color=False), words(attacks_page(board))):
        for part in ("addresses", "0.61 [0.48, 0.73]", "one query"):
            assert part.lower() in " ".join(text.lower().split())


def test_attacks_on_answers_have_q_in_their_name_and_lines_of_their_own():
    found = [
        make_attack("voting", queries=number, members=number, attack="exact_audit")
        for number in (20, 100)
    ]
    broken = make_attack("broken_answers", queries=8)
    text = render_attacks(build_attacks([*found, broken, make_attack("tang")]), color=False)
    names = re.findall(r"^ ((?:tang|voting|broken_answers)(?: \(Q = \d+\))?)  ", text, re.MULTILINE)
    assert names[:3] == ["tang", "voting (Q = 100)", "voting (Q = 20)"]
    assert text.count("voting (Q = 20) ") == 3 and "broken_answers (Q = 8)" in text


def test_an_attack_without_power_has_no_bound_to_show_in_short():
    chance = {"auc": AUC["auc"].model_copy(update={"value": 0.5, "low": 0.4, "high": 0.6})}
    weak = {"audited": 0.0, "attack": "gap", "access": "black-box", "measures": chance}
    control = make_attack("real_demonstrations", **{**weak, "audited": None})
    board = build_attacks(
        [make_attack("tang", **weak), make_attack("pta", **weak), control, make_attack("pta")]
    )
    lines = render_attacks(board, color=False).partition("gap: ")[0].splitlines()
    tang, pta = (
        next(line for line in lines if line.startswith(f" {name} ")) for name in ("tang", "pta")
    )
    assert re.split("  +", tang)[4:7] == ["no power here", "0.99", "–"]
    assert re.split("  +", pta)[4:7] == ["0.4", "0.99", "40%"]


def test_attacks_on_a_simulated_model_are_left_out_and_other_weights_are_told_apart():
    def simulate(result):
        model = result.manifest.model.model_copy(update={"name": "sim", "sha256": None})
        return result.model_copy(
            update={"manifest": result.manifest.model_copy(update={"model": model})}
        )

    fake = simulate(make_attack(model="sim"))
    board = build_attacks([make_attack(), fake])
    assert board.notes == ("Left out: 1 attack on a simulated model.",)
    assert len(board.attacks) == 1
    assert "simulated" in build_attacks([fake]).notes[0]
    both = build_attacks([make_attack(), make_attack(weights="0" * 64)])
    assert "(000000000000)" in words(attacks_page(both))


def test_attacks_as_json_are_strict_json_and_without_any_it_says_what_to_run():
    empty = build_attacks([])
    assert "dpicl audit" in render_attacks(empty) and "dpicl audit" in attacks_page(empty)
    document = json.loads(json.dumps(attacks_json(build_attacks(some_attacks())), allow_nan=False))
    assert {*document} == {"schema_version", "attacks", "notes"} and document["schema_version"] == 1
    board = board_json(build_board(ends()))
    assert {*board} == {"schema_version", "sections", "notes", "skipped"} and board[
        "schema_version"
    ] == 1
    assert {*board["sections"][0]} == {
        "group",
        "answers",
        "contrasts",
        "tasks",
        "measured",
        "notes",
    }
    assert [one["attack"] for one in document["attacks"]] == ["audit", *["inquiry"] * 4, "pii"]
    assert document["attacks"][-1]["counts"] == COUNTS
    assert document["attacks"][4]["epsilon_proved"] == "Infinity"


@pytest.fixture
def results_folder(tmp_path):
    """Results of the suite quick under its own hash, with an attack and a damaged file."""
    folder = tmp_path / "results"
    write_shipped(folder, [*ends(), make_result("tang", 0.6, options=shipped_options("tang"))])
    store.write(folder, make_attack(audited=2.1, task_version=2))
    (folder / "attacks" / "audit" / "old.json").write_text('{"schema_version": 0}')
    return folder


def test_board_command_reads_attacks(results_folder, tmp_path, capfd, monkeypatch):
    monkeypatch.delenv("DPICL_DATA", raising=False)
    arguments = ["board", "quick", "--source", "synthetic", "--results", str(results_folder)]
    assert main([*arguments, "--html", str(tmp_path / "site")]) == 0
    out, err = capfd.readouterr()
    assert "refuted" in out and "--attacks" in out
    assert "old.json is not a result of this version" in err


def test_board_attacks_command(results_folder, tmp_path, capfd):
    arguments = ["board", "attacks", "--results", str(results_folder)]
    assert main([*arguments, "--json", "--html", str(tmp_path / "site")]) == 0
    document = json.loads(capfd.readouterr().out)
    assert [one["epsilon"] for one in document["attacks"]] == [2.1]
    assert "audit on agnews" in (tmp_path / "site" / "index.html").read_text()
    for flag in (["--limit", "3"], ["--source", "local"]):
        assert main([*arguments, *flag]) == 2
        assert flag[0] in capfd.readouterr().err
