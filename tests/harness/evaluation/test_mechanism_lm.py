"""A mechanism inside lm-eval: one release a document, and a refusal of everything that would make it two."""

import lm_eval
import pytest
from lm_eval.api.instance import Instance
from lm_eval.tasks import TaskManager

from dpicl.core.errors import UsageError
from dpicl.data.task import TASKS, Task, serving
from dpicl.evaluation.lm_eval_bridge import evaluate_with
from dpicl.evaluation.mechanism_lm import NOT_CHOSEN, MechanismLM


class Counted:
    """Answers every query with one label, and remembers what it was asked."""

    def __init__(self, answer="Sports"):
        self.asked, self.answer = [], answer

    def __call__(self, name, queries):
        self.asked.append((name, [query.id for query in queries]))
        return {query.id: self.answer for query in queries}


@pytest.fixture(scope="module")
def agnews():
    return Task.load("agnews", "synthetic", limit_train=4, limit_test=8)


def request(document, continuation=" Sports", name="dpicl_agnews", repeats=1, doc_id=0):
    return Instance("loglikelihood", document, ("context", continuation), 0, (name, doc_id, repeats))


def test_one_release_for_each_document_and_none_for_content_free_ones(agnews):
    respond = Counted()
    evaluation = evaluate_with(agnews, MechanismLM(respond))
    assert respond.asked == [("dpicl_agnews", [query.id for query in agnews.queries()])]
    expected = sum(record.label == "Sports" for record in agnews.test) / len(agnews.test)
    assert evaluation.scores == {"acc": expected, "acc_calibrated": expected}
    assert set(evaluation.ids) == {query.id for query in agnews.queries()}


def test_every_answer_is_scored_as_itself(agnews):
    right = {query.id: record.label for query, record in zip(agnews.queries(), agnews.test, strict=True)}
    perfect = evaluate_with(agnews, MechanismLM(lambda name, queries: {q.id: right[q.id] for q in queries}))
    assert perfect.scores == {"acc": 1.0, "acc_calibrated": 1.0}


def test_generated_answers_reach_the_metrics(agnews):
    task = Task.load("mit_g", "synthetic", limit_train=4, limit_test=6)
    right = {query.id: record.label for query, record in zip(task.queries(), task.test, strict=True)}
    lm = MechanismLM(lambda name, queries: {q.id: right[q.id] if i else "wrong" for i, q in enumerate(queries)})
    assert evaluate_with(task, lm).scores == {"exact_match": pytest.approx(5 / 6)}


def test_a_released_label_has_probability_one_and_the_others_none(agnews):
    document = agnews.documents()[-1]
    lm = MechanismLM(Counted())
    labels = [" World", " Sports", " Business"]
    answers = lm.loglikelihood([request(document, label) for label in labels])
    assert answers == [(NOT_CHOSEN, False), (0.0, True), (NOT_CHOSEN, False)]


def test_asking_again_for_an_answered_document_releases_nothing(agnews):
    respond = Counted()
    lm = MechanismLM(respond)
    document = agnews.documents()[-1]
    lm.loglikelihood([request(document)])
    lm.loglikelihood([request(document)])
    assert len(respond.asked) == 1


def test_more_documents_after_the_budget_was_spent_are_refused(agnews):
    lm = MechanismLM(Counted())
    lm.loglikelihood([request(agnews.documents()[-1])])
    with pytest.raises(UsageError, match="after its budget was spent"):
        lm.loglikelihood([request(agnews.documents()[-2])])


def test_repeats_rolling_and_lm_evals_cache_are_refused(agnews, tmp_path):
    respond = Counted()
    lm = MechanismLM(respond)
    with pytest.raises(UsageError, match="repeats: 1"):
        lm.loglikelihood([request(agnews.documents()[-1], repeats=2)])
    with pytest.raises(UsageError, match="log-likelihoods of texts have none"):
        lm.loglikelihood_rolling([])
    with serving(agnews), pytest.raises(UsageError, match="leave --use_cache out"):
        lm_eval.simple_evaluate(
            model=lm,
            tasks=["dpicl_agnews"],
            use_cache=str(tmp_path / "cache"),
            task_manager=TaskManager(include_path=str(TASKS), include_defaults=False),
        )
    assert respond.asked == []


def test_several_processes_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="world size 1"):
        MechanismLM(Counted())
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert MechanismLM(Counted()).world_size == 1


def test_a_task_of_somebody_else_is_refused():
    with pytest.raises(UsageError, match="no id and text"):
        MechanismLM(Counted()).loglikelihood([request({"question": "?"}, name="arc_easy")])
