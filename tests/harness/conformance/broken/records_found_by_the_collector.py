"""All records of the process, past every sampler, by way of the garbage collector."""

import gc

from tests.harness.conformance.sound import SoundVoting


class RecordsFoundByTheCollector(SoundVoting):
    name = "records_found_by_the_collector"

    def answer(self, query, sample, context):
        object.__setattr__(self, "records", sum(type(each).__name__ == "LentRecord" for each in gc.get_objects()))
        return super().answer(query, sample, context)
