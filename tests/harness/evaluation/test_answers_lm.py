"""Released answers inside lm-eval: each is scored as itself, and calibration changes nothing."""

import pytest
from lm_eval.api.instance import Instance

from dpicl.data.task import Task
from dpicl.evaluation.lm_eval_bridge import evaluate_with
from dpicl.evaluation.lm_eval_models import NOT_CHOSEN, AnswersLM


@pytest.fixture(scope="module")
def agnews():
    return Task.load("agnews", "synthetic", limit_train=4, limit_test=8)


def test_one_answer_to_all_documents_is_as_good_as_its_label_is_frequent(agnews):
    evaluation = evaluate_with(agnews, AnswersLM(dict.fromkeys([query.id for query in agnews.queries()], "Sports")))
    expected = sum(record.label == "Sports" for record in agnews.test) / len(agnews.test)
    assert evaluation.scores == {"acc": expected, "acc_calibrated": expected}
    assert set(evaluation.ids) == {query.id for query in agnews.queries()}


def test_every_answer_is_scored_as_itself(agnews):
    right = {query.id: record.label for query, record in zip(agnews.queries(), agnews.test, strict=True)}
    assert evaluate_with(agnews, AnswersLM(right)).scores == {"acc": 1.0, "acc_calibrated": 1.0}


def test_generated_answers_reach_the_metrics(agnews):
    task = Task.load("mit_g", "synthetic", limit_train=4, limit_test=6)
    answers = {query.id: record.label for query, record in zip(task.queries(), task.test, strict=True)}
    answers[task.queries()[0].id] = "wrong"
    assert evaluate_with(task, AnswersLM(answers)).scores == {"exact_match": pytest.approx(5 / 6)}


def test_a_released_label_has_probability_one_and_the_others_none(agnews):
    document = agnews.documents()[-1]
    lm = AnswersLM({document["id"]: "Sports"})
    requests = [
        Instance("loglikelihood", document, ("context", f" {label}"), 0, ("dpicl_agnews", 0, 1))
        for label in ("World", "Sports", "Business")
    ]
    assert lm.loglikelihood(requests) == [(NOT_CHOSEN, False), (0.0, True), (NOT_CHOSEN, False)]
