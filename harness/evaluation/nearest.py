"""The metric `acc_nearest`: a query gets the label of the released demonstration that is nearest to it among sentence
embeddings.

It reads what was released without a language model: a small one often cannot use arbitrary labels that stand in its
prompt. lm-eval scores these answers as it scores those of a mechanism that answers: its accuracy is the metric.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpicl.harness.data.config import NEAREST
from dpicl.harness.data.task import Task
from dpicl.harness.evaluation.lm_eval_bridge import DocumentOutcome, Evaluation, evaluate_with
from dpicl.harness.evaluation.mechanism_lm import MechanismLM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpicl.harness.core.vocabulary import Demonstration

#: Texts -> float64[n, d]: their embeddings of length 1, the zero vector for a blank text.
Embed = Callable[[Sequence[str]], np.ndarray]


def nearest_answers(task: Task, demonstrations: Sequence[Demonstration], embed: Embed) -> dict[str, str]:
    """Query id -> label of the demonstration with the largest cosine similarity; of equal ones that of the first.

    A demonstration without text is never the nearest. Where there is none with text, the answer is the first label.
    """
    queries, shown = task.queries(), [each for each in demonstrations if each.text.strip()]
    if not shown:
        return {query.id: task.labels[0] for query in queries}
    near = embed([query.text for query in queries]) @ embed([each.text for each in shown]).T
    return {query.id: shown[at].label for query, at in zip(queries, near.argmax(axis=1).tolist(), strict=True)}


def evaluate_answers(task: Task, answers: Mapping[str, str]) -> Evaluation:
    """Scores of one answer a query, as it is; where `acc_nearest` is the task's main metric, they have it as well."""
    found = evaluate_with(task, MechanismLM(lambda name, queries: {query.id: answers[query.id] for query in queries}))
    return with_nearest(found, found) if task.main_metric == NEAREST else found


def with_nearest(evaluation: Evaluation, nearest: Evaluation) -> Evaluation:
    """The evaluation with the accuracy of another one as `acc_nearest`."""
    said = {document.id: document.outcome["acc"] for document in nearest.documents}
    documents = tuple(
        DocumentOutcome(document.id, {**document.outcome, NEAREST: said[document.id]})
        for document in evaluation.documents
    )
    return replace(evaluation, scores={**evaluation.scores, NEAREST: nearest.scores["acc"]}, documents=documents)
