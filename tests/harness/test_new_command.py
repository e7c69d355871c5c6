"""`dpicl new`: what it writes works as it is, under the name that was asked for, and nothing is ever overwritten."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from dpicl import models
from dpicl.core.errors import PromptTooLong
from dpicl.models.base import ChatPrompt
from dpicl.scaffold.writing import EXAMPLES, class_name, name_of, write_example
from tests.harness.helpers import refuse

#: Options that make the example mechanisms small enough for a test.
SMALL = {"demonstrations": ["slots=8", "tokens=4"], "answers": ["slots=4", "examples_per_slot=1"]}
SMALL["prepared"] = ["embedding=sim"]
KINDS = tuple(SMALL)


@pytest.fixture(autouse=True)
def in_an_empty_folder(no_plugins_before: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def run_flags(kind: str) -> list[str]:
    return [word for option in SMALL[kind] for word in ("--option", option)]


@pytest.mark.parametrize("kind", [k if k == "prepared" else pytest.param(k, marks=pytest.mark.slow) for k in KINDS])
def test_a_new_mechanism_passes_the_kit_unchanged(dpicl, kind):
    assert dpicl("new", "mechanism", "noisy_vote", "--kind", kind).code == 0
    checked = dpicl("check", "noisy_vote.py", "--task", "agnews")
    assert checked.code == 0, checked.out


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_new_mechanism_passes_the_kit_on_every_kind_of_task(dpicl, kind):
    dpicl("new", "mechanism", "noisy_vote", "--kind", kind)
    checked = dpicl("check", "noisy_vote.py", "--json")
    assert checked.code == 0, checked.out
    (document,) = checked.json["mechanisms"]
    assert document["tasks"] == (["agnews", "mit_g", "wikimovies"] if kind == "demonstrations" else ["agnews"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_mechanism_runs_at_its_proved_epsilon_and_is_on_the_board(dpicl, sim_suite, kind):
    dpicl("new", "mechanism", "noisy_vote", "--kind", kind)
    flags = ["--plugin", "noisy_vote.py"]
    run = dpicl("run", sim_suite, *flags, "--mechanism", "noisy_vote", *run_flags(kind), "--seed", 0, "--json")
    assert run.code == 0, run.err
    assert run.json["counts"]["done"] == 1
    (table,) = dpicl("board", sim_suite, *flags, "--json").json["sections"][0]["tasks"]
    (row,) = table["rows"]
    assert row["mechanism"] == "noisy_vote"
    assert 0.98 * 2 <= row["proved"] <= 2
    assert row["queries"] == (12 if kind == "answers" else None)


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_only_the_names_change(tmp_path, example):
    paths = write_example(example, "thing", "noisy_vote", (), tmp_path / "out")
    files = [path for path in paths if path.is_file()]
    originals, called = [example] if example.is_file() else sorted(example.iterdir()), name_of(example)
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
        ("mechanism", "_vote", "cannot be the name"),
        ("mechanism", "..", "cannot be the name"),
        ("mechanism", "wähler", "cannot be the name"),
        ("mechanism", "", "cannot be the name"),
        ("mechanism", "tang", "The mechanism 'tang' exists already"),
        ("mechanism", "numpy", "installed Python module"),
        ("mechanism", "json", "installed Python module"),
        ("mechanism", "gaussian_sum", "uses the name GaussianSum itself"),
        ("attack", "gap", "The attack 'gap' exists already"),
        ("model", "sim", "The model 'sim' exists already"),
        ("task", "agnews", "The task 'agnews' exists already"),
        ("task", "a/b", "cannot be the name of a task"),
        ("suite", "quick", "The suite 'quick' exists already"),
        ("suite", "attacks", "The suite 'attacks' exists already"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused(dpicl, tmp_path, what, name, reason):
    refuse(dpicl("new", what, name), reason)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("what", "file"), [("mechanism", "mine.py"), ("suite", "mine.yaml"), ("task", "mine")])
def test_nothing_is_overwritten(dpicl, tmp_path, what, file):
    (tmp_path / file).write_text("my work")
    refuse(dpicl("new", what, "mine"), f"{file} already exists")
    assert (tmp_path / file).read_text() == "my work"


def test_a_folder_that_is_none_is_refused_and_a_new_one_is_made(dpicl, tmp_path):
    (tmp_path / "file").write_text("")
    assert dpicl("new", "suite", "mine", "--dir", "file").code == 2
    assert dpicl("new", "suite", "mine", "--dir", "a folder/below").code == 0
    assert (tmp_path / "a folder" / "below" / "mine.yaml").is_file()


def test_kind_is_for_mechanisms_alone(dpicl, tmp_path):
    refuse(dpicl("new", "attack", "mine", "--kind", "answers"), "--kind is for `dpicl new mechanism`")
    refuse(dpicl("new", "mechanisms", "mine"), "Did you mean 'mechanism'")
    assert list(tmp_path.iterdir()) == []


def test_what_comes_next_is_said_for_people_and_programs(dpicl):
    said = dpicl("new", "mechanism", "first", "--dir", "my methods")
    lines = said.out.splitlines()
    assert lines[0] == "Wrote my methods/first.py"
    assert lines[1].split("dpicl ", 1)[1] == "check 'my methods/first.py'"
    document = dpicl("new", "mechanism", "second", "--json").json
    assert document["files"] == ["second.py"]
    assert [command.split()[:2] for command in document["next"]] == [["dpicl", x] for x in ("check", "run", "board")]


def test_a_new_attack_tells_members_where_records_are_shown_and_not_where_nothing_is(dpicl):
    dpicl("new", "attack", "overlap")
    flags = ["--model", "sim", "--task", "agnews", "--members", 24, "--others", 24, "--source", "synthetic"]
    made = dpicl("attack", "overlap", "--plugin", "overlap.py", *flags, "--mechanism", "tang", "--epsilon", 8,
                 "--option", "slots=2", "--option", "tokens=2", "--json")  # fmt: skip
    assert made.code == 0, made.err
    found = {row["subject"]["mechanism"]: row["measures"]["auc"]["value"] for row in made.json["results"]}
    assert found["zero_shot"] == 0.5
    assert found["real_demonstrations"] > 0.9
    assert "tang" in found
    refuse(
        dpicl("attack", "overlap", "--plugin", "overlap.py", *flags, "--mechanism", "voting", "--epsilon", 8),
        "releases answers",
    )


@pytest.fixture
def letters(dpicl) -> models.LanguageModel:
    """The example model, made known as a plugin."""
    dpicl("new", "model", "letters")
    assert dpicl("list", "models", "--plugin", "letters.py").code == 0
    return models.load("letters")


def test_a_new_model_keeps_what_a_language_model_promises(letters):
    prompts = [letters.encode(text) for text in ("the", "", "people of", ChatPrompt("Hello", "Yes"))]
    rows = letters.next_token_log_probs(prompts)
    assert rows.shape == (4, letters.vocab_size) and rows.dtype == torch.float32
    assert torch.allclose(rows.exp().sum(dim=1), torch.ones(4), atol=1e-5)
    assert letters.next_token_log_probs([]).shape == (0, letters.vocab_size)
    assert letters.decode([*letters.encode("Grüße"), letters.eos_token_id]) == "Grüße"

    decoder = letters.decoder(prompts)
    decoder.append(104)
    assert torch.equal(decoder.log_probs, letters.next_token_log_probs([[*prompt, 104] for prompt in prompts]))

    ending = letters.encode("he")
    (row,) = letters.score([([*prompts[0], *letters.encode(" t")], [ending, []])], letters.prefix(prompts[0]))
    steps = letters.next_token_log_probs([letters.encode("the t"), letters.encode("the th")]).double().numpy()
    assert np.isclose(row[0], steps[0, ending[0]] + steps[1, ending[1]], atol=1e-5) and row[1] == 0

    greedy = int(rows[0].argmax())
    assert letters.generate([prompts[0]], 1) == [letters.decode([greedy])]
    (long,) = letters.generate([prompts[0]], 40)
    assert letters.generate([prompts[0]], 40, prefix=letters.prefix(prompts[0][:2])) == [long]
    assert letters.generate([prompts[0]], 40, stop=[" "]) == [long.split(" ")[0]]
    sampled = letters.generate([prompts[0]] * 2, 20, temperature=1.0, seeds=[1, 2])
    assert sampled[0] != sampled[1]
    assert sampled == letters.generate([prompts[0]] * 2, 20, temperature=1.0, seeds=[1, 2])
    with pytest.raises(PromptTooLong):
        letters.generate([[97] * 4090], 10)


def test_a_new_model_is_on_the_board_by_its_fingerprint(dpicl, sim_suite, letters):
    flags = ["--plugin", "letters.py", "--model", "letters:0.5"]
    run = dpicl("run", sim_suite, *flags, "--mechanism", "zero_shot", "--json")
    assert run.code == 0, run.err
    (cell, *_) = run.json["cells"]
    identity = json.loads(Path(cell["path"]).read_text())["manifest"]["model"]
    assert identity["name"] == "letters:0.5"
    assert identity["sha256"] == models.load("letters:0.5").identity.sha256 != letters.identity.sha256
    assert dpicl("board", sim_suite, *flags).code == 0
    refuse(dpicl("run", sim_suite, "--plugin", "letters.py", "--model", "letters:many"), "letters:NUMBER")


def test_a_new_suite_can_be_planned(dpicl):
    dpicl("new", "suite", "mine")
    plan = dpicl("plan", "mine.yaml", "--json")
    assert plan.code == 0, plan.err
    assert (plan.json["suite"], plan.json["missing"]) == ("mine", 5 * (3 + 2))


def test_a_new_task_runs_and_is_on_its_board(dpicl, monkeypatch):
    dpicl("new", "task", "meals")
    flags = ["meals/suite.yaml", "--plugin", "meals", "--model", "sim"]
    refuse(dpicl("run", *flags, "--source", "synthetic"), "Task meals has no synthetic corpus")
    monkeypatch.setenv("DPICL_DATA", ".")
    run = dpicl("run", *flags, "--seed", 0, "--json")
    assert run.code == 0, run.err
    assert run.json["counts"]["done"] == 3
    (table,) = dpicl("board", *flags, "--json").json["sections"][0]["tasks"]
    assert [row["mechanism"] for row in table["rows"]] == ["zero_shot", "tang", "real_demonstrations"]


def test_the_examples_are_not_imported_by_anything(dpicl):
    for stem in ("mechanism_demonstrations", "mechanism_answers", "attack", "model"):
        assert f"dpicl.scaffold.{stem}" not in sys.modules
    assert "my_method" not in dpicl("list", "mechanisms").out


def test_writing_twice_names_the_file_that_is_there_also_where_it_could_be_imported(dpicl, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    assert dpicl("new", "mechanism", "noisy_vote").code == 0
    refuse(dpicl("new", "mechanism", "noisy_vote"), "noisy_vote.py already exists")
