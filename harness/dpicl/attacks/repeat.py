"""Repeat: gives the first words of a text and measures how near the completion comes to the rest. Wen et al. 2024,
"Membership inference attacks against in-context learning" (arXiv 2409.01380); Joo et al. 2025 attack SGA
with it (arXiv 2509.10932, MIA.py of their code: 6 words, a completion, cosine of embeddings).

The score of a candidate is the cosine similarity of the completion's embedding with that of the words which really
follow, as many as a completion may have. Unlike that code, which compares with the whole text: its first words are in
the question, and every completion that repeats them would seem near.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpicl.attacks.base import Attack, AttackFinding, AttackSetup
from dpicl.attacks.membership import ask_and_score, cannot_answer
from dpicl.attacks.views import first_words, free_text
from dpicl.core.messages import count
from dpicl.data.task import Record, Task
from dpicl.mechanism.bases import Mechanism
from dpicl.models.embeddings import check_name, load_embeddings

_QUESTION = "Complete the following text as in the examples above.\nText: {start}"


@dataclass(frozen=True)
class Repeat(Attack):
    """words: how many first words are given. room: the longest completion, in tokens; as many words that really follow
    are compared with. embedding: name of the embedding model."""

    name = "repeat"
    access = "black-box"
    source = "Wen et al. 2024, arXiv 2409.01380"
    summary = "gives the first words and compares the completion with the rest"

    words: int = 6
    room: int = 24
    embedding: str = "embedded"

    def __post_init__(self) -> None:
        check_name(self.embedding)
        self.require_at_least(words=1, room=1)

    def skip(self, mechanism: Mechanism, task: Task) -> str | None:
        return cannot_answer(mechanism, task, self._view(task))

    def run(self, setup: AttackSetup) -> AttackFinding:
        short = sum(not self._rest(record) for record in setup.candidates)
        return ask_and_score(
            setup,
            view=self._view,
            questions=lambda record: [_QUESTION.format(start=first_words(record.text, self.words))],
            score=self.nearness,
            notes=[f"{count(short, 'candidate')} of {self.words} words or fewer, which score 0"] if short else [],
        )

    def nearness(self, candidates: Sequence[Record], answers: Sequence[Sequence[str]]) -> list[float]:
        """Cosine of each candidate's completion and the words that really follow; 0 where one of them is empty."""
        embeddings = load_embeddings(self.embedding)
        said = embeddings.encode([answer for (answer,) in answers])
        near: list[float] = (said * embeddings.encode([self._rest(r) for r in candidates])).sum(axis=1).tolist()
        return near

    def _rest(self, record: Record) -> str:
        return " ".join(record.text.split()[self.words : self.words + self.room])

    def _view(self, task: Task) -> Task:
        return free_text(task, self.room)
