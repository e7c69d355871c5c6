"""MN records without replacement, as in the released code of Tang et al., accounted as a Poisson sample."""

import numpy as np

from tests.harness.conformance.sound import SoundTokens


class FixedSizeSample(SoundTokens):
    name = "fixed_size_sample"

    def drawn(self, sampler, private, group):
        records = [record for record in private._records if group is None or record.label == group]
        order = np.argsort(private._coins.uniform(len(records)))[: self.slots]
        return sampler.draw(), [(records[i],) for i in order]
