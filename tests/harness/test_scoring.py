"""A release is scored anew with other test records, which costs nothing and gives what a whole run would give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from dpicl.plan.reuse import find_releases
from dpicl.plan.selection import select
from dpicl.results.fingerprints import Fingerprints
from dpicl.results.store import Store
from dpicl.run import pipeline
from dpicl.run.workbench import draw_task, task_of

OLD = {
    "name": "mine", "version": 1, "source": "synthetic", "models": ["sim"], "seeds": [0, 1], "epsilons": [1],
    "shots": 2, "test_records": 10, "train_records": 60, "private_share": 0.8, "tasks": ["agnews"],
    "mechanisms": [
        {"name": "tang", "options": {"slots": 4, "examples_per_slot": 1, "tokens": 3}},
        {"name": "voting", "options": {"slots": 4}},
    ],
}  # fmt: skip
NEW = OLD | {"version": 2, "test_records": 12, "fresh_test_records": True}


@pytest.fixture
def suites(tmp_path, own_cache) -> tuple[Path, Path]:
    paths = tmp_path / "old.yaml", tmp_path / "new.yaml"
    for path, suite in zip(paths, (OLD, NEW), strict=True):
        path.write_text(yaml.safe_dump(suite))
    return paths


def comparable(result):
    """What does not tell when and from what a result was made."""
    return result.model_dump(exclude={"cost", "created", "scored_release", "manifest"})


def test_a_scored_release_is_what_a_whole_run_gives_and_costs_no_record(dpicl, suites, tmp_path, monkeypatch):
    old, new = suites
    folder, other = tmp_path / "results", tmp_path / "other"
    assert dpicl("run", old, "--results", folder).code == 0
    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "release", lambda *_, **__: pytest.fail("a mechanism ran"))
        scored = dpicl("score", new, "--results", folder, "--json")
    assert scored.code == 0, scored.err
    assert scored.json["counts"] == {"done": 2, "present": 0, "skipped": 0, "failed": 0}

    assert dpicl("run", new, "--results", other).code == 0
    whole = {result.cell_id: result for result in Store(other, "mine").load_all()[0]}
    results, damaged = Store(folder, "mine").load_all()
    anew = [result for result in results if result.suite.version == 2]
    assert not damaged and len(anew) == 2
    for result in anew:
        assert comparable(result) == comparable(whole[result.cell_id])
        assert result.manifest.data == whole[result.cell_id].manifest.data
        assert result.scored_release is not None and whole[result.cell_id].scored_release is None
        assert result.aggregates["carried"] == min(
            result.aggregates[f"carried_{name}"] for name in ("wordllama", "tfidf")
        )
    board = dpicl("board", new, "--results", folder).out
    assert "tang" in board and "What the texts carry" in board


def test_a_run_scores_what_is_released_and_releases_the_rest(dpicl, suites, tmp_path):
    old, new = suites
    folder = tmp_path / "results"
    dpicl("run", old, "--results", folder)
    answer = dpicl("run", new, "--results", folder, "--json")
    assert "2 cells only to be scored" in answer.err
    assert answer.json["counts"]["done"] == 4
    results = Store(folder, "mine").load_all()[0]
    scored = {result.cell.label for result in results if result.scored_release is not None}
    assert scored == {"tang"}  # the answers of voting are to its queries
    assert dpicl("run", new, "--results", folder, "--json").json["counts"]["present"] == 4


@pytest.fixture
def scored(dpicl, suites, tmp_path) -> tuple[Path, Path]:
    """A file of scores, and the result whose release they are of."""
    old, new = suites
    for suite in (old, new):
        dpicl("run", suite, "--results", tmp_path / "results", "--mechanism", "tang", "--seed", 0)
    scores = next(path for path in (tmp_path / "results").rglob("*.json") if "scored_release" in path.read_text())
    named = json.loads(scores.read_text())["scored_release"]["cell_id"]
    return scores, scores.with_name(f"{named}.json")


@pytest.mark.parametrize("change", ["gone", "text", "score", "other release", "itself", "outside"])
def test_scores_stand_and_fall_with_the_release_that_they_name(scored, change):
    scores, release = scored
    content, named = json.loads(scores.read_text()), json.loads(release.read_text())
    match change:
        case "gone":
            release.unlink()
        case "text":
            named["released"][0]["text"] += " and more"
            release.write_text(json.dumps(named))
        case "score":
            content["scores"][content["main_metric"]]["value"] = 0.9
        case "other release":
            content["scored_release"]["sha256"] = "0" * 64
        case "itself":
            content["scored_release"]["cell_id"] = content["cell_id"]
        case "outside":
            content["scored_release"]["cell_id"] = "../../../../x"
    scores.write_text(json.dumps(content))
    results, damaged = Store(scores.parents[4], "mine").load_all()
    assert [result.suite.version for result in results] == ([] if change == "gone" else [1])
    assert [each.path for each in damaged] == [scores]


def test_a_release_of_changed_settings_is_not_scored(suites, scored):
    new = suites[1]
    folder = scored[0].parents[4]
    known = Store(folder, "mine").load_all()[0]

    def matched(suite: Path) -> int:
        selection = select(str(suite), folder)
        return len(find_releases(selection.cells, known, Fingerprints(), selection.mechanisms, {}))

    assert matched(new) == 1
    for change in ({"shots": 3}, {"epsilons": [2]}, {"train_records": 50}, {"delta": 1e-6}, {"private_share": 0.7}):
        changed = new.with_name("changed.yaml")
        changed.write_text(yaml.safe_dump(NEW | change))
        assert matched(changed) == 0, change


def test_seeds_draw_disjoint_test_records_that_all_rows_share(suites):
    cells = select(str(suites[1]), Path("none")).cells
    whole = task_of(cells[0])
    drawn = {cell.id: draw_task(whole, cell).test for cell in cells}
    by_seed = {seed: {drawn[cell.id] for cell in cells if cell.seed == seed} for seed in (0, 1)}
    assert [len(own) for own in by_seed.values()] == [1, 1]
    texts = [{record.text for record in own.pop()} for own in by_seed.values()]
    assert [len(own) for own in texts] == [12, 12]
    assert not texts[0] & texts[1]
    assert len({whole.fingerprint, *(draw_task(whole, cell).fingerprint for cell in cells)}) == 1


def test_a_plan_says_what_is_only_to_be_scored(dpicl, suites, tmp_path):
    old, new = suites
    dpicl("run", old, "--results", tmp_path / "results")
    plan = dpicl("plan", new, "--results", tmp_path / "results", "--json").json
    assert (plan["missing"], plan["to_score"]) == (4, 2)
