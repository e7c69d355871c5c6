"""The control that only says what is public already: each demonstration's text is its label or keyword alone.

Where the keyword comes from a public list (directors on MIT-D), a released text that repeats it can raise a score
without a word from the records. A method is worth its epsilon there only if it is better than this.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpicl import Context, Demonstration, DemonstrationMechanism, PrivateSet, PublicTask, Sizes
from dpicl import dp_event as dp


@dataclass(frozen=True)
class RepeatedLabel(DemonstrationMechanism):
    """Shows the label of each shot as its own text, and reads no record."""

    name = "repeated_label"
    knob = None
    source = "no private data"
    summary = "each label or public keyword as its own text: what a text that repeats it is worth"
    needs = "texts"

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        return dp.NoOpDpEvent()

    def skip(self, task: PublicTask) -> str | None:
        return (
            None
            if task.kind in ("classification", "extraction")
            else "its demonstrations have no label to repeat"
        )

    def release(self, private: PrivateSet, context: Context) -> list[Demonstration]:
        return [
            Demonstration(label, label, tokens=len(context.model.encode(label)))
            for label in context.shots
        ]
