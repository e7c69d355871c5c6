"""Bad input on the command line: exit code 2 and one sentence on stderr that says what to do."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from dpicl import models
from tests.harness.helpers import refuse


@pytest.fixture
def run(dpicl, sim_suite, tmp_path) -> Callable[..., object]:
    """`dpicl run` on the simulated suite with a results folder of its own."""
    return lambda *flags: dpicl("run", sim_suite, "--results", tmp_path / "results", "--seed", 0, *flags)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--task", "agnewz"), ("task 'agnewz'", "Did you mean 'agnews'")),
        (("--mechanism", "tangy"), ("mechanism 'tangy'", "Did you mean 'tang'")),
        (("--model", "sim:x"), ("sim:x",)),
        (("--epsilom", "1"), ("flag '--epsilom'", "Did you mean '--epsilon'")),
        (("--mech", "tang"), ("flag '--mech'", "Did you mean '--mechanism'")),
        (("--engine", "locl"), ("engine 'locl'", "Did you mean 'local'")),
        (("--option", "slotz=3"), ("option 'slotz'", "Did you mean 'slots'")),
        (("--option", "slots=few"), ("slots", "few")),
        (("--epsilon", "0"), ("--epsilon", "above 0")),
        (("--epsilon", "nan"), ("--epsilon", "above 0")),
        (("--epsilon", "one"), ("--epsilon", "must be a number")),
        (("--seed", "-1"), ("--seed", "at least 0")),
        (("--seed", "1.5"), ("--seed", "whole number")),
        (("--limit", "0"), ("--limit", "at least 1")),
        (("--workers", "2"), ("--workers", "--engine local")),
        (("--engine", "local", "--address", "a:1"), ("--address", "ray")),
        (("--limit", "9" * 5000), ("--limit", "fewer digits")),
        (("--limit", "\udcff"), ("--limit", "must be a text in UTF-8")),
        (("--plugin", "a\0b"), ("--plugin", "null character")),
        (("extra",), ("Unexpected", "extra")),
        (("--plugin", "nowhere.py"), ("nowhere.py", "is not there")),
    ],
)
def test_flags_that_make_no_sense(run, tmp_path, flags, words):
    answer = run(*flags)
    refuse(answer, *words)
    assert ", line " not in answer.err  # a flag is not blamed on the file
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("rum", "quick"), "Did you mean 'run'"),
        (("run", "quik"), "Did you mean 'quick'"),
        (("run", "no/such/suite.yaml"), "There is no suite file"),
        (("run",), "SUITE"),
        (("list", "mechanism"), "Did you mean 'mechanisms'"),
        ((), "command is missing"),
        (("--versio",), "Did you mean '--version'"),
    ],
)
def test_commands_that_make_no_sense(dpicl, words, hint):
    refuse(dpicl(*words), hint)


@pytest.mark.parametrize("delta", ["0", "1", "nan", "1/0", "small"])
def test_delta_outside_its_range(dpicl, delta):
    refuse(dpicl("account", "--noise", "1", "--rate", "0.1", "--steps", "10", "--delta", delta), "--delta")
    refuse(dpicl("calibrate", "tang", "--task", "agnews", "--epsilon", "1", "--size", "9", "--delta", delta), "--delta")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("clip=inf", "must be a finite number"),
        ("threshold=nan", "must be a finite number"),
        ("clip=1e300", "far too large"),
        ("clip=1e-300", "far too small"),
        ("private_tokens=100000000000000000000", "2^53"),
    ],
)
def test_option_values_far_outside_what_numbers_hold(dpicl, option, said):
    flags = ("--task", "agnews", "--size", 100, "--epsilon", 1, "--option", "prompts=10", "--option", option)
    refuse(dpicl("calibrate", "private_prediction", *flags), said)


def test_demonstrations_longer_than_the_models_context(dpicl, tmp_path):
    path = tmp_path / "long.yaml"
    path.write_text(
        "name: long\nversion: 1\nsource: synthetic\nmodel: sim\nseeds: [0]\nepsilons: [1]\ntrain_records: 60\n"
        "test_records: 4\nshots: 100\ntasks: [dbpedia]\nmechanisms: [real_demonstrations]\n"
    )
    refuse(dpicl("run", path, "--results", tmp_path), "tokens", "shots")


@pytest.mark.parametrize("model", ["sim:nan", "sim:inf"])
@pytest.mark.parametrize("mechanism", ["zero_shot", "prism_short", "tang"])
def test_a_model_that_answers_with_nan_or_infinity(run, model, mechanism):
    refuse(run("--model", model, "--mechanism", mechanism), model, "float32")


@pytest.mark.parametrize("folder", ["in_the_way/results", "/proc/results"])
def test_a_results_folder_that_cannot_be_written_is_told_before_any_work(
    dpicl, sim_suite, tmp_path, monkeypatch, folder
):
    (tmp_path / "in_the_way").write_text("")
    monkeypatch.setattr(models, "load", lambda name: pytest.fail("a model was loaded"))
    refuse(dpicl("run", sim_suite, "--results", tmp_path / folder), "--results")


def test_damaged_and_older_results_are_kept_set_aside_reported_and_done_again(run, dpicl, sim_suite, tmp_path):
    quick = ("--mechanism", "zero_shot", "--mechanism", "real_demonstrations")
    assert run(*quick).code == 0
    first, second = sorted((tmp_path / "results").rglob("*.json"))
    half = first.read_text()[:300]
    first.write_text(half)
    older = second.read_text().replace('"schema_version": 1', '"schema_version": 0')
    second.write_text(older)

    seen = dpicl("board", sim_suite, "--results", tmp_path / "results")
    assert seen.code == 2  # nothing is left for a board, and nothing was touched
    assert "ignored" in seen.err
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
        ("private_set: a\ntotal-epsilom: 1\n", ("line 2", "'total-epsilom'", "Did you mean 'total-epsilon'")),
    ],
)
def test_a_file_of_parameters_with_a_key_that_is_unknown_or_stands_under_two_spellings(dpicl, tmp_path, text, words):
    path = tmp_path / "parameters.yaml"
    path.write_text(text)
    refuse(dpicl("budget", "--config", path), "parameters.yaml", *words)


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
