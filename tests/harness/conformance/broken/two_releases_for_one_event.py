"""The counts are released twice and averaged, for less noise; one release is paid for."""

from tests.harness.conformance.sound import SoundVoting


class TwoReleasesForOneEvent(SoundVoting):
    name = "two_releases_for_one_event"

    def noisy(self, counts, sample, context):
        return (super().noisy(counts, sample, context) + super().noisy(counts, sample, context)) / 2
