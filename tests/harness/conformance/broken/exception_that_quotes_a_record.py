"""Records with an e-mail address are refused, by a sentence that shows them."""

import re

from tests.harness.conformance.sound import SoundTokens

ADDRESS = re.compile(r"[\w.]+@[\w.]+\.\w+")


class ExceptionThatQuotesARecord(SoundTokens):
    name = "exception_that_quotes_a_record"

    def drawn(self, sampler, private, group):
        sample, slots = super().drawn(sampler, private, group)
        for record in (record for slot in slots for record in slot):
            if ADDRESS.search(record.text):
                raise ValueError(f"the record {record.text!r} holds an address; remove it")
        return sample, slots
