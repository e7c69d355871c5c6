"""Canaries: the record that a sampled audit asks about, and the hostile records that an exact audit tries.

A sampled audit asks one of two questions. ``inquiry`` (Xia et al. 2025, prompts 1 to 3): is this text one of the
examples? Candidates Yes and No; for texts, two fixed answers that are far apart. ``lookup`` (ours): the canary's own
input is the query, and its output is one that nothing else suggests; a slot that shows the canary copies it. A model
that cannot tell what its prompt holds may still copy, so the second question finds more with small models. The text of
such a canary spells the example out several times: one record may hold anything.

An exact bound has no confidence to spend, so an exact audit tries many hostile records, made of public things alone:

* answers, labels: every label (six at most) behind a content-free text, a query's own text, and a text that spells the
  label out again and again: a ballot that differs from the public one on as many queries as can be;
* answers, texts: outputs that are far from what is asked, after a short text and spelled out several times;
* queries that a record joins by likeness: the texts of the queries that are like most others;
* demonstrations: a text of the public tokens of a rank, and its first word again and again. A model copies what
  repeats, and where it is sure of the next token, its distribution is a corner of the simplex;
* prepared mechanisms: a public text with every label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from dpicl.attacks.audit_settings import AuditSetup
from dpicl.attacks.views import NO, YES, completions, first_words, free_text, spelled_out, yes_or_no
from dpicl.core.errors import UsageError
from dpicl.core.vocabulary import Query
from dpicl.data.task import NEUTRAL_LABEL, Record, Task
from dpicl.mechanism.generation import label_endings

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
#: Labels, and queries that others are like, that are tried at most.
_MOST_LABELS: Final = 6
_MOST_ALIKE: Final = 3
#: Ranks of the public tokens that texts are made of, in the order of trial, and how often a word is repeated.
RANKS: Final = (0, 1, 3, 9, 2, 4, 5, 6, 7, 8)
_REPEATS: Final = 40
#: Words of a query that a hostile record shows.
_WORDS: Final = 24
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


def asked_canary(setup: AuditSetup) -> Canary:
    """The canary of a sampled audit, made of its other record. Raises UsageError for tasks without inputs to ask
    about."""
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
        output, usual = _far_text(setup, shown)
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


def _far_text(setup: AuditSetup, shown: str) -> tuple[str, str]:
    """The fixed text that is farthest from the model's answer without examples, and that answer."""
    task = setup.task
    own = completions(task, setup.model, [task.icl_prefix(()) + task.query(shown)])[0] or task.name
    rows = setup.embeddings.encode([own, *FAR_TEXTS])
    return FAR_TEXTS[int(np.argmin(rows[1:] @ rows[0]))], own


def held_out(train: Sequence[Record], count: int, sampling: np.random.Generator) -> tuple[list[Record], Record]:
    """(``count`` private records, one more that is not among them), by public randomness. Raises UsageError for too
    few."""
    if len(train) <= count:
        raise UsageError(f"The task has {len(train)} train records and the audit needs {count + 1}; lower --records.")
    order = sampling.permutation(len(train))
    return [train[at] for at in order[:count].tolist()], train[int(order[count])]


def hostile_answers(task: Task, queries: Sequence[Query]) -> list[Record]:
    """For queries whose slots are drawn by chance."""
    shown = first_words(queries[0].text, _WORDS)
    if not task.labels:
        spelled = [Record(spelled_out(task, shown, output, 2), output) for output in FAR_TEXTS[:2]]
        return [*(Record("N/A", output) for output in FAR_TEXTS), *spelled]
    labels = task.labels[:_MOST_LABELS]
    texts = [task.content_free[0] if task.chooses else "N/A", shown]
    found = [Record(text, label) for label in labels for text in texts]
    return found + [Record(" ".join([label] * _REPEATS), label) for label in labels]


def hostile_joiners(task: Task, queries: Sequence[Query], rows: np.ndarray, threshold: float) -> list[Record]:
    """For queries that a record joins where it is like them. rows: float64[Q, d], their embeddings."""
    like = (rows @ rows.T >= threshold).sum(axis=1)
    texts = [queries[at].text for at in np.argsort(-like, kind="stable")[:_MOST_ALIKE]]
    return [Record(text, label) for text in texts for label in task.labels[:_MOST_LABELS]]


def hostile_texts(task: Task, group: str | None, texts: Sequence[str]) -> list[Record]:
    """For demonstrations. group: of the canary, None where all records are one. texts: public ones of several ranks."""
    label = group if group is not None else task.labels[0] if task.labels else NEUTRAL_LABEL
    written = [text for text in dict.fromkeys(texts) if text.strip()]
    words = dict.fromkeys(text.split()[0] for text in written)
    return [Record(text, label) for text in (*written, *(" ".join([word] * _REPEATS) for word in words))] or [
        Record("N/A", label)
    ]


def hostile_prepared(task: Task, queries: Sequence[Query], group: str | None) -> list[Record]:
    """For a mechanism that reads all records once."""
    text, labels = queries[0].text if queries else "N/A", task.labels[:_MOST_LABELS] or (NEUTRAL_LABEL,)
    return [Record(text, label) for label in ((group,) if group is not None else labels)]
