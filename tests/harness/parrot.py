"""A small answer mechanism for tests of the harness: every slot votes for the label of its first record."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpicl.mechanism.bases import AnswerContext, AnswerMechanism, FinalPrompt, Knob, Query
from dpicl.privacy.primitives import GaussianSum
from dpicl.privacy.private_set import Sample


@dataclass(frozen=True)
class Parrot(AnswerMechanism):
    """asks_model: the answer is written by the model from the label that won."""

    name = "parrot"
    knob: ClassVar[Knob | None] = Knob("noise_multiplier", low=0.05, high=2000.0, non_private=0.0)
    asks_model: bool = False
    query_ids: ClassVar[list[str]] = []

    def release(self, knob):
        return GaussianSum(knob).event

    def answer(self, query: Query, sample: Sample, context: AnswerContext):
        self.query_ids.append(query.id)
        labels = context.task.labels
        rows = np.zeros((len(sample.slots), len(labels)))
        for row, slot in zip(rows, sample.slots, strict=True):
            if slot:
                row[labels.index(slot[0].label)] = 1.0
        won = labels[GaussianSum(context.knob).choose(rows, sample)]
        return FinalPrompt(f"{won} {query.text}") if self.asks_model else won
