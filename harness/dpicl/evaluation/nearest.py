"""The metrics `acc_nearest` and `acc_logistic`: classifiers of sentence embeddings, trained on released demonstrations.
A query gets the label of the nearest one, or that of a logistic regression on all of them.

They read what was released without a language model: a small one often cannot use arbitrary labels that stand in its
prompt, and none reads hundreds of texts. lm-eval scores their answers as it scores those of a mechanism that answers:
its accuracy is the metric.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dpicl.core.vocabulary import Demonstration
from dpicl.data.task import Task
from dpicl.data.task_file import BY_EMBEDDING, COMPUTED, LOGISTIC, NEAREST
from dpicl.evaluation.carried import logistic
from dpicl.evaluation.lm_eval_bridge import Evaluation, evaluate_with
from dpicl.evaluation.lm_eval_models import AnswersLM

#: Texts -> float64[n, d]: their embeddings of length 1, the zero vector for a blank text.
Embed = Callable[[Sequence[str]], np.ndarray]
#: (embeddings of queries [Q, d], of demonstrations [k, d], their labels, k at least 1) -> a label for each query.
Classifier = Callable[[np.ndarray, np.ndarray, Sequence[str]], list[str]]


def predict_nearest(
    queries: np.ndarray,
    shown: np.ndarray,
    labels: Sequence[str],
) -> list[str]:
    """The label of the demonstration with the largest cosine similarity; of equal ones that of the first."""
    return [labels[at] for at in (queries @ shown.T).argmax(axis=1).tolist()]


#: Metric -> whose accuracy it is.
CLASSIFIERS: Mapping[str, Classifier] = {NEAREST: predict_nearest, LOGISTIC: logistic}


def classify(
    task: Task,
    demonstrations: Sequence[Demonstration],
    embed: Embed,
) -> dict[str, dict[str, str]]:
    """Metric -> query id -> label, by every classifier that is made of the demonstrations.

    A demonstration without text counts for nothing. Where there is none with text, the answer is the first label.
    """
    queries = task.queries()
    shown = [each for each in demonstrations if each.text.strip()]
    predicted = dict.fromkeys(CLASSIFIERS, [task.labels[0]] * len(queries))
    if shown:
        query_rows = embed([query.text for query in queries])
        known = embed([each.text for each in shown])
        predicted = {
            name: each(
                query_rows,
                known,
                [one.label for one in shown],
            )
            for name, each in CLASSIFIERS.items()
        }
    ids = [query.id for query in queries]
    return {name: dict(zip(ids, labels, strict=True)) for name, labels in predicted.items()}


def evaluate_answers(task: Task, answers: Mapping[str, str]) -> Evaluation:
    """Scores of one answer a query, as it is, also by the main metric where that reads texts by embedding."""
    evaluation = evaluate_with(task, AnswersLM(answers))
    return (
        add_accuracy(evaluation, task.main_metric, evaluation)
        if task.main_metric in BY_EMBEDDING
        else evaluation
    )


def skip_model(task: Task, why: str) -> Evaluation:
    """An evaluation without a metric of the language model, and why."""
    ids = [query.id for query in task.queries()]
    return Evaluation(ids, {}, skipped=dict.fromkeys(COMPUTED[task.kind], why))


def add_accuracy(evaluation: Evaluation, metric: str, other: Evaluation) -> Evaluation:
    """The evaluation with the accuracy of another one under this name."""
    outcomes = dict(zip(other.ids, other.outcomes["acc"], strict=True))
    return evaluation.add_metric(metric, [outcomes[each] for each in evaluation.ids])
