"""Scores that were there stay, unless the submission gets a new version."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dpicl.results.schema import from_text
from tests.leaderboards.gate.conftest import World


def move_score(world: World) -> None:
    """One file, changed consistently: a document was right and is wrong now, or the other way round."""

    def change(data):
        for metric, one in data["documents"].items():
            one["outcomes"][0] = 1 - one["outcomes"][0]
            mean = sum(one["outcomes"]) / len(one["outcomes"])
            data["scores"][metric] = {"value": mean, "low": 0.0, "high": 1.0}

    world.edit(change, world.files[:1])


@pytest.fixture
def before(world: World) -> Path:
    """An earlier copy of all submissions."""
    shutil.copytree(world.root, world.root.parent / "before")
    return world.root.parent / "before"


def test_a_first_submission_and_an_untouched_one_pass(world: World, before: Path):
    assert world.status("history")[0] == "not checked"
    assert world.status("history", base=before) == ("ok", "no score moved by more than 0.001")
    assert world.status("history", base=before / "team_a" / "vote")[0] == "ok"
    shutil.rmtree(before / "team_a")
    assert world.status("history", base=before) == ("ok", "new")


def test_a_score_that_moved_needs_a_new_version(world: World, before: Path):
    move_score(world)
    status, why = world.status("history", base=before)
    assert status == "failed" and "moved its score by" in why and "raise `version`" in why
    world.card("schema_version: 1\nversion: 1", "schema_version: 1\nversion: 2")
    assert world.status("history", base=before)[0] == "ok"
    world.files[0].unlink()
    world.card("version: 2", "version: 1")
    status, why = world.status("history", base=before)
    assert status == "failed" and "disappeared" in why


def test_a_version_never_goes_back(world: World, before: Path):
    (card := before / "team_a" / "vote" / "submission.yaml").write_text(
        card.read_text().replace("schema_version: 1\nversion: 1", "schema_version: 1\nversion: 3")
    )
    status, why = world.status("history", base=before)
    assert status == "failed" and "goes back from version 3 to 1" in why


@pytest.mark.parametrize("key", ["footnote", "unreliable", "reproduced"])
def test_what_maintainers_write_is_new_only_with_their_flag(world: World, before: Path, key: str):
    world.card("tuning: none", f"tuning: none\n{key}: something")
    status, why = world.status("history", base=before)
    assert status == "failed" and key in why and "--maintainer" in why
    assert world.status("history", base=before, maintainer=True)[0] == "ok"
    assert world.status("history", base=world.root)[0] == "ok"
    shutil.copyfile(
        world.folder / "submission.yaml", before / "team_a" / "vote" / "submission.yaml"
    )
    world.card(f"\n{key}: something", "")
    assert (world.status("history", base=before)[0] == "ok") is (
        key == "reproduced"
    )  # that may be taken away


def test_a_result_of_schema_1_is_readable_for_ever():
    """This file was written once and is never changed: whoever changes the schema must still read it."""
    result = from_text(
        (Path(__file__).parents[2] / "data" / "result_schema_1.json").read_text(encoding="utf-8")
    )
    assert result.schema_version == 1
    assert (result.cell.mechanism, result.cell.task, result.cell.epsilon) == ("vote", "agnews", 2.0)
    assert result.privacy.epsilon_proved == pytest.approx(2, rel=0.02) and len(result.released) == 2
