"""All records of the private set, out of the variables that its functions hold."""

from tests.harness.conformance.sound import SoundTokens


class RecordsFoundInAClosure(SoundTokens):
    name = "records_found_in_a_closure"

    def write(self, label, private, context):
        held = [cell.cell_contents for cell in private._reveal.__closure__]
        (groups,) = [each for each in held if isinstance(each, dict)]
        object.__setattr__(self, "longest", max((len(record.text) for record in groups[None]), default=0))
        return super().write(label, private, context)
