"""The control of SGA: the same pipeline with slots of public records in the place of the private ones. epsilon = 0.

For every query: answers from some slots of public records are the candidates, as in mechanisms/sga.py; the tree that
groups them sees the answers of M other slots of public records, and has no noise. What SGA gains beyond it comes from
private records, less what the noise costs.

Privacy: no private record is read.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpicl import (
    AnswerContext,
    FinalPrompt,
    PublicSample,
    PublicScheme,
    Query,
    Sample,
    public_slots,
)
from dpicl.mechanisms.sga import SGA


@dataclass(frozen=True)
class SGAPublic(SGA):
    """As SGA; ``public`` says which public records are in all slots."""

    name = "sga_public"
    knob = None
    source = "SGA of Joo et al., arXiv 2509.10932, with public records"
    summary = "SGA with public records in the slots: its control"
    published = SGA.published

    @property
    def scheme(self) -> PublicScheme:
        return PublicScheme(self.slots, self.examples_per_slot, self.partition)

    def answer(self, query: Query, sample: Sample, context: AnswerContext) -> str | FinalPrompt:
        slots = public_slots(self, query, context.task.public_records(self.public))
        return super().answer(query, PublicSample(slots), context)
