"""my_method: every query is answered by the noisy plurality vote of prompts with private records.

A slot's records are the examples of its prompt, and a record is in one slot at most, so it moves one vote: the counts
change by at most sqrt(2) in L2, which is what `GaussianSum` is made for. The harness samples, and charges all queries.
"""

import numpy as np

from dpicl import AnswerContext, AnswerMechanism, GaussianSum, Knob, PublicTask, Query, Sample
from dpicl import dp_event as dp


class MyMethod(AnswerMechanism):
    name = "my_method"
    source = "an example"
    knob = Knob(
        "noise_multiplier", low=0.05, high=2000.0, non_private=0.0
    )  # Decide: the number that buys privacy.

    def skip(
        self, task: PublicTask
    ) -> str | None:  # Decide: why it cannot do a task, if it cannot.
        return None if task.kind == "classification" else "it answers classification tasks alone"

    def release(
        self, knob: float
    ) -> dp.DpEvent:  # Decide: everything that one answer releases from its sample.
        return GaussianSum(knob).event

    def answer(self, query: Query, sample: Sample, context: AnswerContext) -> str:
        scores = context.reader.label_scores(query, sample.slots, calibrated=True)
        # Decide: what a slot may say. One row a slot, in the simplex: that is what bounds a record's influence.
        votes = np.eye(len(context.task.labels))[scores.argmax(axis=1)]
        votes[np.isnan(scores).any(axis=1)] = 0.0  # the model failed on this slot, which abstains
        return context.task.labels[GaussianSum(context.knob).choose(votes, sample)]
