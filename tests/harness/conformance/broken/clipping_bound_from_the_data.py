"""Rows are clipped to the median of their own norms, and the sensitivity is stated to be that."""

import numpy as np

from dpicl.harness.privacy.events import gaussian
from dpicl.harness.privacy.primitives import clip_norm
from tests.harness.conformance.sound import SoundTokens


class ClippingBoundFromTheData(SoundTokens):
    name = "clipping_bound_from_the_data"

    def noisy(self, rows, sample, knob):
        bound = max(float(np.median(np.linalg.norm(np.nan_to_num(rows), axis=1))), 1e-3)
        return sample.spend(gaussian(knob)).noisy_sum(clip_norm(rows, bound).sum(axis=0), 2 * bound)
