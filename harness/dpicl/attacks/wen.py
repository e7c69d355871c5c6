"""Gap, inquiry, repeat and brainwash: four attacks that use nothing but answers. Wen et al. 2024, "Membership inference
attacks against in-context learning" (arXiv 2409.01380).

All questions about all candidates are put to the target at once; an answer mechanism pays for each of them. ``words``:
how many first words of a candidate a question shows (None: all).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dpicl.attacks.base import Attack, AttackFinding, AttackSetup
from dpicl.attacks.membership import ask_and_score, explain_no_answer, score_each
from dpicl.attacks.views import YES, ask_yes_or_no, first_words, free_text, spell_out
from dpicl.core.messages import count
from dpicl.data.task import Record, Task
from dpicl.data.task_file import CHOOSING
from dpicl.evaluation.text_metrics import rouge
from dpicl.mechanism.bases import Mechanism
from dpicl.models.embeddings import check_embedding_name, load_embeddings

_SOURCE = "Wen et al. 2024, arXiv 2409.01380"
_YES_OR_NO = re.compile(r"\b(yes|no)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Gap(Attack):
    """A text whose right answer the target knows is a member (after the baseline of Yeom et al. 2018).

    Every candidate is put to the target as an ordinary query of the task. The score is how right the answer is:
    classification 1 for the candidate's label, extraction 1 for its phrase, texts the ROUGE-L F1 with its reference.
    """

    name = "gap"
    source = _SOURCE
    summary = "takes what is answered rightly for a member"

    words: int | None = None

    def __post_init__(self) -> None:
        self.require_at_least(words=1)

    def skip(self, mechanism: Mechanism, task: Task) -> str | None:
        if task.kind == "json":
            return f"{task.name} asks for new texts, so no record has a right answer"
        return explain_no_answer(mechanism, task)

    def run(self, setup: AttackSetup) -> AttackFinding:
        def score(record: Record, answers: Sequence[str]) -> float:
            return rightness(setup.task.kind, answers[0], record.label)

        return ask_and_score(
            setup,
            questions=lambda record: [first_words(record.text, self.words)],
            score=score_each(score),
        )


@dataclass(frozen=True)
class Inquiry(Attack):
    """Asks whether a text is one of the examples.

    The target answers Yes or No: a word chosen among the two where it answers with labels, else the first of the two
    words in its text. Yes speaks for membership.
    """

    name = "inquiry"
    source = _SOURCE
    summary = "asks whether a text is one of the examples"

    words: int | None = 30

    def __post_init__(self) -> None:
        self.require_at_least(words=1)

    def skip(self, mechanism: Mechanism, task: Task) -> str | None:
        view = free_text if _is_in_words(mechanism, task) else ask_yes_or_no
        return explain_no_answer(mechanism, task, view(task))

    def run(self, setup: AttackSetup) -> AttackFinding:
        in_words = _is_in_words(setup.mechanism, setup.task)
        form = "{text}"
        if in_words:
            form = (
                "Text: {text}\nIs this text one of the examples above? Answer Yes or No.\nAnswer:"
            )
        return ask_and_score(
            setup,
            view=free_text if in_words else ask_yes_or_no,
            questions=lambda record: [form.format(text=first_words(record.text, self.words))],
            score=score_each(lambda record, answers: score_yes(answers[0])),
        )


@dataclass(frozen=True)
class Repeat(Attack):
    """Gives the first words of a text and measures how near the completion comes to the rest. Joo et al. 2025 attack
    SGA with it (arXiv 2509.10932, MIA.py of their code: 6 words, a completion, cosine of embeddings).

    The score is the cosine similarity of the completion's embedding with that of the words which really follow, as many
    as a completion may have. Unlike that code, which compares with the whole text: its first words are in the question,
    and every completion that repeats them would seem near. room: the longest completion, in tokens. embedding: name of
    the embedding model.
    """

    name = "repeat"
    source = _SOURCE
    summary = "gives the first words and compares the completion with the rest"

    words: int = 6
    room: int = 24
    embedding: str = "embedded"

    def __post_init__(self) -> None:
        check_embedding_name(self.embedding)
        self.require_at_least(words=1, room=1)

    def skip(self, mechanism: Mechanism, task: Task) -> str | None:
        return explain_no_answer(mechanism, task, free_text(task, self.room))

    def run(self, setup: AttackSetup) -> AttackFinding:
        form = "Complete the following text as in the examples above.\nText: {start}"
        short = sum(not self._rest(record) for record in setup.candidates)
        return ask_and_score(
            setup,
            view=lambda task: free_text(task, self.room),
            questions=lambda record: [form.format(start=first_words(record.text, self.words))],
            score=self.nearness,
            notes=[f"{count(short, 'candidate')} of {self.words} words or fewer, which score 0"]
            if short
            else [],
        )

    def nearness(
        self,
        candidates: Sequence[Record],
        answers: Sequence[Sequence[str]],
    ) -> list[float]:
        """Cosine of each candidate's completion and the words that really follow; 0 where one of them is empty."""
        embeddings = load_embeddings(self.embedding)
        completed = embeddings.encode([answer for (answer,) in answers])
        expected = embeddings.encode([self._rest(record) for record in candidates])
        cosines: list[float] = (completed * expected).sum(axis=1).tolist()
        return cosines

    def _rest(self, record: Record) -> str:
        return " ".join(record.text.split()[self.words : self.words + self.room])


@dataclass(frozen=True)
class Brainwash(Attack):
    """Repeats a wrong label until the target believes it; 6 repeats as in the audit of Xia et al. 2025.

    The question for a candidate shows it 0, 1, ..., n times with a wrong label and then asks for its label. A member
    stands among the private examples with its right label, so it takes more repeats until the answer is no longer that
    one. The score is the least number of repeats at which the answer is wrong, n + 1 where it never is. The repeats are
    part of the query's text, as any user could write them. repeats: n.
    """

    name = "brainwash"
    source = _SOURCE
    summary = "counts how often a wrong label must be repeated until the answer is wrong"

    repeats: int = 6
    words: int | None = 20

    def __post_init__(self) -> None:
        self.require_at_least(repeats=1, words=1)

    def skip(self, mechanism: Mechanism, task: Task) -> str | None:
        if task.kind != "classification":
            return f"answers on {task.name} are not labels, so there is no wrong one to repeat"
        return explain_no_answer(mechanism, task)

    def run(self, setup: AttackSetup) -> AttackFinding:
        def questions(record: Record) -> list[str]:
            return [self.query_text(setup.task, record, times) for times in range(self.repeats + 1)]

        return ask_and_score(setup, questions=questions, score=score_each(self.count_repeats))

    @staticmethod
    def count_repeats(record: Record, answers: Sequence[str]) -> int:
        """Repeats until the answer is wrong; answers: by the number of repeats."""
        for times, answer in enumerate(answers):
            if answer != record.label:
                return times
        return len(answers)

    def query_text(self, task: Task, record: Record, times: int) -> str:
        """The text of a query that shows the record ``times`` times with the label that follows its own in the task's
        order, and then asks for its label."""
        following = task.labels.index(record.label) + 1
        wrong = task.labels[following % len(task.labels)]
        return spell_out(task, first_words(record.text, self.words), wrong, times)


def rightness(kind: str, answer: str, reference: str) -> float:
    """In [0, 1]: equality for labels and phrases (the answer's first line), ROUGE-L F1 with stemming for texts."""
    if kind in CHOOSING:
        return float(answer == reference)
    line = answer.strip().split("\n")[0].rstrip()
    if kind == "extraction":
        return float(line == reference)
    return rouge(line, reference)["rougeL"]


def score_yes(answer: str) -> float:
    """1 for Yes, 0 for No, by the first of these words in an answer; 1/2 where there is none."""
    match = _YES_OR_NO.search(answer)
    return 0.5 if match is None else float(match.group().lower() == YES.lower())


def _is_in_words(mechanism: Mechanism, task: Task) -> bool:
    """Whether the answer is a text: of answer mechanisms that aggregate texts."""
    return not mechanism.releases_texts and task.kind == "generation"
