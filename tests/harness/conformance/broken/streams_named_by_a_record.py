"""Public randomness under a private name: the order of the demonstrations is a function of the records."""

from tests.harness.conformance.sound import SoundTokens


class StreamsNamedByARecord(SoundTokens):
    name = "streams_named_by_a_record"

    def drawn(self, sampler, private, group):
        sample, slots = super().drawn(sampler, private, group)
        object.__setattr__(self, "key", str(sum(len(record.text) for slot in slots for record in slot)))
        return sample, slots

    def write(self, label, private, context):
        demonstration = super().write(label, private, context)
        quoted = context.streams.stream(self.key).random() < 0.5
        return type(demonstration)(f'"{demonstration.text}"' if quoted else demonstration.text, label)
