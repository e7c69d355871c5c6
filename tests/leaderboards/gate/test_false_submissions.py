"""Submissions that agree with themselves and are false all the same, seen with their code or from outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpicl.core.errors import UsageError
from dpicl.leaderboards.gate.consistency import explain_missing_texts
from dpicl.leaderboards.gate.contents import read_contents
from dpicl.leaderboards.gate.examination import known_suites, load_submissions
from dpicl.leaderboards.gate.ledgers import events_of, ledger_problem, recompute
from dpicl.results.store import Store
from tests.leaderboards.gate.conftest import World, move_results

RESULTS = Path(__file__).parents[3] / "results"


def test_an_answer_mechanism_without_queries_is_refused():
    """Its ledger is consistent and pays for one query, and 100 were answered."""
    results, _ = Store(RESULTS, "open").load_all()
    honest = next(result for result in results if result.cell.mechanism == "voting")
    assert (
        events_of([honest], [])
        and explain_missing_texts(honest) == ""
        and ledger_problem(honest) == recompute(honest)[0] == ""
    )
    for queries in (None, 1, honest.released_count - 1):
        privacy = honest.privacy.model_copy(update={"queries": queries})
        false = honest.model_copy(update={"privacy": privacy, "answers": []})
        with pytest.raises(UsageError, match=rf"covers {queries or 'no'} queries, and it answered"):
            events_of([false], [])
        assert "texts and holds none" in explain_missing_texts(false)


def test_texts_may_be_missing_only_where_the_task_withholds_them():
    results, _ = Store(RESULTS, "generation").load_all()
    withheld = next(
        one
        for one in results
        if one.released_count and not one.released and one.cell.mechanism == "esa"
    )
    assert explain_missing_texts(withheld) == ""
    public = withheld.cell.model_copy(update={"source": "synthetic"})
    assert "holds none" in explain_missing_texts(withheld.model_copy(update={"cell": public}))


@pytest.mark.parametrize("code", [0, 1])
def test_code_that_ends_the_program_is_no_pass(world: World, dpicl, code: int):
    path = world.folder / "vote.py"
    path.write_text(
        path.read_text().replace("\nimport ", f"\nimport os\nos._exit({code})\nimport ", 1)
    )
    move_results(plugin=read_contents(world.folder).plugin_hash)(world)
    answer = dpicl(
        f"submit {world.folder} --suite {world.suite} --results {world.results}", "--run-code"
    )
    assert answer.code == 2 and "passes" not in answer.out
    assert "ended the program before the checks were done" in answer.err


def test_strays_below_the_root_are_refused(world: World, dpicl):
    words = f"submit {world.root} --all --suite {world.suite} --results {world.results} --json"
    (world.root / "README.md").write_text("Submissions.\n")
    assert dpicl(words).code == 0
    (world.root / "team_a" / "records.csv").write_text("x")
    (world.root / ".hidden").mkdir()
    (world.root / "linked").symlink_to(world.root / "team_a")
    answer = dpicl(words)
    (places,) = [one for one in answer.json["whole"] if one["check"] == "places"]
    assert answer.code == 1 and places["status"] == "failed"
    for name in (".hidden", "linked", "team_a/records.csv"):
        assert any(
            one.startswith(f"{name} is not a submission")
            for one in (places["why"], *places["others"])
        )


def test_a_card_of_an_old_version_hides_no_current_results(world: World):
    world.card("suite_version: 1", "suite_version: 0")
    submissions, problems = load_submissions(world.root, known_suites([world.suite]))
    assert submissions == [] and "suite_version is 0, and tiny ships in version 1" in problems[0]
