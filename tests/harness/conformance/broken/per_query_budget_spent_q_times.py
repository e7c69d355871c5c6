"""Epsilon is 'per query': the events are those of one answer, whatever the number of queries."""

from tests.harness.conformance.sound import SoundVoting


class PerQueryBudgetSpentQTimes(SoundVoting):
    name = "per_query_budget_spent_q_times"

    def events(self, knob, sizes):
        return self.dealing.event(self.release(knob), sizes.records[None], queries=1)
