"""PTA, eq. 2: average over slots first, then normalise over V_pub. If most slots say little on V_pub, one says all."""

from dpicl.harness.privacy.events import gaussian
from dpicl.harness.privacy.primitives import SIMPLEX_DIAMETER, project_sub_simplex
from tests.harness.conformance.sound import SoundTokens


class NormalisingAfterAveraging(SoundTokens):
    name = "normalising_after_averaging"

    def noisy(self, rows, sample, knob):
        mean = project_sub_simplex(rows).mean(axis=0)
        mean = mean / max(mean.sum(), 1e-12)
        return sample.spend(gaussian(knob)).noisy_sum(mean, SIMPLEX_DIAMETER / self.slots)
