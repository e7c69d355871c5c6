"""One record changes one ballot, so the sensitivity is taken to be 1; but one count falls and another one rises."""

from tests.harness.conformance.sound import SoundVoting


class SensitivityOneForRootTwo(SoundVoting):
    name = "sensitivity_one_for_root_two"

    def noisy(self, counts, sample, context):
        return sample.spend(self.release(context.knob)).noisy_sum(counts, 1.0)
