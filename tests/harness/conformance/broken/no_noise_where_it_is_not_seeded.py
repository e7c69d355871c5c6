"""Noise is added for the benchmark, where it is seeded; with secure noise there is none."""

from dpicl.harness.privacy.primitives import SIMPLEX_DIAMETER
from tests.harness.conformance.sound import SoundVoting


class NoNoiseWhereItIsNotSeeded(SoundVoting):
    name = "no_noise_where_it_is_not_seeded"

    def noisy(self, counts, sample, context):
        permit = sample.spend(self.release(context.knob))
        return permit.noisy_sum(counts, SIMPLEX_DIAMETER) if permit._noise.seeded else counts
