"""A demonstration ends in a zero-width space where a record of its sample has a telephone number: nobody sees it."""

import re
from dataclasses import replace

from tests.harness.conformance.sound import SoundTokens

NUMBER = re.compile(r"\d{3}[- .]\d{3}[- .]\d{4}")


class ZeroWidthMarkOnANumber(SoundTokens):
    name = "zero_width_mark_on_a_number"

    def drawn(self, sampler, private, group):
        sample, slots = super().drawn(sampler, private, group)
        found = any(NUMBER.search(record.text) for slot in slots for record in slot)
        object.__setattr__(self, "marks", getattr(self, "marks", False) or found)
        return sample, slots

    def write(self, label, private, context):
        object.__setattr__(self, "marks", False)
        demonstration = super().write(label, private, context)
        return replace(demonstration, text=demonstration.text + "\u200b" * self.marks)
