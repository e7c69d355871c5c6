"""Chooses the canaries of sampled audits, one for each kind of mechanism.

Answers are asked one of two questions. ``inquiry`` (Xia et al. 2025, prompts 1 to 3): is this text one of the examples?
Candidates Yes and No; for texts, two fixed answers that are far apart. ``lookup`` (ours): the canary's own input is the
query, and its output is one that nothing else suggests; a slot that shows the canary copies it. A model that cannot
tell what its prompt holds may still copy, so the second question finds more with small models. The text of such a
canary spells the example out several times: one record may hold anything.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from dpicl.attacks.canaries import FAR_TEXTS
from dpicl.attacks.noisy_sums import NoisySums
from dpicl.attacks.views import YES, ask_yes_or_no, completions, first_words, free_text, spell_out
from dpicl.core.errors import UsageError
from dpicl.core.messages import count
from dpicl.core.vocabulary import Query, Record
from dpicl.data.task import PublicTask, Task
from dpicl.mechanism.bases import AnswerMechanism, Mechanism
from dpicl.mechanism.generation import label_endings
from dpicl.mechanism.outputs import skip_reason
from dpicl.models.base import LanguageModel
from dpicl.models.embeddings import EmbeddingModel, load_embeddings

Question = Literal["inquiry", "lookup"]
#: Released texts -> what each says for membership.
TextScore = Callable[[Sequence[str]], Sequence[float]]

#: Words of the canary that are asked about; how often a canary to be copied spells out its example; rank of the public
#: tokens that a demonstration's canary is made of.
WORDS = 12
REPEATS = 3
RANK = 9
#: The two fixed answers of the direct question, for texts.
_FOR, _AGAINST = FAR_TEXTS[0], FAR_TEXTS[1]
_ASKING = (
    "Text: {text}\nIf this text is one of the examples above, answer: {yes}\n"
    "If it is not, answer: {no}\nAnswer:"
)
#: The largest number of prompts, of two private examples each, that the unlikely label is chosen by.
_PROMPTS = 8
#: The largest number of labels for which the label-only ceiling is computed.
_MOST_LABELS = 20


@dataclass(frozen=True)
class Canary:
    """record: what is inserted. task: with the audit's question. queries: the one about this record, or none.

    score: what each of several released texts says for membership; None: how much more often it comes with the canary,
    which is learned. answer: the label that speaks for membership, where answers are labels. note: what a reader of a
    result must know.
    """

    record: Record = field(repr=False)
    task: PublicTask = field(repr=False)
    note: str
    queries: tuple[Query, ...] = field(default=(), repr=False)
    score: TextScore | None = field(default=None, repr=False)
    answer: str = ""

    def labels_of_votes(self, sums: NoisySums) -> Sequence[str]:
        """The labels that the coordinates of a sum count, one of which speaks for membership; none
        where it is no such vote."""
        labels = self.task.labels
        votes = sums.clean.shape[1] == len(labels) <= _MOST_LABELS
        return labels if votes and self.answer in labels else ()


@dataclass(frozen=True)
class Knowledge:
    """What an auditor knows. private: all records but the canary. other: one more, which the canary is made of."""

    mechanism: Mechanism
    task: Task
    model: LanguageModel
    private: Sequence[Record] = field(repr=False)
    other: Record = field(repr=False)

    @property
    def embeddings(self) -> EmbeddingModel:
        """The mechanism's, for tasks of texts."""
        return load_embeddings(getattr(self.mechanism, "embedding", "embedded"))

    @property
    def records(self) -> str:
        """'8 records'."""
        return count(len(self.private), "record")


def choose_asked(knowledge: Knowledge, question: Question) -> Canary:
    """Of answers to one question (Q = 1). Raises UsageError for tasks without inputs to ask about, and where the
    mechanism cannot answer the question."""
    mechanism = knowledge.mechanism
    assert isinstance(mechanism, AnswerMechanism)
    choose = _choose_inquiry if question == "inquiry" else _choose_lookup
    task, record, text, ends = choose(knowledge, first_words(knowledge.other.text, WORDS))
    reason = skip_reason(mechanism, task)
    if reason:
        raise UsageError(f"{mechanism.name} cannot answer the audit's question: {reason}.")
    sample = mechanism.scheme.describe(len(knowledge.private))
    note = f"one query, question {question}, {knowledge.records}, {sample}"
    queries = (Query("audit", text),)
    if ends is not None:
        score = _measure_nearness(knowledge.embeddings, *ends)
        return Canary(record, task.public_view(), note, queries, score)
    answer = YES if question == "inquiry" else record.label
    return Canary(record, task.public_view(), note, queries, answer=answer)


#: The task with the question, the canary, the query's text, and the answers that speak for membership and against it
#: (None where answers are labels).
_Asked = tuple[Task, Record, str, tuple[str, str] | None]


def _choose_inquiry(knowledge: Knowledge, shown: str) -> _Asked:
    task, other = knowledge.task, knowledge.other
    if task.kind == "generation":
        text = _ASKING.format(text=shown, yes=_FOR, no=_AGAINST)
        return free_text(task), other, text, (_FOR, _AGAINST)
    return ask_yes_or_no(task), other, shown, None


def _choose_lookup(knowledge: Knowledge, shown: str) -> _Asked:
    task, ends = knowledge.task, None
    if task.chooses:
        output = _unlikely_label(knowledge, shown)
    elif task.kind == "generation":
        ends = _far_text(knowledge, shown)
        output = ends[0]
    else:
        raise UsageError(
            f"The question lookup needs records with a label or an output; ask {task.name} by inquiry."
        )
    # Shown as one example, the text ends with that output itself.
    record = Record(spell_out(task, shown, output, REPEATS - 1), output)
    return task, record, shown, ends


def _measure_nearness(embeddings: EmbeddingModel, member: str, non_member: str) -> TextScore:
    """How much nearer texts are to the first end than to the other one."""

    def score(texts: Sequence[str]) -> list[float]:
        rows = embeddings.encode([*texts, member, non_member])
        distances = np.linalg.norm(rows[:-2, None] - rows[None, -2:], axis=2)
        near: list[float] = (distances[:, 1] - distances[:, 0]).tolist()
        return near

    return score


def _unlikely_label(knowledge: Knowledge, shown: str) -> str:
    """The label that the model finds least likely for a text after other private examples (the auditor knows all
    records but the canary)."""
    task, model = knowledge.task, knowledge.model
    query, endings = task.query(shown), label_endings(task, model)
    examples = knowledge.private[: 2 * _PROMPTS]
    prompts = [
        task.icl_prefix(examples[start : start + 2]) + query for start in range(0, len(examples), 2)
    ]
    scores = np.array(model.score([(model.encode(prompt), endings) for prompt in prompts]))
    return task.labels[int(np.argmin(scores.mean(axis=0)))]


def _far_text(knowledge: Knowledge, shown: str) -> tuple[str, str]:
    """The fixed text that is farthest from the model's answer without examples, and that answer."""
    task = knowledge.task
    prompt = task.icl_prefix(()) + task.query(shown)
    answer = completions(task, knowledge.model, [prompt])[0] or task.name
    rows = knowledge.embeddings.encode([answer, *FAR_TEXTS])
    return FAR_TEXTS[int(np.argmin(rows[1:] @ rows[0]))], answer


def choose_contradiction(knowledge: Knowledge) -> Canary:
    """Of what is prepared: the other record with the label that follows its own in the task's order, which says of its
    text what no other record says. Its own text is the query."""
    task = knowledge.task
    text, label = knowledge.other.text, knowledge.other.label
    if task.labels:
        position = task.labels.index(label) if label in task.labels else 0
        label = task.labels[(position + 1) % len(task.labels)]
    note = f"one preparation from {knowledge.records}, every one of which may be in it"
    return Canary(Record(text, label), task.public_view(), note, (Query("canary", text),))


def choose_copied(
    knowledge: Knowledge,
    label: str,
    write: Callable[[int], str],
) -> Canary:
    """Of one demonstration of a label: a text that the mechanism could release but hardly would, of the public tokens
    of a rank. What is looked for is how much of its tokens stands in the released text, in one piece: 0 to 1.

    write: the text of the public tokens of this rank.
    """
    encode = knowledge.model.encode
    texts = map(write, range(RANK, -1, -1))
    canary = next(filter(str.strip, texts), "N/A")

    def score(texts: Sequence[str]) -> list[float]:
        expected = encode(canary)
        shares = []
        for text in texts:
            matcher = difflib.SequenceMatcher(None, expected, encode(text), autojunk=False)
            shares.append(matcher.find_longest_match().size / max(1, len(expected)))
        return shares

    note = f"one demonstration of the first label, {knowledge.records}"
    return Canary(Record(canary, label), knowledge.task.public_view(), note, score=score)
