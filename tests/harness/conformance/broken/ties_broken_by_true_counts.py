"""Noisy counts are rounded to whole ballots; of equal ones the label with more true ballots wins."""

import numpy as np

from tests.harness.conformance.sound import SoundVoting


class TiesBrokenByTrueCounts(SoundVoting):
    name = "ties_broken_by_true_counts"

    def winner(self, counts, sample, context):
        noisy = np.round(self.noisy(counts, sample, context))
        best = np.flatnonzero(noisy == noisy.max())
        return int(best[np.argmax(counts[best])])
