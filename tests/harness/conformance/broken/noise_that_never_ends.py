"""At epsilon = infinity some noise stays, so the row is not the method without privacy."""

from dpicl.harness.mechanism.bases import Knob
from tests.harness.conformance.sound import SoundVoting


class NoiseThatNeverEnds(SoundVoting):
    name = "noise_that_never_ends"
    knob = Knob("noise_multiplier", low=0.05, high=2000.0, non_private=0.05)
