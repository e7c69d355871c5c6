"""The sensitivity of the mean over M slots has a factor 1/M; it is divided by M once more."""

from dpicl.harness.privacy.primitives import SIMPLEX_DIAMETER
from tests.harness.conformance.sound import SoundVoting


class SigmaDividedByMTwice(SoundVoting):
    name = "sigma_divided_by_m_twice"

    def noisy(self, counts, sample, context):
        permit = sample.spend(self.release(context.knob))
        return permit.noisy_sum(counts / self.slots, SIMPLEX_DIAMETER / self.slots**2)
