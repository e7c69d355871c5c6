"""Bad input on the command line: exit code 2 and one sentence on stderr that says what to do."""

import json
from collections.abc import Callable

import pytest

from dpicl import models
from tests.harness.helpers import refuse


@pytest.fixture
def run(dpicl, sim_suite, tmp_path) -> Callable[..., object]:
    """`dpicl run` on the simulated suite with a results folder of its own."""
    return lambda *flags: dpicl(f"run {sim_suite} --results {tmp_path}/results --seed 0", *flags)


def test_demonstrations_longer_than_the_models_context(dpicl, tmp_path):
    path = tmp_path / "long.yaml"
    path.write_text(
        "name: long\nversion: 1\nsource: synthetic\nmodels: [sim]\nseeds: [0]\nepsilons: [1]\ntrain_records: 60\n"
        "test_records: 4\nshots: 100\ntasks: [dbpedia]\nmechanisms: [real_demonstrations]\n"
    )
    refuse(dpicl(f"run {path} --results {tmp_path}"), "tokens", "shots")


@pytest.mark.parametrize(
    ("model", "mechanism"),
    [("sim:nan", "zero_shot"), ("sim:inf", "prism_short"), ("sim:nan", "tang")],
)
def test_a_model_that_answers_with_nan_or_infinity(run, model, mechanism):
    refuse(run("--model", model, "--mechanism", mechanism), model, "float32")


@pytest.mark.parametrize("folder", ["in_the_way/results", "/proc/results"])
def test_a_results_folder_that_cannot_be_written_is_told_first(
    dpicl, sim_suite, tmp_path, monkeypatch, folder
):
    (tmp_path / "in_the_way").write_text("")
    monkeypatch.setattr(models, "load", lambda name: pytest.fail("a model was loaded"))
    refuse(dpicl(f"run {sim_suite} --results", tmp_path / folder), "--results")


def test_damaged_and_older_results_are_set_aside_and_done_again(run, dpicl, sim_suite, tmp_path):
    quick = ("--mechanism", "zero_shot", "--mechanism", "real_demonstrations")
    run(*quick).succeed()
    first, second = sorted((tmp_path / "results").rglob("*.json"))
    half = first.read_text()[:300]
    first.write_text(half)
    older = second.read_text().replace('"schema_version": 1', '"schema_version": 0')
    second.write_text(older)

    board = dpicl(f"board {sim_suite} --results {tmp_path}/results")
    assert board.code == 2  # nothing is left for a board, and nothing was touched
    assert "ignored" in board.err
    assert first.read_text() == half

    answer = run(*quick, "--json")
    assert answer.code == 0
    assert answer.json["counts"] == {"done": 2, "present": 0, "skipped": 0, "failed": 0}
    reports = [line for line in answer.err.splitlines() if "moved into quarantine" in line]
    assert len(reports) == 1
    assert "damaged" in reports[0] or "older" in reports[0]
    assert (first.parent / "quarantine" / first.name).read_text() == half
    assert (second.parent / "quarantine" / second.name).read_text() == older
    assert json.loads(first.read_text())["schema_version"] == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("private-set: a\nprivate_set: b\n", ("line 2", "'private-set' is given twice")),
        (
            "private_set: a\ntotal-epsilom: 1\n",
            ("line 2", "'total-epsilom'", "Did you mean 'total-epsilon'"),
        ),
    ],
)
def test_a_file_of_parameters_has_known_keys_once(dpicl, tmp_path, text, words):
    path = tmp_path / "parameters.yaml"
    path.write_text(text)
    refuse(dpicl(f"budget --config {path}"), "parameters.yaml", *words)


@pytest.mark.parametrize(
    "words",
    [
        ("calibrate", "{}"),
        ("list", "tasks", "{}"),
        ("run", "quick", "--task", "{}"),
        ("board", "{}"),
        ("submit", "{}"),
        ("check", "{}"),
    ],
)
def test_a_name_of_5000_characters_is_not_repeated_in_full(dpicl, words):
    name = "x y " * 1250
    answer = dpicl(*(word.format(name) for word in words))
    assert answer.code == 2 and answer.err.count("\n") == 1
    assert answer.err.count("x") < 500
