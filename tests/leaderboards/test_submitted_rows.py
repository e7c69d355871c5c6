"""Submitted rows, and results of earlier versions, on the board and on the command line."""

from __future__ import annotations

import shutil

import yaml

from dpicl.leaderboards.gate.examination import known_suites, load_submissions
from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.model.submissions import Card, Reported, Submission
from dpicl.results.schema import Result
from tests.leaderboards.factory import ends, make_result, repeat
from tests.leaderboards.gate.conftest import CARD, World, first_world, world  # noqa: F401
from tests.leaderboards.shown import render_terminal


def submit(result: Result | None = None, **keys) -> Submission:
    card = Card(**yaml.safe_load(CARD) | {"team": "t", "method": "m"} | keys)
    return Submission(card, (result or make_result("other", 0.7, label="other"),))


def show(*submissions: Submission) -> str:
    board = build_board([*ends(), make_result("tang", 0.6)], submissions=submissions)
    return render_terminal(board, color=False)


def test_a_submitted_row_stands_among_ours_under_its_own_name():
    text = show(submit())
    assert text.index("t/m") < text.index("tang")
    assert "A. Author" in text
    marked = show(submit(footnote="It knows the labels."))
    assert "t/m, submitted †" in marked and "It knows the labels" in " ".join(marked.split())


def test_an_unreliable_row_has_its_reason_and_no_rank():
    one = submit(unreliable="its code was not sent.")
    board = build_board(repeat([*ends(), make_result("tang", 0.6)]), submissions=[one])
    text = render_terminal(board, color=False)
    assert "t/m, unreliable" in text
    assert "marked unreliable: its code was not sent" in {
        row.unranked for row in board.sections[0].rows
    }
    assert [row.label for row in board.sections[0].tables[0].rows if row.rank] == ["tang"]


def test_reported_and_reproduced_stand_beside_measured():
    reported = Reported(task="agnews", epsilon=1, score=0.81, where="table 2")
    text = show(submit(reproduced="1 of 1 cell, 0.650, by B", reported=[reported]))
    lines = [line.split() for line in text[text.index("submitted row") :].splitlines()]
    cells = " ".join(word for line in lines if line[:1] == ["t/m"] for word in line)
    assert "A. Author 0.700 0.810 1 of 1 cell, 0.650" in cells


def test_the_loader_has_a_sentence_for_what_does_not_pass(world: World):  # noqa: F811
    suites = known_suites([world.suite])
    submissions, problems = load_submissions(world.root, suites)
    assert [one.name for one in submissions] == ["team_a/vote"] and problems == []
    assert len(submissions[0].results) == 5 and submissions[0].plugin == world.folder / "vote.py"
    shutil.copytree(world.folder, world.root / "team_b" / "vote")
    world.files[0].write_bytes(b"[" * 100_000)
    submissions, problems = load_submissions(world.root, suites)
    assert submissions == [] and len(problems) == 2
    (world.root / "team_c" / "late").mkdir(parents=True)
    (world.root / "team_c" / "late" / "submission.yaml").write_text("suite: other\n")  # unfinished
    assert len(load_submissions(world.root, suites, "tiny")[1]) == 3
    assert load_submissions(world.root, suites, "open")[1][0].startswith("Submission team_c/late")
    assert (
        "Submission team_a/vote is left out" in problems[0] and "nested too deeply" in problems[0]
    )
    assert "team_b/vote is left out" in problems[1] and "'team_a' and 'vote'" in problems[1]
    assert load_submissions(world.root / "nowhere", suites) == ([], [])


def test_the_command_shows_submissions_unless_told_not_to(world: World, dpicl):  # noqa: F811
    words = f"board {world.suite} --results {world.results}"
    with_them = dpicl(words, "--submissions", world.root)
    assert with_them.code == 0 and "team_a/vote" in with_them.out
    assert "team_a/vote" not in dpicl(words, "--submissions", world.root, "--no-submissions").out
    wrong = dpicl(words, "--submissions", world.root / "nowhere")
    assert wrong.code == 2 and "There is no folder" in wrong.err


def test_what_is_of_an_earlier_version_of_the_suite_is_left_out(world: World, dpicl):  # noqa: F811
    world.suite.write_text(world.suite.read_text().replace("version: 1", "version: 2"))
    answer = dpicl(f"board {world.suite} --results {world.results} --submissions {world.root}")
    assert answer.code == 2 and "10 results with another suite version" in answer.err
    assert "suite_version is 1, and tiny ships in version 2" in answer.err
