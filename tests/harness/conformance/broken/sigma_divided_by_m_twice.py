"""The sensitivity of the mean over M slots has a factor 1/M already; the multiplier gets another one."""

from harness.privacy.doors import noisy_sum
from harness.privacy.primitives import SIMPLEX_DIAMETER
from tests.harness.conformance.sound import SoundVoting


class SigmaDividedByMTwice(SoundVoting):
    name = "sigma_divided_by_m_twice"

    def noisy(self, counts, context):
        return noisy_sum(counts / self.slots, SIMPLEX_DIAMETER / self.slots, context.knob / self.slots, context.noise)
