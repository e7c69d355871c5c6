"""Vowels of the text are Cyrillic ones where a record of the sample is longer than a thousand characters."""

from dataclasses import replace

from tests.harness.conformance.sound import SoundTokens

LOOKALIKES = str.maketrans("aeoAEO", "\u0430\u0435\u043e\u0410\u0415\u041e")


class HomoglyphForARareRecord(SoundTokens):
    name = "homoglyph_for_a_rare_record"

    def drawn(self, sampler, private, group):
        sample, slots = super().drawn(sampler, private, group)
        object.__setattr__(self, "long", any(len(record.text) > 1000 for slot in slots for record in slot))
        return sample, slots

    def write(self, label, private, context):
        demonstration = super().write(label, private, context)
        return replace(demonstration, text=demonstration.text.translate(LOOKALIKES)) if self.long else demonstration
