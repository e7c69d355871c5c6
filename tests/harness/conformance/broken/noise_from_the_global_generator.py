"""Noise from numpy's global state: nobody can run it again, and secure noise never reaches it."""

import numpy as np

from dpicl.harness.privacy.primitives import SIMPLEX_DIAMETER
from tests.harness.conformance.sound import SoundVoting


class NoiseFromTheGlobalGenerator(SoundVoting):
    name = "noise_from_the_global_generator"

    def noisy(self, counts, sample, context):
        sample.spend(self.release(context.knob))
        return counts + np.random.normal(0.0, SIMPLEX_DIAMETER * context.knob, len(counts))
