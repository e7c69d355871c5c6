"""The vocabulary is what the private prompts find likely, for better coverage; its noise is the same as ever."""

import numpy as np

from tests.harness.conformance.sound import SoundTokens


class DataDependentVocabulary(SoundTokens):
    name = "data_dependent_vocabulary"

    def vocabulary(self, public, rows):
        return np.argsort(-np.nan_to_num(rows).mean(axis=0), kind="stable")[: self.top_k]
