"""`dpicl lm-eval` is lm-eval's own command with a mechanism as its model; `dpicl cache` shows what it collected."""

import json
from functools import partialmethod

import pytest
from lm_eval.tasks import TaskManager

from tests.harness.helpers import refuse

SETTINGS = ("--epsilon", 2, "--model", "sim", "--source", "synthetic")
VOTING = ("--mechanism", "voting", *SETTINGS, "--option", "slots=4")


def evaluate(dpicl, *words):
    return dpicl("lm-eval", *words, "--tasks", "dpicl_agnews", "--limit", 8, "--json")


@pytest.fixture(autouse=True)
def _synthetic(own_cache, monkeypatch):
    """Without the thousands of files of lm-eval's own tasks, which it reads at every start."""
    monkeypatch.setenv("DPICL_SOURCE", "synthetic")
    monkeypatch.setattr(TaskManager, "__init__", partialmethod(TaskManager.__init__, include_defaults=False))


def test_a_demonstration_mechanism_releases_once_and_its_texts_stand_before_every_query(dpicl):
    small = ("--option", "prompts=6", "--option", "tokens=3")
    said = evaluate(dpicl, "--mechanism", "prism", *SETTINGS, *small).json["config"]["dpicl"]
    said = said["dpicl_agnews"]
    assert said["queries"] is None and 0.98 * 2 <= said["epsilon_proved"] <= 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("--mechanism", "votign"), "Did you mean 'voting'"),
        (("--mechanism", "voting", "--model", "gpt5"), "Unknown model 'gpt5'"),
        (("--mechanism", "voting", "--option", "slotz=3"), "Did you mean 'slots'"),
        (("--mechanism", "esa"), "esa cannot do agnews"),
        (("--mechanism", "voting", "--log_samples"), "--output_path"),
    ],
)
def test_what_no_release_can_be_made_for_is_refused(dpicl, changes, message):
    refuse(evaluate(dpicl, *SETTINGS, *changes), message)


@pytest.mark.slow
def test_the_command_prints_lm_evals_table(dpicl):
    answer = dpicl("lm-eval", *VOTING, "--tasks", "dpicl_agnews", "--limit", 8)
    assert answer.code == 0, answer.err
    assert "dpicl_agnews" in answer.out and "acc_calibrated" in answer.out


def test_the_command_writes_one_json_document_and_lm_evals_own_files(dpicl, tmp_path):
    answer = evaluate(dpicl, *VOTING, "--output_path", tmp_path, "--log_samples")
    assert answer.code == 0, answer.err
    said = answer.json["config"]["dpicl"]["dpicl_agnews"]
    assert said["queries"] == 8 - 3  # three of the first documents are content-free
    assert 0.98 * 2 <= said["epsilon_proved"] <= 2
    assert 0 <= answer.json["results"]["dpicl_agnews"]["acc,none"] <= 1
    (written,) = tmp_path.rglob("results_*.json")
    assert json.loads(written.read_text())["results"] == answer.json["results"]
    assert list(tmp_path.rglob("samples_dpicl_agnews_*.jsonl"))


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        (["--num_fewshot", 2], "num_fewshot"),
        (["-f", 2], "num_fewshot"),
        (["-f2"], "num_fewshot"),
        (["--num_few", 2], "num_fewshot"),
        (["--use_cache", "x"], "use_cache"),
        (["-c", "x"], "use_cache"),
        (["--apply_chat_template"], "apply_chat_template"),
        (["--model_args", "a=1"], "model_args"),
        (["-a", "mechanism=voting,epsilon=8"], "model_args"),
        (["-M", "hf"], "model"),
        (["--gen_kwargs", "temperature=1"], "gen_kwargs"),
    ],
)
def test_flags_that_would_change_what_is_asked_are_refused_however_they_are_spelt(dpicl, flags, name):
    answer = dpicl("lm-eval", "--mechanism", "voting", "--epsilon", 1, "--tasks", "dpicl_agnews", *flags)
    assert answer.code == 2
    assert f"does not take --{name}" in answer.err


def test_without_tasks_or_with_a_wrong_one_the_message_says_what_to_do(dpicl):
    refuse(dpicl("lm-eval", "--mechanism", "voting", "--epsilon", 1), "--tasks dpicl_agnews")
    refuse(
        dpicl("lm-eval", "--mechanism", "voting", "--epsilon", 1, "--model", "sim", "--tasks", "dpicl_agnewz"),
        "dpicl_agnewz",
    )


def test_the_cache_command_lists_and_clears(dpicl, tmp_path, monkeypatch):
    monkeypatch.setenv("DPICL_CACHE", str(tmp_path))
    assert "empty" in dpicl("cache").out
    evaluate(dpicl, *VOTING)
    listed = dpicl("cache", "--json").json["collections"]
    assert [(one["model"], one["task"], one["kind"]) for one in listed] == [("sim", "agnews", "labels")]
    assert "agnews" in dpicl("cache").out
    assert dpicl("cache", "--clear", "--task", "trec", "--json").json == {"removed": 0}
    assert dpicl("cache", "--clear", "--json").json["removed"] == listed[0]["outputs"]
    assert "empty" in dpicl("cache").out
