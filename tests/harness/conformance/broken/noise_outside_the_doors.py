"""The right noise, added by hand: nobody can check its sensitivity."""

from harness.privacy.primitives import SIMPLEX_DIAMETER
from tests.harness.conformance.sound import SoundVoting


class NoiseOutsideTheDoors(SoundVoting):
    name = "noise_outside_the_doors"

    def noisy(self, counts, context):
        return counts + context.noise.gaussian(SIMPLEX_DIAMETER * context.knob, len(counts))
