"""The task files load and run in lm-evaluation-harness itself."""

import math

import numpy as np
import pytest
from lm_eval import evaluator
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager

from dpicl.core.errors import UsageError
from dpicl.data.task import TASKS, Task, list_tasks, serving
from dpicl.tasks import metrics


@pytest.fixture(scope="module")
def manager() -> TaskManager:
    return TaskManager(
        include_path=str(TASKS), include_defaults=False, metadata={"source": "synthetic"}
    )


class KeywordLM(LM):
    """Deterministic and arbitrary: scores by the lengths of context and choice, and always answers 'comedy'."""

    def loglikelihood(self, requests, disable_tqdm=False):
        return [
            (
                -float(len(r.args[1])) - (len(r.args[0]) % 7) * 0.1 * len(r.args[1]) ** 0.5,
                False,
            )
            for r in requests
        ]

    def generate_until(self, requests, disable_tqdm=False):
        return [" comedy\n" for _ in requests]

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        raise NotImplementedError


def test_lm_eval_finds_every_task(manager):
    assert manager.all_tasks == [f"dpicl_{name}" for name in list_tasks()]


@pytest.mark.parametrize("name", list_tasks())
def test_lm_evals_prompt_is_our_zero_shot_prefix_and_query(manager, name):
    ours = Task.load(name, source="synthetic", limit_train=1)
    theirs = manager.load(ours.config.task)["tasks"][ours.config.task]
    assert list(theirs.eval_docs) == ours.documents()
    for doc in theirs.eval_docs.select(range(6)):
        assert theirs.fewshot_context(doc, 0) == ours.icl_prefix(()) + ours.query(doc["text"])


@pytest.mark.parametrize("name", ["agnews", "samsum"])
def test_lm_evals_own_fewshot_rendering_equals_ours(manager, name):
    ours = Task.load(name, source="synthetic", limit_train=1)
    theirs = manager.load(ours.config.task)["tasks"][ours.config.task]
    docs = theirs.eval_docs
    chosen = [docs[5], docs[9]]
    theirs.sampler.sample = lambda n, eval_doc=None: chosen
    theirs.fewshot_cfg.doc_to_choice = theirs.config.doc_to_choice
    blank = 3 if ours.chooses else 0  # content-free documents come first
    demonstrations = [ours.test[5 - blank], ours.test[9 - blank]]
    assert theirs.fewshot_context(docs[20], 2) == ours.icl_prefix(demonstrations) + ours.query(
        docs[20]["text"]
    )


def test_content_free_documents_come_first_uncut():
    docs = Task.load("trec", source="synthetic", limit_train=1, limit_test=4).documents()
    assert [doc["text"] for doc in docs[:3]] == ["N/A", "", "[MASK]"]
    assert [doc["content_free"] for doc in docs] == [True] * 3 + [False] * 4
    assert len({doc["id"] for doc in docs}) == len(docs)


def test_a_run_reports_both_accuracies(manager):
    results = evaluator.evaluate(
        KeywordLM(), manager.load(["dpicl_agnews", "dpicl_mit_g"]), limit=60, bootstrap_iters=0
    )
    scores = results["results"]["dpicl_agnews"]
    items = [sample["acc"] for sample in results["samples"]["dpicl_agnews"]]
    assert len(items) == 60
    real = [item for item in items if not item["content_free"]]
    assert scores["acc,none"] == pytest.approx(
        np.mean([np.argmax(i["log_probs"]) == i["gold"] for i in real])
    )
    assert scores["acc_calibrated,none"] == pytest.approx(slow_calibrated_accuracy(items))
    assert 0 <= results["results"]["dpicl_mit_g"]["exact_match,none"] < 0.2


def test_a_served_task_replaces_the_loaded_one(manager):
    ours = Task.load("agnews", source="synthetic", limit_train=1, limit_test=2, seed=9)
    with serving(ours):
        theirs = manager.load("dpicl_agnews")["tasks"]["dpicl_agnews"]
        assert list(theirs.eval_docs) == ours.documents()
        with pytest.raises(UsageError, match="one at a time"):
            manager.load("dpicl_trec")
    assert len(manager.load("dpicl_agnews")["tasks"]["dpicl_agnews"].eval_docs) == 203


def test_environment_chooses_the_source_when_lm_eval_runs_alone(monkeypatch):
    alone = TaskManager(include_path=str(TASKS), include_defaults=False)
    monkeypatch.setenv("DPICL_SOURCE", "nowhere")
    with pytest.raises(UsageError, match="nowhere"):
        alone.load("dpicl_trec")
    monkeypatch.setenv("DPICL_SOURCE", "synthetic")
    assert len(alone.load("dpicl_trec")["tasks"]["dpicl_trec"].eval_docs) == 303


def test_train_records_never_reach_lm_eval(manager):
    theirs = manager.load("dpicl_agnews")["tasks"]["dpicl_agnews"]
    assert set(theirs.dataset) == {"test"}


def slow_calibrated_accuracy(items) -> float:
    """Contextual calibration with loops and exponentials, as section 1.4 of Tang et al.'s code does it."""

    def probabilities(item):
        weights = [math.exp(value) for value in item["log_probs"]]
        return [weight / sum(weights) for weight in weights]

    blank = [probabilities(item) for item in items if item["content_free"]]
    reference = [sum(column) / len(blank) for column in zip(*blank, strict=True)]
    right = total = 0
    for item in items:
        if item["content_free"]:
            continue
        scores = [p / r for p, r in zip(probabilities(item), reference, strict=True)]
        right += scores.index(max(scores)) == item["gold"]
        total += 1
    return right / total


def test_no_documents_and_no_content_free_documents_give_nan():
    doc = {"gold": 0, "content_free": False, "log_probs": [0.0, -1.0]}
    assert math.isnan(metrics.calibrated_accuracy([doc]))
    assert math.isnan(metrics.accuracy([{**doc, "content_free": True}]))


@pytest.mark.parametrize(
    ("answer", "hit"),
    [
        (" comedy\nmore", 1.0),
        ("Comedy", 0.0),
        ("comedy film", 0.0),
        ("\n\ncomedy", 1.0),
    ],
)
def test_exact_match_compares_the_first_line(answer, hit):
    assert metrics.extraction_results({"label": "comedy"}, [answer]) == {"exact_match": hit}
