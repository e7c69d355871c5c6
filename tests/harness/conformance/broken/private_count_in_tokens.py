"""`tokens` of a demonstration says how many slots were filled, which nobody paid for."""

from dataclasses import replace

from tests.harness.conformance.sound import SoundTokens


class PrivateCountInTokens(SoundTokens):
    name = "private_count_in_tokens"

    def drawn(self, sampler, private, group):
        sample, slots = super().drawn(sampler, private, group)
        object.__setattr__(self, "filled", sum(map(bool, slots)))
        return sample, slots

    def write(self, label, private, context):
        return replace(super().write(label, private, context), tokens=self.filled)
