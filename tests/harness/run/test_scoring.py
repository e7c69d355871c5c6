"""A release is scored anew with other test records, which costs nothing and gives what a whole run would give."""

import json
from pathlib import Path

import pytest
import yaml

from dpicl.core.errors import UsageError
from dpicl.engines.worker import Job
from dpicl.leaderboards.compare.reading import Side, keep_one_version
from dpicl.plan.presence import find_releases
from dpicl.plan.selection import select
from dpicl.plan.suite_files import load_suite
from dpicl.results import manifest
from dpicl.results.fingerprints import Fingerprints
from dpicl.results.store import Store
from dpicl.run import pipeline
from dpicl.run.workbench import OtherRelease, Workbench, draw_task, task_of
from tests.harness.helpers import refuse
from tests.leaderboards.factory import make_result

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


def test_a_scored_release_is_what_a_whole_run_gives(dpicl, suites, tmp_path, monkeypatch):
    old, new = suites
    folder, other = tmp_path / "results", tmp_path / "other"
    first = "--seed 0"
    dpicl(f"run {old} --results {folder} {first}").succeed()
    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "release", lambda *_, **__: pytest.fail("a mechanism ran"))
        scored = dpicl(f"score {new} --results {folder} {first} --json")
    assert scored.code == 0, scored.err
    assert scored.json["counts"] == {"done": 1, "present": 0, "skipped": 0, "failed": 0}

    dpicl(f"run {new} --results {other} {first}").succeed()
    whole = {result.cell_id: result for result in Store(other, "mine").load_all()[0]}
    results, damaged = Store(folder, "mine").load_all()
    anew = [result for result in results if result.suite.version == 2]
    assert not damaged and len(anew) == 1
    for result in anew:
        assert comparable(result) == comparable(whole[result.cell_id])
        assert result.manifest.data == whole[result.cell_id].manifest.data
        assert result.scored_release is not None and whole[result.cell_id].scored_release is None
        assert result.aggregates["carried"] == min(
            result.aggregates[f"carried_{name}"] for name in ("wordllama", "tfidf")
        )
    board = dpicl(f"board {new} --results {folder}").out
    assert "tang" in board and "What the texts carry" in board


def test_a_run_scores_what_is_released_and_releases_the_rest(dpicl, suites, tmp_path):
    old, new = suites
    folder = tmp_path / "results"
    dpicl(f"run {old} --results {folder}")
    answer = dpicl(f"run {new} --results {folder} --json")
    assert "2 cells only to be scored" in answer.err
    assert answer.json["counts"]["done"] == 4
    results = Store(folder, "mine").load_all()[0]
    scored = {result.cell.label for result in results if result.scored_release is not None}
    assert scored == {"tang"}  # the answers of voting are to its queries
    assert dpicl(f"run {new} --results {folder} --json").json["counts"]["present"] == 4


@pytest.fixture
def scored(dpicl, suites, tmp_path) -> tuple[Path, Path]:
    """A file of scores, and the result whose release they are of."""
    old, new = suites
    for suite in (old, new):
        dpicl(f"run {suite} --results {tmp_path}/results --mechanism tang --seed 0")
    scores = next(
        path
        for path in (tmp_path / "results").rglob("*.json")
        if "scored_release" in path.read_text()
    )
    named = json.loads(scores.read_text())["scored_release"]["cell_id"]
    return scores, scores.with_name(f"{named}.json")


def test_scores_stand_and_fall_with_the_release_that_they_name(scored):
    scores, release = scored
    sound, named = scores.read_text(), release.read_text()

    def assert_damaged(versions: list[int]) -> None:
        results, damaged = Store(scores.parents[4], "mine").load_all()
        assert [result.suite.version for result in results] == versions
        assert [each.path for each in damaged] == [scores]

    main = json.loads(sound)["main_metric"]
    for part, key, value in (
        (
            "scores",
            main,
            json.loads(sound)["scores"][main] | {"value": 0.9},
        ),
        ("scored_release", "sha256", "0" * 64),
        ("scored_release", "cell_id", json.loads(sound)["cell_id"]),
        ("scored_release", "cell_id", "../../../../x"),
    ):
        content = json.loads(sound)
        content[part][key] = value
        scores.write_text(json.dumps(content))
        assert_damaged([1])
    scores.write_text(sound)
    content = json.loads(named)
    content["released"][0]["text"] += " and more"
    release.write_text(json.dumps(content))
    assert_damaged([1])
    release.unlink()
    assert_damaged([])


def test_a_release_of_changed_settings_is_not_scored(suites, scored):
    new = suites[1]
    folder = scored[0].parents[4]
    known = Store(folder, "mine").load_all()[0]

    def matched(suite: Path) -> int:
        selection = select(str(suite), folder)
        return len(find_releases(selection.cells, known, Fingerprints(), selection.mechanisms, {}))

    assert matched(new) == 1
    for change in (
        {"shots": 3},
        {"epsilons": [2]},
        {"train_records": 50},
        {"delta": 1e-6},
        {"private_share": 0.7},
    ):
        changed = new.with_name("changed.yaml")
        changed.write_text(yaml.safe_dump(NEW | change))
        assert matched(changed) == 0, change


def test_a_clean_checkout_scores_no_release_of_a_changed_one(suites, scored, monkeypatch):
    folder = scored[0].parents[4]
    known = Store(folder, "mine").load_all()[0]
    changed = [
        result.model_copy(update={"manifest": result.manifest.model_copy(update={"dirty": True})})
        for result in known
    ]
    selection = select(str(suites[1]), folder)
    for here in (True, False, None):
        commit = (None if here is None else "f" * 40, here)
        monkeypatch.setattr(manifest, "commit", lambda commit=commit: commit)
        releases = find_releases(selection.cells, changed, Fingerprints(), selection.mechanisms, {})
        assert bool(releases) is (here is True)


def test_seeds_draw_disjoint_test_records_that_all_rows_share(suites):
    cells = select(str(suites[1]), Path("none")).cells
    whole = task_of(cells[0])
    drawn = {cell.id: draw_task(whole, cell).test for cell in cells}
    by_seed = {seed: {drawn[cell.id] for cell in cells if cell.seed == seed} for seed in (0, 1)}
    assert [len(sets) for sets in by_seed.values()] == [1, 1]
    texts = [{record.text for record in sets.pop()} for sets in by_seed.values()]
    assert [len(sets) for sets in texts] == [12, 12]
    assert not texts[0] & texts[1]
    assert (
        len(
            {
                whole.fingerprint,
                *(draw_task(whole, cell).fingerprint for cell in cells),
            }
        )
        == 1
    )


def test_a_plan_says_what_is_only_to_be_scored(dpicl, suites, tmp_path):
    old, new = suites
    dpicl(f"run {old} --results {tmp_path}/results")
    plan = dpicl(f"plan {new} --results {tmp_path}/results --json").json
    assert plan["missing"] == 4
    assert plan["to_score"] == 2


def test_a_run_makes_its_own_where_a_release_is_another_one(dpicl, suites, tmp_path, monkeypatch):
    old, new = suites
    folder = tmp_path / "results"
    dpicl(f"run {old} --results {folder} --mechanism tang")

    def refuse(bench, cell, scored):
        raise OtherRelease("of other records")

    monkeypatch.setattr(Workbench, "require_same_private_records", refuse)
    scored = dpicl(f"score {new} --results {folder} --mechanism tang --json").json
    assert scored["counts"] == {"done": 0, "present": 0, "skipped": 2, "failed": 0}
    assert {cell["message"] for cell in scored["cells"]} == {"of other records"}
    assert (
        dpicl(f"run {new} --results {folder} --mechanism tang --json").json["counts"]["done"] == 2
    )
    results = Store(folder, "mine").load_all()[0]
    assert [result.scored_release for result in results] == [None] * 4


def test_a_release_of_another_model_of_that_name_is_not_scored(dpicl, suites, tmp_path):
    old, new = suites
    dpicl(f"run {old} --results {tmp_path} --mechanism tang --seed 0")
    (result,) = Store(tmp_path, "mine").load_all()[0]
    model = result.manifest.model.model_copy(update={"sha256": "0" * 64})
    other = result.model_copy(
        update={"manifest": result.manifest.model_copy(update={"model": model})}
    )
    selection = select(str(new), tmp_path)
    cell = next(cell for cell in selection.cells if cell.label == "tang" and cell.seed == 0)
    with pytest.raises(OtherRelease, match="another model"):
        pipeline.score_release(cell, other, selection.reference, Workbench(selection.mechanisms))


def test_a_row_may_be_called_as_the_key_of_scores(dpicl, tmp_path, own_cache):
    path = tmp_path / "suite.yaml"
    path.write_text(
        yaml.safe_dump(
            OLD | {"seeds": [0], "mechanisms": [{"name": "zero_shot", "label": "scored_release"}]}
        )
    )
    assert dpicl(f"run {path} --results {tmp_path}/results --json").json["counts"]["done"] == 1
    assert dpicl(f"run {path} --results {tmp_path}/results --json").json["counts"]["present"] == 1


def test_false_is_as_if_nothing_were_said_of_fresh_test_records(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text(yaml.safe_dump(OLD | {"fresh_test_records": False}))
    plain = tmp_path / "plain.yaml"
    plain.write_text(yaml.safe_dump(OLD))
    assert load_suite(path).hash == load_suite(plain).hash
    path.write_text(yaml.safe_dump(OLD | {"fresh_test_records": "yes"}))
    with pytest.raises(UsageError, match="fresh_test_records"):
        load_suite(path)


def test_both_sides_of_a_comparison_have_one_version():
    def make(version, month):
        result = make_result("tang", created=f"2026-{month:02}-01T00:00:00+00:00")
        suite = result.suite.model_copy(update={"version": version})
        return result.model_copy(update={"suite": suite})

    base = Side("base", "a", (make(2, 1), make(3, 4)))
    candidate = Side("candidate", "b", (make(3, 2), make(2, 3)))
    sides = keep_one_version(base, candidate)
    assert [[one.suite.version for one in side.results] for side in sides] == [[3], [3]]


def test_a_job_with_releases_can_be_the_key_of_what_a_node_keeps(tmp_path):
    result = make_result("tang")
    job = Job(result.suite, tmp_path, releases={"cell": result})
    assert {job: 1}[Job(result.suite, tmp_path, releases={"cell": result})] == 1
    assert job != Job(result.suite, tmp_path)


def test_scoring_of_an_empty_folder_is_refused_and_makes_none(dpicl, tmp_path):
    refuse(dpicl(f"score quick --results {tmp_path}/none"), "nothing to score")
    assert not (tmp_path / "none").exists()
