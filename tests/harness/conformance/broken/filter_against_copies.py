"""A released text that copies a record is emptied, 'for privacy': whether it is empty tells who is there."""

from dataclasses import replace

from tests.harness.conformance.sound import SoundTokens


class FilterAgainstCopies(SoundTokens):
    name = "filter_against_copies"

    def drawn(self, sampler, private, group):
        sample, slots = super().drawn(sampler, private, group)
        object.__setattr__(self, "shown", {record.text for slot in slots for record in slot})
        return sample, slots

    def write(self, label, private, context):
        demonstration = super().write(label, private, context)
        return replace(demonstration, text="") if demonstration.text in self.shown else demonstration
