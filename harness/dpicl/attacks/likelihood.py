"""Likelihood: how probable the right label of a text is after the released demonstrations. Duan et al. 2023, "On the
privacy risk of in-context learning" (TrustNLP); PRISM's protocol (Bhusal et al. 2025, section 5: one shot, 50 members
and 50 others, 100 trials, 5 releases).

The score of a candidate is the log-probability of its label after what was released. Members stand out when the release
holds them, or reveals much about them. The probability is the model's own: among the labels alone (``normalised``) a
shown record can look less likely than another one of its label, since small models copy its line and ignore the others.

* A mechanism with noise, and zero-shot: ``generations`` releases, each from a private set of its own (other
  records, other randomness); all candidates of each are scored.
* Real demonstrations (no noise, epsilon = infinity): each released text is a record itself. In each of ``trials``
  trials one member is the whole private set, so that it is the demonstration (with more shots: some members are), and
  is scored beside one other of its label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import log_softmax

from dpicl.attacks.base import Attack, AttackFinding, AttackSetup
from dpicl.attacks.membership import explain_no_answer, membership_finding
from dpicl.attacks.targets import Target
from dpicl.attacks.views import first_words
from dpicl.data.task import Record, Task
from dpicl.mechanism.bases import Mechanism


@dataclass(frozen=True)
class Likelihood(Attack):
    """generations: releases of a mechanism with noise. trials: of one that shows records. words: how many first words
    of a candidate the query shows (None: all). normalised: take the probability among the labels alone."""

    name = "likelihood"
    source = "Duan et al. 2023, TrustNLP"
    summary = "compares the probability of the right label after the released demonstrations"
    shots = 1

    generations: int = 5
    trials: int = 100
    words: int | None = 60
    normalised: bool = False

    def __post_init__(self) -> None:
        self.require_at_least(generations=1, trials=4, words=1)

    def skip(self, mechanism: Mechanism, task: Task) -> str | None:
        reason = explain_no_answer(
            mechanism, task, answers="it releases answers, and no probability of a label"
        )
        return reason or (None if task.chooses else f"answers on {task.name} are not labels")

    def run(self, setup: AttackSetup) -> AttackFinding:
        return membership_finding(
            setup, self.log_likelihoods, releases=self.generations, shown=self.trials
        )

    def log_likelihoods(self, target: Target, candidates: Sequence[Record]) -> list[float]:
        """Natural logarithm of the probability of each candidate's label (all its tokens)."""
        rows = target.label_log_probs(
            lambda task: task, [first_words(record.text, self.words) for record in candidates]
        )
        if self.normalised:
            rows = log_softmax(rows, axis=1)
        labels = target.task.labels
        return [
            float(row[labels.index(record.label)])
            for row, record in zip(rows, candidates, strict=True)
        ]
