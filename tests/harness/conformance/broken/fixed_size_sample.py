"""Records are drawn until there are MN of them, as in the released code of Tang et al., for one Poisson sample."""

from tests.harness.conformance.sound import SoundTokens


class FixedSizeSample(SoundTokens):
    name = "fixed_size_sample"
    draws = 4

    def drawn(self, sampler, private, group):
        slots = []
        for _ in range(self.draws):
            sample = sampler.draw()
            slots += [[SimpleRecord(r.text, r.label)] for slot in sample.slots for r in slot]
        return sample, slots[: self.slots]


class SimpleRecord:
    """A copy, which stays when the sample is closed."""

    def __init__(self, text, label):
        self.text, self.label = text, label
