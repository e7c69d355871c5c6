"""The right noise, added by hand from a public stream: everybody can subtract it."""

from dpicl.harness.privacy.primitives import SIMPLEX_DIAMETER
from tests.harness.conformance.sound import SoundVoting


class NoiseOutsideTheDoors(SoundVoting):
    name = "noise_outside_the_doors"

    def noisy(self, counts, sample, context):
        sample.spend(self.release(context.knob))
        return counts + context.streams.stream("my noise").normal(0.0, SIMPLEX_DIAMETER * context.knob, len(counts))
