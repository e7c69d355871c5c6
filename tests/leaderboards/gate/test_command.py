"""`dpicl submit` as a reviewer and an author use it."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from dpicl.leaderboards.gate.examination import load_submissions
from dpicl.results.schema import from_text
from tests.leaderboards.gate.conftest import World

HOSTILE = "<script>alert(1)</script> | `x` \u202e @somebody"


def words(world: World, *more: object) -> list[object]:
    return ["submit", world.folder, "--suite", world.suite, "--results", world.results, *more]


def test_a_good_submission_names_the_board_with_its_rows(world: World, dpicl):
    answer = dpicl(*words(world))
    assert answer.code == 0
    assert (
        "team_a/vote passes what was checked; not checked: commit, history, ledger, conformance."
        in answer.out
    )
    (command,) = dpicl(*words(world, "--json")).json["next"]
    assert answer.out.endswith(f"\nNext: {command}\n")
    board = dpicl(*shlex.split(command)[1:])
    assert board.code == 0 and "team_a/vote, submitted" in board.out


def test_json_has_every_check_and_no_text(world: World, dpicl):
    answer = dpicl(*words(world, "--json"))
    (submission,) = answer.json["submissions"]
    assert answer.json["ok"] and submission["ok"] and submission["submission"] == "team_a/vote"
    assert {check["check"] for check in submission["checks"]} >= {
        "size",
        "epsilon",
        "private records",
        "conformance",
    }
    released = json.loads(world.files[0].read_text())["released"][0]["text"]
    assert released not in answer.out


def test_submissions_are_compared_with_each_other(world: World, dpicl):
    other = world.root / "team_b" / "copied"
    shutil.copytree(world.folder, other)
    card = (
        (other / "submission.yaml")
        .read_text()
        .replace("team_a", "team_b")
        .replace("method: vote", "method: copied")
    )
    (other / "submission.yaml").write_text(card)
    answer = dpicl(
        f"submit {world.root} --all --suite {world.suite} --results {world.results}", "--json"
    )
    assert answer.code == 1
    for submission in answer.json["submissions"]:
        (check,) = [one for one in submission["checks"] if one["check"] == "duplicates"]
        assert check["status"] == "failed" and "5 of its cells are those of team_" in check["why"]


def test_what_strangers_wrote_is_shown_in_the_line_of_its_check(world: World, dpicl):
    world.card("tuning: none", f'tuning: none\n"\\n{HOSTILE}": 1')
    answer = dpicl(*words(world))
    assert "team_a/vote is refused: card" in answer.out and "Unknown key" in answer.out
    assert "\u202e" not in answer.out and "\x1b" not in answer.out


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ([], "Name the folder of a submission, or give --all"),
        (["nowhere"], "There is no folder nowhere"),
        ([".", "--rerun-seed", "1"], "add --rerun N"),
        ([".", "--all", "--new", "a/b"], "--new"),
        ([".", "--base", "no-such-revision"], "give --base a"),
        ([".", "--suite", "nowhere.yaml"], "nowhere.yaml"),
        (["--new", "A/b"], "is not of the form TEAM/METHOD"),
        (["--new", "../b"], "is not of the form TEAM/METHOD"),
        (["--new", "a/typing"], "typing.py would have the name of a module"),
    ],
)
def test_a_bad_use_is_one_sentence_with_exit_code_2(tmp_path, monkeypatch, dpicl, flags, sentence):
    monkeypatch.chdir(tmp_path)
    answer = dpicl("submit", *flags)
    assert answer.code == 2 and answer.out == ""
    assert sentence in answer.err and answer.err.count("\n") == 1


def test_a_new_submission_is_refused_until_it_is_filled_in(world: World, dpicl):
    answer = dpicl(f"submit {world.root} --new team_c/mine")
    assert answer.code == 0
    folder = world.root / "team_c" / "mine"
    assert {path.name for path in folder.iterdir()} == {"submission.yaml", "README.md"}
    refused = dpicl(f"submit {folder} --suite {world.suite} --results {world.results}")
    assert (
        refused.code == 1
        and "authors, entry 1, paper, public_data, tuning: each still says TODO" in refused.out
    )
    assert "README.md still says TODO" in refused.out
    again = dpicl(f"submit {world.root} --new team_c/mine")
    assert again.code == 2 and "already exists" in again.err
    _, problems = load_submissions(world.root)
    assert any("team_c/mine is left out" in problem for problem in problems)
    for suite in ("record", world.suite):
        begun = dpicl(
            f"submit {world.root} --new", f"team_d/{Path(suite).stem}", "--suite", suite, "--json"
        )
        assert f"suite: {Path(suite).stem}\n" in Path(begun.json["files"][0]).read_text()
        assert begun.json["next"][1].startswith(f"dpicl run {suite} ")


def test_a_folder_of_submissions_is_not_taken_for_one(world: World, dpicl):
    for folder in (world.folder.parent, world.folder.parent.parent):
        answer = dpicl("submit", folder)
        assert (
            answer.code == 2
            and f"{folder} holds submissions; name one of them, such as" in answer.err
        )


def test_trials_with_other_settings_change_nothing(world: World, dpicl):
    ends = "--mechanism zero_shot --mechanism real_demonstrations --seed 0 --limit 5"
    assert dpicl(f"run {world.suite} --results {world.results} {ends}").code == 0
    answer = dpicl(*words(world))
    assert answer.code == 0, answer.out


def test_what_ones_own_run_left_is_no_duplicate(world: World):
    shutil.copytree(
        world.folder / "results", world.results, dirs_exist_ok=True
    )  # `dpicl run` without --results
    assert world.status("duplicates")[0] == "ok"


def test_too_few_seeds_name_those_that_are_missing(world: World):
    seed = from_text(world.files[0].read_text()).cell.seed
    world.files[0].unlink()
    status, why = world.status("seeds")
    assert (
        status == "failed" and f"lacks seed {seed} of the suite; run it too (--seed {seed})" in why
    )


def test_the_seeds_that_a_suite_gives_a_task_are_enough(world: World, tmp_path: Path):
    by_seed = {from_text(path.read_text()).cell.seed: path for path in world.files}
    text = world.suite.read_text()
    for few in ("task_seeds: {agnews: 3}", "epsilon_seeds: {2: 3}"):
        world.suite.write_text(f"{text}{few}\n")
        assert world.status("seeds")[0] == "ok"  # all of the list
    by_seed[3].unlink()
    assert "lacks seed 3 of its list" in world.status("seeds")[1]
    by_seed[4].unlink()
    assert world.status("seeds")[0] == "ok"
    earlier = shutil.copytree(world.root, tmp_path / "earlier")
    world.suite.write_text(text)
    assert "lacks seed 3–4 of the suite" in world.status("seeds")[1]
    assert world.status("seeds", base=earlier) == (
        "ok",
        "nothing was changed; its seeds were looked at when it came",
    )
    world.suite.write_text(f"{text}task_seeds: {{agnews: 2}}\n")
    by_seed[2].unlink()
    assert "lacks seed 2 of the suite" in world.status("seeds")[1]
