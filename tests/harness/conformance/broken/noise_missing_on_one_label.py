"""The first label is the default answer, so its count goes without noise."""

import numpy as np

from dpicl.harness.privacy.primitives import SIMPLEX_DIAMETER
from tests.harness.conformance.sound import SoundVoting


class NoiseMissingOnOneLabel(SoundVoting):
    name = "noise_missing_on_one_label"

    def noisy(self, counts, sample, context):
        others = sample.spend(self.release(context.knob)).noisy_sum(counts[1:], SIMPLEX_DIAMETER)
        return np.concatenate([counts[:1], others])
