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
    finding = world.make_finding("ledger", run_code=True)
    assert finding.status == "ok"
    assert finding.why.startswith(
        "5 ledgers are what the mechanism declares; this trusts the submitted code"
    )


def test_a_short_consistent_ledger_is_found_by_declared_events(world: World):
    """The epsilon is recomputed and fits; only the mechanism knows that more was charged."""
    short_ledger(world)
    edit_part("privacy", epsilon_proved=1.0)(world)
    finding = world.make_finding("ledger", run_code=True)
    assert finding.status == "failed"
    assert "(and 4 more): its ledger" in finding.why


def test_submitted_code_does_not_run_without_the_flag(world: World):
    for check in ("ledger", "conformance"):
        finding = world.make_finding(check)
        assert finding.status == "not checked" and "--run-code" in finding.why


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
    finding = world.make_finding("ledger", run_code=True)
    assert finding.status == "failed" and "fails to import: SystemExit" in finding.why


@pytest.mark.slow
def test_the_whole_gate_with_code_and_a_rerun(world: World, dpicl, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(manifest, "commit", lambda: ("0" * 40, False))
    words = f"submit {world.folder} --suite {world.suite} --results {world.results} --rerun 2"
    answer = dpicl(words, "--run-code", "--json")
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


def test_the_cells_of_a_rerun_can_be_drawn_again(
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
    outcome = rerun_outcome(contents, up, 1)
    assert outcome.problems and "lean one way" in "".join(outcome.problems)
    assert "--rerun-seed 1" in outcome.notes[1]
    assert not rerun_outcome(contents, down, 1).problems
    assert p_of_lean([rerun(one, (), texts) for one in claimed], 1) == 1


@pytest.mark.parametrize("flips", [range(7), range(90, 97)], ids=["up", "down"])
@pytest.mark.parametrize("identical", [0, 3])
def test_fewer_than_seven_other_demonstrations_prove_nothing(world: World, flips, identical: int):
    claimed = [make_result(score=0.6, documents=100, seed=seed) for seed in range(6 + identical)]
    cells = [rerun(one, flips, "other") for one in claimed[:6]] + [
        compare_reruns(one, one) for one in claimed[6:]
    ]
    with pytest.raises(
        NotChecked, match=r"6 of \d cells came .* fewer than 7 cannot show .* at least 2\^-6"
    ) as not_checked:
        rerun_outcome(read_contents(world.folder), cells, 1)
    assert not any("For the card" in note for note in not_checked.value.notes)


def test_a_rerun_that_proves_nothing_is_not_checked(world: World, monkeypatch: pytest.MonkeyPatch):
    def differ(case: Case, chosen: Sequence[Result]) -> list[RerunCell]:
        texts = [change(one, "released", []) for one in chosen]
        return [RerunCell(one, now, False, "") for one, now in zip(chosen, texts, strict=True)]

    monkeypatch.setattr(code, "rerun", differ)
    monkeypatch.setattr(examination, "run_checks", lambda case: [])
    refusal = examine(world.case(run_code=True), again=5)
    assert {one.check: one.status for one in refusal.findings}["rerun"] == "not checked"
    assert refusal.ending == "team_a/vote passes what was checked; not checked: rerun."
    assert "reproduced:" not in str(refusal.as_json())


def test_an_honest_rerun_leans_as_often_as_it_is_said():
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


def test_a_rerun_on_one_machine_is_identical_elsewhere_close(world: World):
    reported = from_text(world.files[0].read_text())
    same = compare_reruns(reported, reported)
    assert same.identical and not same.problem
    texts = [change(one, "text", "another text") for one in reported.released]
    again = change(reported, "released", texts)
    elsewhere = change(again, "manifest.machine.cpu", "another processor")
    value = reported.scores[reported.main_metric].value
    for before, after, problem in (
        (reported, again, "not identical"),
        (reported, elsewhere, ""),
        (round_by(reported, "a"), round_by(again, "a"), "not identical"),
        (round_by(reported, "a"), round_by(again, "b"), ""),  # other threads, say
        (reported, round_by(again, "b"), ""),  # of before it was noted
        (reported, score_by(elsewhere, value + 0.5), "the scores differ by 0.500, more than"),
        (reported, change(elsewhere, "privacy.epsilon_proved", 1.9), "another epsilon is proved"),
    ):
        sentence = compare_reruns(before, after).problem
        assert problem in sentence and bool(sentence) == bool(problem)
    later = change(round_by(again, "b"), "main_metric", "another")  # of the task's next version
    assert compare_reruns(reported, later).score == value
    with pytest.raises(UsageError, match="run the suite again"):
        compare_reruns(change(reported, "main_metric", "gone"), later)
    assert SLACK == 0.02


def score_by(result: Result, value: float) -> Result:
    score = change(result.scores[result.main_metric], "value", value)
    return change(result, "scores", {**result.scores, result.main_metric: score})
