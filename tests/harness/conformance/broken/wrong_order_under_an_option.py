"""With `sharpen`, which is off by default, rows are normalised after they were averaged."""

from dataclasses import dataclass

from dpicl.harness.privacy.events import gaussian
from dpicl.harness.privacy.primitives import SIMPLEX_DIAMETER, project_sub_simplex
from tests.harness.conformance.sound import SoundTokens


@dataclass(frozen=True)
class WrongOrderUnderAnOption(SoundTokens):
    name = "wrong_order_under_an_option"
    sharpen: bool = False

    def noisy(self, rows, sample, knob):
        if not self.sharpen:
            return super().noisy(rows, sample, knob)
        mean = project_sub_simplex(rows).mean(axis=0)
        return sample.spend(gaussian(knob)).noisy_sum(mean / max(mean.sum(), 1e-12), SIMPLEX_DIAMETER / self.slots)
