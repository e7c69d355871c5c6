"""The check `sampling` on records that join queries: more uses than were charged, and a slot that changes, are seen."""

import pytest

from dpicl.conformance.checks.sampling import _joined
from dpicl.conformance.transcript import Drawn, Spend, Transcript


def run_of(*samples, uses=2):
    """A run whose every sample was spent. samples: (members, their slots)."""
    drawn = [Drawn(None, members, slots, 9, 1.0, 3, uses) for members, slots in samples]
    return Transcript(samples=drawn, spends=[Spend(number, None, None) for number in range(len(drawn))])


@pytest.mark.parametrize(
    ("samples", "status"),
    [
        ([((0, 1), (2, 0)), ((0,), (2,)), ((), ())], "passed"),
        ([((0, 1), (2, 0)), ((0,), (2,)), ((0,), (2,))], "failed"),
        ([((0, 1), (2, 0)), ((0,), (1,))], "failed"),
        ([((0,), ()), ((1,), ())], "passed"),
    ],
)
def test_uses_and_slots_are_counted(samples, status):
    assert _joined([run_of(*samples)]).status == status
