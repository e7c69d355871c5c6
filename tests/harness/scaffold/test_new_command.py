"""`dpicl new`: what it writes works as it is, under the name that was asked for, and nothing is ever overwritten."""

from pathlib import Path

import pytest

from dpicl.scaffold.writing import EXAMPLES, class_name, write_example
from tests.harness.helpers import refuse

#: Options that make the example mechanisms small enough for a test.
SMALL = {"demonstrations": ["slots=8", "tokens=4"], "answers": ["slots=4", "examples_per_slot=1"]}
KINDS = tuple(SMALL)


@pytest.fixture(autouse=True)
def in_an_empty_folder(
    no_plugins_before: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)


def run_flags(kind: str) -> list[str]:
    return [word for option in SMALL[kind] for word in ("--option", option)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_new_mechanism_passes_the_kit_on_every_kind_of_task(dpicl, kind):
    dpicl(f"new mechanism noisy_vote --kind {kind}")
    checked = dpicl("check noisy_vote.py --json").succeed()
    (document,) = checked.json["mechanisms"]
    assert document["tasks"] == (
        ["agnews", "mit_g", "wikimovies"] if kind == "demonstrations" else ["agnews"]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_mechanism_runs_and_is_on_the_board(dpicl, sim_suite, kind):
    dpicl(f"new mechanism noisy_vote --kind {kind}")
    flags = "--plugin noisy_vote.py"
    run = dpicl(
        f"run {sim_suite} {flags} --mechanism noisy_vote",
        *run_flags(kind),
        "--seed",
        0,
        "--json",
    ).succeed()
    assert run.json["counts"]["done"] == 1
    (table,) = dpicl(f"board {sim_suite} {flags} --json").json["sections"][0]["tasks"]
    (row,) = table["rows"]
    assert row["mechanism"] == "noisy_vote"
    assert 0.98 * 2 <= row["proved"] <= 2
    assert row["queries"] == (12 if kind == "answers" else None)


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_only_the_names_change(tmp_path, example):
    files = [
        path
        for path in write_example(example, "noisy_vote", (), tmp_path / "out")
        if path.is_file()
    ]
    originals, called = (
        ([example], "my_method") if example.is_file() else (sorted(example.iterdir()), "my_task")
    )
    assert len(files) == len(originals)
    for path, original in zip(files, originals, strict=True):
        text, before = path.read_text("utf-8"), original.read_text("utf-8")
        assert called not in text and class_name(called) not in text
        assert text.replace("noisy_vote", called).replace("NoisyVote", class_name(called)) == before
    assert any("noisy_vote" in path.read_text("utf-8") for path in files)


@pytest.mark.parametrize(
    ("what", "name", "reason"),
    [
        ("mechanism", "my-vote", "cannot be the name of a mechanism"),
        ("mechanism", "3votes", "cannot be the name"),
        ("mechanism", "class", "cannot be the name"),
        ("mechanism", "..", "cannot be the name"),
        ("mechanism", "wähler", "cannot be the name"),
        ("mechanism", "tang", "The mechanism 'tang' exists already"),
        ("mechanism", "json", "installed Python module"),
        ("mechanism", "gaussian_sum", "uses the name GaussianSum itself"),
        ("task", "agnews", "The task 'agnews' exists already"),
        ("task", "a/b", "cannot be the name of a task"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused(dpicl, tmp_path, what, name, reason):
    refuse(dpicl("new", what, name), reason)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("what", "file"),
    [("mechanism", "mine.py"), ("task", "mine")],
)
def test_nothing_is_overwritten(dpicl, tmp_path, what, file):
    (tmp_path / file).write_text("my work")
    refuse(dpicl(f"new {what} mine"), f"{file} already exists")
    assert (tmp_path / file).read_text() == "my work"


def test_a_folder_that_is_none_is_refused_and_a_new_one_is_made(dpicl, tmp_path):
    (tmp_path / "file").write_text("")
    assert dpicl("new task mine --dir file").code == 2
    dpicl("new task mine --dir", "a folder/below").succeed()
    assert (tmp_path / "a folder" / "below" / "mine" / "task.yaml").is_file()


def test_kind_is_for_mechanisms_alone(dpicl, tmp_path):
    refuse(dpicl("new task mine --kind answers"), "--kind is for `dpicl new mechanism`")
    refuse(dpicl("new mechanisms mine"), "Did you mean 'mechanism'")
    assert list(tmp_path.iterdir()) == []


def test_a_new_task_runs_and_is_on_its_board(dpicl, monkeypatch):
    dpicl("new task meals")
    flags = "meals/suite.yaml --plugin meals --model sim"
    refuse(dpicl(f"run {flags} --source synthetic"), "Task meals has no synthetic corpus")
    monkeypatch.setenv("DPICL_DATA", ".")
    run = dpicl(f"run {flags} --seed 0 --json").succeed()
    assert run.json["counts"]["done"] == 3
    (table,) = dpicl(f"board {flags} --json").json["sections"][0]["tasks"]
    assert [row["mechanism"] for row in table["rows"]] == [
        "zero_shot",
        "tang",
        "real_demonstrations",
    ]
