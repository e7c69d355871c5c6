"""The counts are released twice and averaged, for less noise; one release is paid for."""

from tests.harness.conformance.sound import SoundVoting


class TwoReleasesForOneEvent(SoundVoting):
    name = "two_releases_for_one_event"

    def noisy(self, counts, context):
        return (super().noisy(counts, context) + super().noisy(counts, context)) / 2
