"""Gap: a text whose right answer the target knows is a member. Wen et al. 2024, "Membership inference attacks against
in-context learning" (arXiv 2409.01380), after the baseline of Yeom et al. 2018.

Every candidate is put to the target as an ordinary query of the task. The score is how right the answer is:
classification 1 for the candidate's label, extraction 1 for its phrase, texts the ROUGE-L F1 with its reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from rouge_score.rouge_scorer import RougeScorer

from dpicl.attacks.base import Attack, AttackFinding, AttackSetup
from dpicl.attacks.membership import ask_and_score, cannot_answer
from dpicl.attacks.views import first_words
from dpicl.data.task import Task
from dpicl.data.task_file import CHOOSING
from dpicl.mechanism.bases import Mechanism


@dataclass(frozen=True)
class Gap(Attack):
    """words: how many first words of a candidate the query shows (None: all, as a user would ask)."""

    name = "gap"
    access = "black-box"
    source = "Wen et al. 2024, arXiv 2409.01380"
    summary = "takes what is answered rightly for a member"

    words: int | None = None

    def __post_init__(self) -> None:
        self.require_at_least(words=1)

    def skip(self, mechanism: Mechanism, task: Task) -> str | None:
        if task.kind == "json":
            return f"{task.name} asks for new texts, so no record has a right answer"
        return cannot_answer(mechanism, task)

    def run(self, setup: AttackSetup) -> AttackFinding:
        return ask_and_score(
            setup,
            view=lambda task: task,
            questions=lambda record: [first_words(record.text, self.words)],
            score=lambda candidates, answers: [
                rightness(setup.task.kind, answer, record.label)
                for record, (answer,) in zip(candidates, answers, strict=True)
            ],
        )


def rightness(kind: str, answer: str, reference: str) -> float:
    """In [0, 1]: equality for labels and phrases (the answer's first line), ROUGE-L F1 with stemming for texts."""
    if kind in CHOOSING:
        return float(answer == reference)
    line = answer.strip().split("\n")[0].rstrip()
    if kind == "extraction":
        return float(line == reference)
    return float(_rouge().score(reference, line)["rougeL"].fmeasure)


@cache
def _rouge() -> RougeScorer:
    return RougeScorer(["rougeL"], use_stemmer=True)
