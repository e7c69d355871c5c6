"""An answer ends in a blank where a record of the sample speaks of a fracture."""

from tests.harness.conformance.sound import SoundVoting


class BlankBehindTheAnswer(SoundVoting):
    name = "blank_behind_the_answer"

    def answer(self, query, sample, context):
        said = super().answer(query, sample, context)
        return said + " " * any("fracture" in record.text for slot in sample.slots for record in slot)
