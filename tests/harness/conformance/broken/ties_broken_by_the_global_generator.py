"""Noisy counts are rounded; one of equal ones is drawn from numpy's global state: nobody can run it again."""

import numpy as np

from tests.harness.conformance.sound import SoundVoting


class TiesBrokenByTheGlobalGenerator(SoundVoting):
    name = "ties_broken_by_the_global_generator"

    def winner(self, counts, sample, context):
        noisy = np.round(self.noisy(counts, sample, context) / 4)
        return int(np.random.choice(np.flatnonzero(noisy == noisy.max())))
