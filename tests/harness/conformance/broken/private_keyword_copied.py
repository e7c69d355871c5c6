"""The demonstration gets the keyword of a record whose text it resembles, as in the released code of Tang et al."""

from tests.harness.conformance.sound import SoundTokens


class PrivateKeywordCopied(SoundTokens):
    name = "private_keyword_copied"

    def label(self, label, sample):
        return next((record.label for slot in sample.slots for record in slot), label)
