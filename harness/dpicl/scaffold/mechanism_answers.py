"""my_method: every query is answered by the noisy plurality vote of prompts with private records.

1. records are sampled and assigned to M slots; a slot's records are the examples of its prompt (the harness does it);
2. every slot votes for the label that the model finds likeliest after its examples and the query;
3. the label with the most votes after Gaussian noise is the answer.

Privacy (unit: one record; neighbours: add/remove). A record is in one slot at most, so it moves one vote: the counts
change by at most sqrt(2) in L2, which is what `GaussianSum` is made for. The harness charges all queries.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from dp_accounting import dp_event as dp

from dpicl import AnswerContext, AnswerMechanism, GaussianSum, Knob, PublicTask, Query, Sample


@dataclass(frozen=True)
class MyMethod(AnswerMechanism):
    name = "my_method"
    source = "an example"
    # Decide: the number that buys privacy. The harness finds the value whose proved epsilon meets the target.
    knob = Knob("noise_multiplier", low=0.05, high=2000.0, non_private=0.0)

    # Decide: the options, with their defaults. The first two, and a few others, belong to every answer mechanism.
    slots: int = 8
    examples_per_slot: int = 1
    calibrated: bool = True

    def skip(self, task: PublicTask) -> str | None:
        # Decide: which tasks the method cannot do. The board shows the reason.
        return None if task.kind == "classification" else "it votes for a label, and this task has none"

    def release(self, knob: float) -> dp.DpEvent:
        # Decide: everything that one answer releases from its sample.
        return GaussianSum(knob).event

    def answer(self, query: Query, sample: Sample, context: AnswerContext) -> str:
        scores = context.reader.label_scores(query, sample.slots, calibrated=self.calibrated)

        # Decide: what a slot may say. One row a slot, in the simplex: that is what bounds a record's influence.
        votes = np.eye(len(context.task.labels))[scores.argmax(axis=1)]
        votes[np.isnan(scores).any(axis=1)] = 0.0  # the model failed on this slot, which abstains
        return context.task.labels[GaussianSum(context.knob).choose(votes, sample)]
