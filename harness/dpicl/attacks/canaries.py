"""The record whose membership an audit asks about, the question, and the answers that speak for and against it.

Two questions. ``inquiry`` (Xia et al. 2025, prompts 1 to 3): is this text one of the examples? Candidates Yes and No;
for texts, two fixed answers that are far apart. ``lookup`` (ours): the canary's own input is the query, and its output
is one that nothing else suggests; a slot that shows the canary copies it. A model that cannot tell what its prompt
holds may still copy, so the second question finds more with small models. The text of such a canary spells the example
out several times: one record may hold anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from dpicl.attacks.audit_settings import AuditSetup
from dpicl.attacks.views import NO, YES, completions, first_words, free_text, spelled_out, yes_or_no
from dpicl.core.errors import UsageError
from dpicl.core.vocabulary import Query
from dpicl.data.task import Record, Task
from dpicl.mechanism.generation import label_endings
from dpicl.models.base import LanguageModel
from dpicl.models.embeddings import EmbeddingModel

#: Outputs for a canary among texts; the one that is farthest from the model's own answer is used.
FAR_TEXTS: Final = (
    "The blue whale swims slowly through the cold ocean.",
    "Interest rates rose again, said the central bank.",
    "Mix the flour with two eggs and bake it for an hour.",
    "The telescope found a small planet near a distant star.",
)
#: The two fixed answers of the direct question, for texts.
FOR, AGAINST = FAR_TEXTS[0], FAR_TEXTS[1]
#: Prompts of two private examples that the unlikely label is found with, at most.
_PROMPTS: Final = 8
ASKING = "Text: {text}\nIf this text is one of the examples above, answer: {yes}\nIf it is not, answer: {no}\nAnswer:"


@dataclass(frozen=True)
class Canary:
    """record: what is inserted. seen: the task with the audit's question. query: the question about this record.

    member, non_member: answers that speak for and against membership.
    """

    record: Record = field(repr=False)
    seen: Task = field(repr=False)
    query: Query = field(repr=False)
    member: str = field(repr=False)
    non_member: str = field(repr=False)


def canary(setup: AuditSetup, embeddings: Callable[[], EmbeddingModel]) -> Canary:
    """The canary of an audit, made of its other record. embeddings: called for tasks of texts only.

    Raises UsageError for tasks without inputs to ask about.
    """
    task, settings = setup.task, setup.settings
    shown = first_words(setup.other.text, settings.words)
    if settings.question == "inquiry":
        if task.kind != "generation":
            return Canary(setup.other, yes_or_no(task), Query("audit", shown), YES, NO)
        text = ASKING.format(text=shown, yes=FOR, no=AGAINST)
        return Canary(setup.other, free_text(task), Query("audit", text), FOR, AGAINST)
    if task.chooses:
        output, usual = _unlikely_label(setup, shown)
    elif task.kind == "generation":
        output, usual = _far_text(task, shown, setup.model, embeddings())
    else:
        raise UsageError(f"The question lookup needs records with a label or an output; ask {task.name} by inquiry.")
    # Shown as one example, the text ends with that output itself.
    text = spelled_out(task, shown, output, settings.repeats - 1)
    return Canary(Record(text, output), task, Query("audit", shown), output, usual)


def _unlikely_label(setup: AuditSetup, shown: str) -> tuple[str, str]:
    """The labels that the model finds least and most likely for a text after other private examples (the auditor knows
    all records but the canary)."""
    task, model, private = setup.task, setup.model, setup.private
    query, endings = task.query(shown), label_endings(task, model)
    pairs = [private[at : at + 2] for at in range(0, min(len(private), 2 * _PROMPTS), 2)]
    prompts = [model.encode(task.icl_prefix(pair) + query) for pair in pairs]
    scores = np.array(model.score([(prompt, endings) for prompt in prompts]))
    order = np.argsort(scores.mean(axis=0), kind="stable")
    return task.labels[int(order[0])], task.labels[int(order[-1])]


def _far_text(task: Task, shown: str, model: LanguageModel, embeddings: EmbeddingModel) -> tuple[str, str]:
    """The fixed text that is farthest from the model's answer without examples, and that answer."""
    own = completions(task, model, [task.icl_prefix(()) + task.query(shown)])[0] or task.name
    rows = embeddings.encode([own, *FAR_TEXTS])
    return FAR_TEXTS[int(np.argmin(rows[1:] @ rows[0]))], own


def held_out(train: Sequence[Record], count: int, sampling: np.random.Generator) -> tuple[list[Record], Record]:
    """(``count`` private records, one more that is not among them), by public randomness. Raises UsageError for too
    few."""
    if len(train) <= count:
        raise UsageError(f"The task has {len(train)} train records and the audit needs {count + 1}; lower --records.")
    order = sampling.permutation(len(train))
    return [train[at] for at in order[:count].tolist()], train[int(order[count])]
