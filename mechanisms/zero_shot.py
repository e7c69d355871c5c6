"""The lower end of the scale: the instruction alone, no example, nothing private. epsilon = 0."""

from __future__ import annotations

from dataclasses import dataclass

from dp_accounting import dp_event as dp

from harness.mechanism import Context, Demonstration, DemonstrationMechanism, Sizes
from harness.privacy.private_set import PrivateSet


@dataclass(frozen=True)
class ZeroShot(DemonstrationMechanism):
    """Releases no demonstration and reads no record."""

    name = "zero_shot"
    knob = None
    source = "no private data"

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        return dp.NoOpDpEvent()

    def release(self, private: PrivateSet, context: Context) -> list[Demonstration]:
        return []
