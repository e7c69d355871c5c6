"""A text that an earlier slot shows is dropped from the later ones: one record more takes another one away."""

from tests.harness.conformance.sound import SoundTokens


class RecordsDeduplicatedAcrossSlots(SoundTokens):
    name = "records_deduplicated_across_slots"

    def drawn(self, sampler, private, group):
        sample, slots = super().drawn(sampler, private, group)
        seen, kept = set(), []
        for slot in slots:
            kept.append(tuple(record for record in slot if record.text not in seen))
            seen.update(record.text for record in slot)
        return sample, kept
