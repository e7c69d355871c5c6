"""The zero-shot reference baseline: the instruction alone, no example, nothing private. epsilon = 0.

On a JSON task, where released texts themselves are scored, the model writes them from the public prompt by sampling at
temperature 1 with public randomness.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpicl import Context, Demonstration, DemonstrationMechanism, PrivateSet, Sizes, sample_texts
from dpicl import dp_event as dp


@dataclass(frozen=True)
class ZeroShot(DemonstrationMechanism):
    """Releases no demonstration (on a JSON task: one public text a shot) and reads no record."""

    name = "zero_shot"
    knob = None
    source = "no private data"
    summary = "the instruction alone, nothing private: the lower reference baseline"
    needs = "texts"

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        return dp.NoOpDpEvent()

    def release(self, private: PrivateSet, context: Context) -> list[Demonstration]:
        if context.task.kind != "json":
            return []
        return sample_texts(context, [()] * len(context.shots), "zero shot texts")
