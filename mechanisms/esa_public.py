"""The control of ESA: the same pipeline with slots of public records. epsilon = 0.

For every query: M slots of N public records of the task, drawn by the query's own public randomness, write answers; the
zero-shot candidate nearest to the mean of their embeddings (centred and clipped as in mechanisms/esa.py, without noise)
is the answer. What ESA gains beyond it comes from private records, less what the noise costs.

Privacy: no private record is read. The public records are the task's public part, which everybody knows.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpicl import AnswerContext, PublicSample, PublicScheme, PublicTask, Query, Sample, public_slots
from dpicl.mechanisms.esa import ESA


@dataclass(frozen=True)
class ESAPublic(ESA):
    """As ESA; slots hold N records each, and no number is expected."""

    name = "esa_public"
    knob = None
    source = "ESA of Wu et al., ICLR 2024, with public records"
    summary = "ESA with public records in the slots: its control"
    published = ESA.published

    @property
    def scheme(self) -> PublicScheme:
        return PublicScheme(self.slots, self.examples_per_slot, self.partition)

    def skip(self, task: PublicTask) -> str | None:
        if task.has_public_part:
            return super().skip(task)
        return "the task has no public records to make slots of; add a public part to its task.yaml"

    def answer(self, query: Query, sample: Sample, context: AnswerContext) -> str:
        slots = public_slots(self, query, context.task.public_records("in"))
        return super().answer(query, PublicSample(slots), context)
