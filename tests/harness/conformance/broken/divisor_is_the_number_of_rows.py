"""The mean over the slots that have records, and not over M: with few of them one record moves it far."""

from dpicl.harness.privacy.events import gaussian
from dpicl.harness.privacy.primitives import SIMPLEX_DIAMETER, project_sub_simplex
from tests.harness.conformance.sound import SoundTokens


class DivisorIsTheNumberOfRows(SoundTokens):
    name = "divisor_is_the_number_of_rows"

    def drawn(self, sampler, private, group):
        sample = sampler.draw()
        return sample, [slot for slot in sample.slots if slot] or [()]

    def noisy(self, rows, sample, knob):
        mean = project_sub_simplex(rows).mean(axis=0)
        return sample.spend(gaussian(knob)).noisy_sum(mean, SIMPLEX_DIAMETER / self.slots)
