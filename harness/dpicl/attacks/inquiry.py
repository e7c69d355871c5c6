"""Inquiry: asks whether a text is one of the examples. Wen et al. 2024, "Membership inference attacks against
in-context learning" (arXiv 2409.01380).

For every candidate the target gets one question, "is this text one of the examples above?", and answers Yes or No: a
word chosen among the two where it answers with labels, else the first of the two words in its text. Yes speaks for
membership. Nothing but the answer is used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dpicl.attacks.base import Attack, AttackFinding, AttackSetup
from dpicl.attacks.membership import ask_and_score, cannot_answer
from dpicl.attacks.views import YES, first_words, free_text, yes_or_no
from dpicl.data.task import Task
from dpicl.mechanism.bases import Mechanism

_QUESTION = "Text: {text}\nIs this text one of the examples above? Answer Yes or No.\nAnswer:"
_SAID = re.compile(r"\b(yes|no)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Inquiry(Attack):
    """words: how many first words of a candidate the question shows (None: all)."""

    name = "inquiry"
    access = "black-box"
    source = "Wen et al. 2024, arXiv 2409.01380"
    summary = "asks whether a text is one of the examples"

    words: int | None = 30

    def __post_init__(self) -> None:
        self.require_at_least(words=1)

    def skip(self, mechanism: Mechanism, task: Task) -> str | None:
        return cannot_answer(mechanism, task, _view(mechanism, task))

    def run(self, setup: AttackSetup) -> AttackFinding:
        form = _QUESTION if _in_words(setup.mechanism, setup.task) else "{text}"
        return ask_and_score(
            setup,
            view=lambda task: _view(setup.mechanism, task),
            questions=lambda record: [form.format(text=first_words(record.text, self.words))],
            score=lambda candidates, answers: [said_yes(answer) for (answer,) in answers],
        )


def said_yes(answer: str) -> float:
    """1 for Yes, 0 for No, by the first of these words in an answer; 1/2 where there is none."""
    found = _SAID.search(answer)
    return 0.5 if found is None else float(found.group().lower() == YES.lower())


def _in_words(mechanism: Mechanism, task: Task) -> bool:
    """Whether the answer is a text: of answer mechanisms that aggregate texts."""
    return not mechanism.releases_texts and task.kind == "generation"


def _view(mechanism: Mechanism, task: Task) -> Task:
    return free_text(task) if _in_words(mechanism, task) else yes_or_no(task)
