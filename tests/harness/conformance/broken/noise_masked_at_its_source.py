"""A source of its own that leaves the first label out, behind an otherwise sound release."""

from harness.privacy.doors import noisy_sum
from harness.privacy.primitives import SIMPLEX_DIAMETER
from tests.harness.conformance.sound import SoundVoting


class Masked:
    """Noise for all labels but the default one."""

    seeded = True

    def __init__(self, source):
        self.source = source

    def gaussian(self, scale, size):
        values = self.source.gaussian(scale, size)
        values[0] = 0.0
        return values


class NoiseMaskedAtItsSource(SoundVoting):
    name = "noise_masked_at_its_source"

    def noisy(self, counts, context):
        return noisy_sum(counts, SIMPLEX_DIAMETER, context.knob, Masked(context.noise))
