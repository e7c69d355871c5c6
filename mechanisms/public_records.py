"""A control for whoever has public records of the same data set: a few of them as demonstrations, and no private one.

With such records in public hands, private ones add what more of the same adds; whether a private method beats texts
that the model writes by itself is another question (`public_demonstrations`).
"""

from __future__ import annotations

from dataclasses import dataclass

from dpicl import (
    Context,
    DataError,
    Demonstration,
    DemonstrationMechanism,
    PrivateSet,
    PublicTask,
    Sizes,
)
from dpicl import dp_event as dp


@dataclass(frozen=True)
class PublicRecords(DemonstrationMechanism):
    """Random records of the task's public part, none of them twice."""

    name = "public_records"
    knob = None
    source = "no private data"
    summary = "public records of the same data set as demonstrations"
    needs = "texts"

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        return dp.NoOpDpEvent()

    def skip(self, task: PublicTask) -> str | None:
        if task.kind != "generation":
            return "only generation tasks have public records"
        return (
            None
            if task.has_public_part
            else "the task has no public records; add a public part to its task.yaml"
        )

    def release(self, private: PrivateSet, context: Context) -> list[Demonstration]:
        public, shots = context.task.public, len(context.shots)
        if len(public) < shots:
            raise DataError(
                f"{context.task.name} has {len(public)} public records and {shots} are to be shown; lower shots."
            )
        chosen = context.streams.stream("public demonstrations").choice(
            len(public), size=shots, replace=False
        )
        return [
            Demonstration(record.text, record.label, tokens=len(context.model.encode(record.text)))
            for record in (public[i] for i in chosen)
        ]
