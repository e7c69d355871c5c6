"""The first label is the default answer, so its count goes without noise."""

import numpy as np

from harness.privacy.doors import noisy_sum
from harness.privacy.primitives import SIMPLEX_DIAMETER
from tests.harness.conformance.sound import SoundVoting


class NoiseMissingOnOneLabel(SoundVoting):
    name = "noise_missing_on_one_label"

    def noisy(self, counts, context):
        others = noisy_sum(counts[1:], SIMPLEX_DIAMETER, context.knob, context.noise)
        return np.concatenate([counts[:1], others])
