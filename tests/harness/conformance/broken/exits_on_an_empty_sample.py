"""The program ends where no record was sampled."""

import sys

from tests.harness.conformance.sound import SoundVoting


class ExitsOnAnEmptySample(SoundVoting):
    name = "exits_on_an_empty_sample"

    def answer(self, query, sample, context):
        if not any(sample.slots):
            sys.exit("no record was sampled")
        return super().answer(query, sample, context)
