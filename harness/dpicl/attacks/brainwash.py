"""Brainwash: repeats a wrong label until the target believes it. Wen et al. 2024, "Membership inference attacks against
in-context learning" (arXiv 2409.01380); 6 repeats as in the audit of Xia et al. 2025.

The question for a candidate shows it 0, 1, ..., n times with a wrong label and then asks for its label. A member stands
among the private examples with its right label, so it takes more repeats until the answer is no longer that one. The
score is the least number of repeats at which the answer is wrong, n + 1 where it never is. An answer mechanism is
asked all n + 1 questions of every candidate at once, and pays for all of them. The repeats are part of the query's
text, as any user could write them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpicl.attacks.base import Attack, AttackFinding, AttackSetup
from dpicl.attacks.membership import ask_and_score, cannot_answer
from dpicl.attacks.views import first_words, spelled_out
from dpicl.data.task import Record, Task
from dpicl.mechanism.bases import Mechanism


@dataclass(frozen=True)
class Brainwash(Attack):
    """repeats: n. words: how many first words of a candidate a question shows (None: all)."""

    name = "brainwash"
    access = "black-box"
    source = "Wen et al. 2024, arXiv 2409.01380"
    summary = "counts how often a wrong label must be repeated until the answer is wrong"

    repeats: int = 6
    words: int | None = 20

    def __post_init__(self) -> None:
        self.require_at_least(repeats=1, words=1)

    def skip(self, mechanism: Mechanism, task: Task) -> str | None:
        if task.kind != "classification":
            return f"the answers of {task.name} are no labels, so there is no wrong one to repeat"
        return cannot_answer(mechanism, task)

    def run(self, setup: AttackSetup) -> AttackFinding:
        return ask_and_score(
            setup,
            view=lambda task: task,
            questions=lambda record: [self.query_text(setup.task, record, n) for n in range(self.repeats + 1)],
            score=lambda candidates, answers: [
                flips_after(own, record.label) for record, own in zip(candidates, answers, strict=True)
            ],
        )

    def query_text(self, task: Task, record: Record, times: int) -> str:
        """The text of a query that shows the record ``times`` times with the label that follows its own in the task's
        order, and then asks for its label."""
        wrong = task.labels[(task.labels.index(record.label) + 1) % len(task.labels)]
        return spelled_out(task, first_words(record.text, self.words), wrong, times)


def flips_after(answers: Sequence[str], label: str) -> int:
    """The number of repeats (0, 1, ...) at which the answer is first not ``label``; len(answers) if it always is."""
    return next((n for n, answer in enumerate(answers) if answer != label), len(answers))
