"""Scores that were there stay, unless the submission gets a new version; retired results stay whatever happens."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dpicl.core.errors import UsageError
from dpicl.leaderboards.gate.history import find_base, retired_records_check
from dpicl.run.results import from_text
from tests.leaderboards.gate.conftest import World, git


def move_score(world: World) -> None:
    """One file, changed consistently: a document was right and is wrong now, or the other way round."""

    def change(data):
        for metric, one in data["documents"].items():
            one["outcomes"][0] = 1 - one["outcomes"][0]
            mean = sum(one["outcomes"]) / len(one["outcomes"])
            data["scores"][metric] = {"value": mean, "low": 0.0, "high": 1.0}

    world.edit(change, world.files[:1])


def history(world: World, **more) -> tuple[str, str]:
    return world.status("history", base=find_base(world.folder, None), **more)


def test_a_first_submission_and_an_untouched_one_pass(committed: World):
    assert history(committed) == ("ok", history(committed)[1])
    assert "no score moved" in history(committed)[1]
    git(committed.root.parent, "rm", "-r", "-q", "--cached", "submissions")
    git(committed.root.parent, "commit", "-q", "-m", "as if it had never been there")
    assert "new since commit" in history(committed)[1]


def test_a_score_that_moved_or_is_gone_is_refused_and_let_in_with_a_new_version(committed: World):
    move_score(committed)
    status, why = history(committed)
    assert status == "failed" and "moved its score by" in why and "raise `version`" in why
    committed.card("schema_version: 1\nversion: 1", "schema_version: 1\nversion: 2")
    assert history(committed)[0] == "ok"
    committed.files[0].unlink()
    committed.card("version: 2", "version: 1")
    status, why = history(committed)
    assert status == "failed" and "disappeared" in why


def test_a_score_that_moves_less_than_a_thousandth_is_the_same(committed: World):
    def nudge(data):
        data["scores"]["acc_calibrated"]["value"] += 5e-7  # more is no mean of its outcomes

    committed.edit(nudge, committed.files[:1])
    assert history(committed)[0] == "ok"
    move_score(committed)
    assert history(committed)[0] == "failed"


def test_a_version_never_goes_back(committed: World):
    committed.card("schema_version: 1\nversion: 1", "schema_version: 1\nversion: 3")
    git(committed.root.parent, "commit", "-q", "-a", "-m", "three")
    committed.card("version: 3", "version: 2")
    status, why = history(committed)
    assert status == "failed" and "goes back from version 3 to 2" in why


def test_an_earlier_copy_is_a_base_too(world: World, tmp_path: Path):
    shutil.copytree(world.folder, tmp_path / "before" / "team_a" / "vote")
    move_score(world)
    for base in (tmp_path / "before", tmp_path / "before" / "team_a" / "vote"):
        status, why = world.status("history", base=find_base(world.folder, str(base)))
        assert status == "failed" and "moved its score" in why


def test_an_unknown_base_is_a_bad_use(committed: World):
    for word in ("nowhere", "--output=x"):
        with pytest.raises(UsageError, match=word):
            find_base(committed.folder, word)


def retire(world: World) -> None:
    world.suite.write_text(world.suite.read_text().replace("version: 1", "version: 2"))


def test_a_retired_submission_passes_as_long_as_nothing_of_it_changes(committed: World):
    retire(committed)
    base = find_base(committed.folder, None)
    assert committed.status("suite", base=base)[0] == "ok"
    assert committed.examine(base=base).good
    move_score(committed)
    committed.card("schema_version: 1\nversion: 1", "schema_version: 1\nversion: 2")
    status, why = history(committed)
    assert status == "failed" and "of a retired version" in why
    assert committed.status("suite", base=base)[0] == "failed"


def test_retired_results_of_record_never_change_disappear_or_come(committed: World):
    files = sorted(committed.results.rglob("zero_shot/*/*.json"))
    base = find_base(committed.results, None)

    def check():
        from dpicl.leaderboards.gate.examination import known_suites

        return retired_records_check(committed.results, base, known_suites([committed.suite]))

    text = files[0].read_text()
    files[0].write_text(text + "\n")
    assert check().status == "ok"  # the current version may change
    retire(committed)
    assert check().status == "failed" and "has changed" in check().why
    files[0].unlink()
    assert "has disappeared" in check().why
    files[0].write_text(text)
    assert check().status == "ok"
    data = json.loads(text)
    new = files[0].with_name("0" * 16 + ".json")
    new.write_text(json.dumps(data))
    assert "has been added" in check().why


def test_a_link_or_folder_among_the_results_of_record_is_not_followed(committed: World):
    from dpicl.leaderboards.gate.examination import known_suites

    base = find_base(committed.results, None)
    retire(committed)
    first, second, *_ = sorted(committed.results.rglob("zero_shot/*/*.json"))
    first.unlink()
    first.symlink_to("/dev/zero")  # it has no end
    second.unlink()
    second.mkdir()
    found = retired_records_check(committed.results, base, known_suites([committed.suite]))
    assert found.status == "failed" and all("disappeared" in one for one in (found.why, *found.others))


def test_a_submission_that_is_gone_is_noticed(committed: World, dpicl):
    words = ["submit", committed.root, "--all", "--suite", committed.suite, "--results", committed.results, "--json"]
    assert dpicl(*words).code == 0
    shutil.copytree(committed.folder, committed.root / "team_b" / "vote")
    shutil.rmtree(committed.folder)
    answer = dpicl(*words)
    (removed,) = [one for one in answer.json["whole"] if one["check"] == "removed"]
    assert answer.code == 1 and removed["status"] == "failed" and removed["why"].startswith("team_a/vote was there in")


def test_a_result_of_schema_1_is_readable_for_ever():
    """This file was written once and is never changed: whoever changes the schema must still read it."""
    result = from_text((Path(__file__).parents[2] / "data" / "result_schema_1.json").read_text(encoding="utf-8"))
    assert result.schema_version == 1
    assert (result.cell.mechanism, result.cell.task, result.cell.epsilon) == ("vote", "agnews", 2.0)
    assert result.privacy.epsilon_proved == pytest.approx(2, rel=0.02) and len(result.released) == 2
