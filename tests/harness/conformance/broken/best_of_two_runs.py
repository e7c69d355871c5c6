"""Both releases are paid for; the one whose label has more true ballots is kept."""

from dp_accounting import dp_event as dp

from dpicl.harness.privacy.events import gaussian
from dpicl.harness.privacy.primitives import SIMPLEX_DIAMETER
from tests.harness.conformance.sound import SoundVoting


class BestOfTwoRuns(SoundVoting):
    name = "best_of_two_runs"

    def release(self, knob):
        return dp.SelfComposedDpEvent(gaussian(knob), 2) if knob else dp.NonPrivateDpEvent()

    def winner(self, counts, sample, context):
        event = gaussian(context.knob)
        tries = [int(sample.spend(event).noisy_sum(counts, SIMPLEX_DIAMETER).argmax()) for _ in range(2)]
        return max(tries, key=lambda label: counts[label])
