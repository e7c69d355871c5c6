"""A mechanism whose noise is smaller than what it pays for, which audits must refute."""

import math
from dataclasses import dataclass

import numpy as np

from dpicl.privacy.primitives import GaussianSum
from tests.harness.parrot import Parrot


@dataclass(frozen=True)
class Understating(Parrot):
    """States a part, 1/divisor, of what a record moves. An empty slot votes for the last label."""

    name = "understating"
    divisor: float = 2.0

    def answer(self, query, sample, context):
        labels = context.task.labels
        votes = np.zeros(len(labels))
        for slot in sample.slots:
            votes[labels.index(slot[0].label) if slot else -1] += 1
        permit = sample.spend(GaussianSum(context.knob).event)
        return labels[int(np.argmax(permit.noisy_sum(votes, math.sqrt(2) / self.divisor)))]
