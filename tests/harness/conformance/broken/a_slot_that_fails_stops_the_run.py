"""A check that is meant well: a slot whose answer is not finite raises, and the failure tells what a record holds."""

import numpy as np

from tests.harness.conformance.sound import SoundTokens


class ASlotThatFailsStopsTheRun(SoundTokens):
    name = "a_slot_that_fails_stops_the_run"

    def stops(self, rows, model):
        if not np.isfinite(rows).all():
            raise ValueError("the model answers with numbers that are not finite")
        return False
