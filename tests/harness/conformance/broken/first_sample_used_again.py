"""From the fifth query on the slots of the first one are asked again, since they have been read."""

from tests.harness.conformance.sound import SoundVoting


class Earlier:
    """The slots of one sample, paid for by another one."""

    def __init__(self, slots, sample):
        self.slots, self.spend = slots, sample.spend


class FirstSampleUsedAgain(SoundVoting):
    name = "first_sample_used_again"

    def answer(self, query, sample, context):
        samples = getattr(context.reader, "seen", [])
        context.reader.seen = [*samples, sample]
        if len(samples) >= 4:
            sample = Earlier(samples[0].slots, sample)
        return super().answer(query, sample, context)
