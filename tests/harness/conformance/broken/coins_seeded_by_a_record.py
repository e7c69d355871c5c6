"""Ties among equal noisy values are broken by coins whose seed is the text of a record."""

import zlib

import numpy as np

from tests.harness.conformance.sound import SoundVoting


class CoinsSeededByARecord(SoundVoting):
    name = "coins_seeded_by_a_record"

    def winner(self, counts, sample, context):
        noisy = np.round(self.noisy(counts, sample, context))
        texts = "".join(record.text for slot in sample.slots for record in slot)
        coins = np.random.default_rng(zlib.crc32(texts.encode("utf-8", "replace")))
        return int(coins.choice(np.flatnonzero(noisy == noisy.max())))
