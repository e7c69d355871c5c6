"""Submitted code runs only on request; what it says is trusted, and a re-run is compared with what was reported."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import fmean

import pytest

from dpicl.core.errors import UsageError
from dpicl.leaderboards.gate import code, examination
from dpicl.leaderboards.gate.case import Case, NotChecked
from dpicl.leaderboards.gate.code import (
    LEAN_LEVEL,
    SLACK,
    RerunCell,
    compare_reruns,
    p_of_lean,
    rerun_outcome,
    sample,
)
from dpicl.leaderboards.gate.contents import read_contents
from dpicl.leaderboards.gate.examination import examine
from dpicl.results import manifest
from dpicl.results.schema import Result, from_text
from tests.leaderboards.factory import change, make_result
from tests.leaderboards.gate.conftest import World, edit_part, move_cell, short_ledger


def test_ledgers_are_what_the_mechanism_declares(world: World):
    found = world.make_finding("ledger", run_code=True)
    assert found.status == "ok"
    assert found.why.startswith(
        "5 ledgers are what the mechanism declares; this trusts the submitted code"
    )


def test_a_ledger_that_is_short_and_consistent_is_found_by_the_declared_events(world: World):
    """The epsilon is recomputed and fits; only the mechanism knows that more was charged."""
    short_ledger(world)
    edit_part("privacy", epsilon_proved=1.0)(world)
    found = world.make_finding("ledger", run_code=True)
    assert found.status == "failed"
    assert "(and 4 more): its ledger" in found.why


def test_submitted_code_does_not_run_without_the_flag(world: World):
    for check in ("ledger", "conformance"):
        found = world.make_finding(check)
        assert found.status == "not checked" and "--run-code" in found.why


def test_a_mechanism_that_fails_is_one_sentence(world: World):
    text = (
        (world.folder / "vote.py")
        .read_text()
        .replace('name = "vote"', 'name = "vote"\n    raise SystemExit(3)')
    )
    (world.folder / "vote.py").write_text(text)
    digest = read_contents(world.folder).plugin_hash
    for path in world.files:
        move_cell(path, plugin=digest)
    found = world.make_finding("ledger", run_code=True)
    assert found.status == "failed" and "fails to import: SystemExit" in found.why


@pytest.mark.slow
def test_the_whole_gate_with_code_and_a_rerun_whose_record_is_about_these_files(
    world: World, dpicl, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(manifest, "commit", lambda: ("0" * 40, False))
    words = [
        "submit",
        world.folder,
        "--suite",
        world.suite,
        "--results",
        world.results,
        "--rerun",
        2,
    ]
    answer = dpicl(*words, "--run-code", "--json")
    assert answer.code == 0, answer.out
    checks = {one["check"]: one for one in answer.json["submissions"][0]["checks"]}
    assert checks["conformance"]["status"] == "ok"
    assert "2 of 5 cells" in checks["rerun"]["why"] and "2 identical" in checks["rerun"]["why"]
    assert "sha256" in answer.err and "not a sandbox" in answer.err
    (line,) = [
        one.removeprefix("For the card: ")
        for one in checks["rerun"]["others"]
        if "reproduced:" in one
    ]
    assert "2 of 5 cells, 2 identical" in line and "commit 000000000000," in line
    world.card("tuning: none", f"tuning: none\n{line}")
    assert world.status("reproduced") == ("ok", "a re-run of these files")
    with (world.folder / "vote.py").open("a") as file:
        file.write("# changed\n")
    assert world.status("reproduced")[0] == "failed"


def test_the_cells_of_a_rerun_follow_from_nothing_that_was_sent_and_can_be_drawn_again(
    world: World,
):
    contents = read_contents(world.folder)
    draws = [sample(contents, 2) for _ in range(40)]
    assert len({seed for seed, _ in draws}) == 40
    assert len({cell.cell_id for _, cells in draws for cell in cells}) == 5
    assert all(sample(contents, 2, seed) == (seed, cells) for seed, cells in draws)
    assert len({one.cell_id for one in sample(contents, 99)[1]}) == 5


def rerun(reported: Result, flips: Sequence[int], texts: str) -> RerunCell:
    """A re-run on another processor with other outcomes of these documents. texts: what it released."""
    outcomes = [
        1 - one if i in flips else one
        for i, one in enumerate(reported.documents["acc_calibrated"].outcomes)
    ]
    data = reported.model_dump()
    data["documents"]["acc_calibrated"]["outcomes"] = outcomes
    data["scores"]["acc_calibrated"] |= {"value": fmean(outcomes), "low": 0.0, "high": 1.0}
    data["released"][0]["text"] = texts
    data["manifest"]["machine"]["cpu"] = "another processor"
    return compare_reruns(reported, Result(**data))


@pytest.mark.parametrize(("texts", "cells"), [("a released text", 2), ("other", 8)])
def test_allowances_collected_in_one_direction_are_refused(world: World, texts: str, cells: int):
    """Seven points above what comes out, everywhere, and each within its allowance; below it nobody gains."""
    claimed = [make_result(score=0.6, documents=100, seed=seed) for seed in range(cells)]
    contents = read_contents(world.folder)
    up = [rerun(one, range(7), texts) for one in claimed]
    down = [rerun(one, range(90, 97), texts) for one in claimed]
    assert not any(one.problem for one in (*up, *down))
    found = rerun_outcome(contents, up, 1)
    assert found.problems and "lean one way" in "".join(found.problems)
    assert "--rerun-seed 1" in found.notes[1]
    assert not rerun_outcome(contents, down, 1).problems
    assert p_of_lean([rerun(one, (), texts) for one in claimed], 1) == 1


@pytest.mark.parametrize("flips", [range(7), range(90, 97)], ids=["up", "down"])
@pytest.mark.parametrize("identical", [0, 3])
def test_fewer_than_seven_demonstrations_that_came_out_otherwise_prove_nothing(
    world: World, flips, identical: int
):
    claimed = [make_result(score=0.6, documents=100, seed=seed) for seed in range(6 + identical)]
    cells = [rerun(one, flips, "other") for one in claimed[:6]] + [
        compare_reruns(one, one) for one in claimed[6:]
    ]
    with pytest.raises(
        NotChecked, match=r"6 of \d cells came .* fewer than 7 cannot show .* at least 2\^-6"
    ) as found:
        rerun_outcome(read_contents(world.folder), cells, 1)
    assert not any("For the card" in note for note in found.value.notes)


def test_a_rerun_that_proves_nothing_is_not_checked_and_has_no_line_for_the_card(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    def differ(case: Case, chosen: Sequence[Result]) -> list[RerunCell]:
        texts = [change(one, "released", []) for one in chosen]
        return [RerunCell(one, now, False, "") for one, now in zip(chosen, texts, strict=True)]

    monkeypatch.setattr(code, "rerun", differ)
    monkeypatch.setattr(examination, "run_checks", lambda case: [])
    found = examine(world.case(run_code=True), again=5)
    assert {one.check: one.status for one in found.findings}["rerun"] == "not checked"
    assert found.ending == "team_a/vote passes what was checked; not checked: rerun."
    assert "reproduced:" not in str(found.as_json())


def test_an_honest_rerun_on_another_processor_leans_as_often_as_it_is_said():
    """Other texts came out, so scores moved by a few documents, to either side alike."""
    chance = random.Random(0)
    claimed = [make_result(score=0.5, documents=100, seed=seed) for seed in range(8)]

    def move(reported: Result) -> RerunCell:
        start = chance.choice((0, 50))
        return rerun(reported, range(start, start + chance.randrange(9)), "other")

    runs = 400
    refused = sum(
        p_of_lean([move(one) for one in claimed], seed) <= LEAN_LEVEL for seed in range(runs)
    )
    assert refused <= 11  # 12 or more have a probability below 0.001 at a level of 0.01


def round_by(result: Result, arithmetic: str) -> Result:
    return change(result, "manifest.model.arithmetic", arithmetic)


def test_a_rerun_on_the_same_machine_must_be_identical_and_elsewhere_close(world: World):
    reported = from_text(world.files[0].read_text())
    assert (
        compare_reruns(reported, reported).identical
        and not compare_reruns(reported, reported).problem
    )
    texts = [change(one, "text", "another text") for one in reported.released]
    again = change(reported, "released", texts)
    assert "not identical" in compare_reruns(reported, again).problem
    elsewhere = change(again, "manifest.machine.cpu", "another processor")
    assert compare_reruns(reported, elsewhere).problem == ""
    assert (
        compare_reruns(round_by(reported, "a"), round_by(again, "b")).problem == ""
    )  # other threads, say
    assert "not identical" in compare_reruns(round_by(reported, "a"), round_by(again, "a")).problem
    assert compare_reruns(reported, round_by(again, "b")).problem == ""  # of before it was noted
    later = change(round_by(again, "b"), "main_metric", "another")  # of the task's next version
    assert compare_reruns(reported, later).score == reported.scores[reported.main_metric].value
    with pytest.raises(UsageError, match="run the suite again"):
        compare_reruns(change(reported, "main_metric", "gone"), later)
    score = reported.scores[reported.main_metric]
    far = change(score, "value", score.value + 0.5)
    moved = change(elsewhere, "scores", {**reported.scores, reported.main_metric: far})
    assert "the scores differ by 0.500, more than" in compare_reruns(reported, moved).problem
    assert SLACK == 0.02
    other = change(elsewhere, "privacy.epsilon_proved", 1.9)
    assert compare_reruns(reported, other).problem == "another epsilon is proved"
