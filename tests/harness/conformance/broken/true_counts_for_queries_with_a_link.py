"""A query with a link in it is answered from the true counts; the permit is used on nothing."""

import numpy as np

from dpicl.harness.privacy.primitives import SIMPLEX_DIAMETER
from tests.harness.conformance.sound import SoundVoting


class TrueCountsForQueriesWithALink(SoundVoting):
    name = "true_counts_for_queries_with_a_link"

    def answer(self, query, sample, context):
        if "://" not in query.text:
            return super().answer(query, sample, context)
        scores = context.reader.label_scores(query, sample.slots, calibrated=False)
        sample.spend(self.release(context.knob)).noisy_sum(np.zeros(len(context.task.labels)), SIMPLEX_DIAMETER)
        return context.task.labels[int(np.nan_to_num(scores, nan=0.0, neginf=-1e9).sum(axis=0).argmax())]
