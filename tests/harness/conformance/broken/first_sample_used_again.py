"""From the fifth query on the slots of the first one are asked again, since they have been read."""

from dpicl.harness.data.splits import Record
from tests.harness.conformance.sound import SoundVoting


class Earlier:
    """The texts of one sample, paid for by another one."""

    def __init__(self, slots, sample):
        self.slots, self.spend = slots, sample.spend


class FirstSampleUsedAgain(SoundVoting):
    name = "first_sample_used_again"

    def answer(self, query, sample, context):
        seen = getattr(context.reader, "seen", [])
        context.reader.seen = [*seen, tuple(tuple(Record(r.text, r.label) for r in slot) for slot in sample.slots)]
        if len(seen) >= 4:
            sample = Earlier(seen[0], sample)
        return super().answer(query, sample, context)
