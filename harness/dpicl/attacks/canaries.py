"""Makes the canaries of exact audits, from public information alone.

An exact bound has no confidence to spend, so many are tried:

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

import numpy as np

from dpicl.attacks.views import first_words, spell_out
from dpicl.core.vocabulary import Query
from dpicl.data.task import NEUTRAL_LABEL, Record, Task

#: Outputs that are far from what is asked.
FAR_TEXTS = (
    "The blue whale swims slowly through the cold ocean.",
    "Interest rates rose again, said the central bank.",
    "Mix the flour with two eggs and bake it for an hour.",
    "The telescope found a small planet near a distant star.",
)
#: The largest numbers of labels, and of queries that others are like, that are tried.
_MOST_LABELS = 6
_MOST_ALIKE = 3
#: Ranks of the public tokens that texts are made of, in the order of trial, and how often a word is repeated.
RANKS = (
    0,
    1,
    3,
    9,
    2,
    4,
    5,
    6,
    7,
    8,
)
_REPEATS = 40
#: How many first words of a query a hostile record shows.
_WORDS = 24


def hostile_answers(task: Task, queries: Sequence[Query]) -> list[Record]:
    """For queries whose slots are drawn by chance."""
    shown = first_words(queries[0].text, _WORDS)
    if not task.labels:
        spelled = [Record(spell_out(task, shown, output, 2), output) for output in FAR_TEXTS[:2]]
        return [*(Record("N/A", output) for output in FAR_TEXTS), *spelled]
    labels = task.labels[:_MOST_LABELS]
    content_free = task.content_free[0] if task.chooses else "N/A"
    short = [Record(text, label) for label in labels for text in (content_free, shown)]
    return short + [Record(_repeat(label), label) for label in labels]


def hostile_joiners(
    task: Task,
    queries: Sequence[Query],
    rows: np.ndarray,
    threshold: float,
) -> list[Record]:
    """For queries that a record joins where it is like them. rows: float64[Q, d], their embeddings."""
    alike = (rows @ rows.T >= threshold).sum(axis=1)
    most_alike = np.argsort(-alike, kind="stable")[:_MOST_ALIKE]
    labels = task.labels[:_MOST_LABELS]
    return [Record(queries[number].text, label) for number in most_alike for label in labels]


def hostile_texts(
    task: Task,
    group: str | None,
    texts: Sequence[str],
) -> list[Record]:
    """For demonstrations. group: of the canary, None where all records are one. texts: public ones of several ranks."""
    label = _labels_of(task, group)[0]
    written = [text for text in dict.fromkeys(texts) if text.strip()]
    words = dict.fromkeys(text.split()[0] for text in written)
    hostile = [*written, *map(_repeat, words)] or ["N/A"]
    return [Record(text, label) for text in hostile]


def hostile_prepared(
    task: Task,
    queries: Sequence[Query],
    group: str | None,
) -> list[Record]:
    """For a mechanism that reads all records once."""
    text = queries[0].text if queries else "N/A"
    return [Record(text, label) for label in _labels_of(task, group)]


def _labels_of(task: Task, group: str | None) -> Sequence[str]:
    """The labels of canaries of a group."""
    if group is not None:
        return (group,)
    return task.labels[:_MOST_LABELS] or (NEUTRAL_LABEL,)


def _repeat(word: str) -> str:
    return " ".join([word] * _REPEATS)
