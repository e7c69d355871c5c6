"""`dpicl lm-eval` is lm-eval's own command with a mechanism as its model; `dpicl cache` shows what it collected."""

import json

import lm_eval
import pytest
from lm_eval.tasks import TaskManager

from dpicl.core.errors import UsageError
from dpicl.data.task import TASKS
from dpicl.run.lm_eval_model import make_run
from tests.harness.helpers import refuse

SETTINGS = {"mechanism": "voting", "epsilon": 2.0, "model": "sim", "source": "synthetic", "options": {"slots": 4}}


def evaluate(settings, task="dpicl_agnews", limit=8, **options):
    return lm_eval.simple_evaluate(
        model="dpicl",
        model_args=settings,
        tasks=[task],
        limit=limit,
        bootstrap_iters=0,
        task_manager=TaskManager(include_path=str(TASKS), include_defaults=False),
        **options,
    )


@pytest.fixture(autouse=True)
def _synthetic(own_cache, monkeypatch):
    monkeypatch.setenv("DPICL_SOURCE", "synthetic")


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"shots": -1}], ids=str)
def test_what_no_release_can_be_made_for_is_refused(wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        make_run({**SETTINGS, **wrong})


def test_an_answer_mechanism_pays_for_the_documents_that_are_asked(own_cache):
    output = evaluate(SETTINGS)
    said = output["config"]["dpicl"]["dpicl_agnews"]
    assert said["queries"] == 8 - 3  # three of the first documents are content-free
    assert 0.98 * 2 <= said["epsilon_proved"] <= 2
    assert 0 <= output["results"]["dpicl_agnews"]["acc,none"] <= 1


def test_a_demonstration_mechanism_releases_once_and_its_texts_stand_before_every_query(own_cache):
    settings = {**SETTINGS, "mechanism": "prism", "options": {"prompts": 6, "tokens": 3}}
    output = evaluate(settings, log_samples=True)
    said = output["config"]["dpicl"]["dpicl_agnews"]
    assert said["queries"] is None and 0.98 * 2 <= said["epsilon_proved"] <= 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mechanism": "votign"}, "Did you mean 'voting'"),
        ({"epsilon": 0}, "epsilon must be a positive number"),
        ({"slotz": 3}, "Unknown model argument 'slotz'"),
        ({"model": "gpt5"}, "Unknown model 'gpt5'"),
        ({"options": {"slotz": 3}}, "Did you mean 'slots'"),
        ({"mechanism": "esa"}, "esa cannot do agnews"),
    ],
)
def test_bad_model_arguments_are_one_sentence(changes, message):
    with pytest.raises(UsageError, match=message):
        evaluate({**SETTINGS, **changes})


@pytest.mark.slow
def test_the_command_prints_lm_evals_table(dpicl):
    words = ["--mechanism", "voting", "--epsilon", 2, "--model", "sim", "--source", "synthetic", "--option", "slots=4"]
    answer = dpicl("lm-eval", *words, "--tasks", "dpicl_agnews", "--limit", 8)
    assert answer.code == 0, answer.err
    assert "dpicl_agnews" in answer.out and "acc_calibrated" in answer.out


def test_the_command_writes_one_json_document_and_lm_evals_own_files(dpicl, tmp_path):
    words = ["--mechanism", "voting", "--epsilon", 2, "--model", "sim", "--source", "synthetic", "--option", "slots=4"]
    flags = ["--limit", 8, "--output_path", tmp_path, "--log_samples", "--json"]
    answer = dpicl("lm-eval", *words, "--tasks", "dpicl_agnews", *flags)
    assert answer.code == 0, answer.err
    assert answer.json["config"]["dpicl"]["dpicl_agnews"]["epsilon_proved"] <= 2
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
    evaluate(SETTINGS)
    listed = dpicl("cache", "--json").json["collections"]
    assert [(one["model"], one["task"], one["kind"]) for one in listed] == [("sim", "agnews", "labels")]
    assert "agnews" in dpicl("cache").out
    assert dpicl("cache", "--clear", "--task", "trec", "--json").json == {"removed": 0}
    assert dpicl("cache", "--clear", "--json").json["removed"] == listed[0]["outputs"]
    assert "empty" in dpicl("cache").out
