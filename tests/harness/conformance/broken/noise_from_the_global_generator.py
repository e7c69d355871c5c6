"""Noise from numpy's global state: nobody can run it again, and secure noise never reaches it."""

import numpy as np

from harness.privacy.doors import noisy_sum
from harness.privacy.primitives import SIMPLEX_DIAMETER
from tests.harness.conformance.sound import SoundVoting


class Global:
    seeded = True

    def gaussian(self, scale, size):
        return np.random.normal(0.0, scale, size)


class NoiseFromTheGlobalGenerator(SoundVoting):
    name = "noise_from_the_global_generator"

    def noisy(self, counts, context):
        return noisy_sum(counts, SIMPLEX_DIAMETER, context.knob, Global())
