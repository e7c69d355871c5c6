"""A histogram over public answers: as Joo et al., arXiv 2509.10932 (mechanisms/sga.py), without noise in the space of
embeddings.

For every query:

1. public: the model's answers from slots of public records are the candidates;
2. sample private records and sample them into M slots; every slot writes an answer and votes for the candidate whose
   embedding is nearest to its own; an empty answer abstains;
3. the top k candidates by ballots + N(0, 2 sigma^2) are released, in order;
4. the model picks among them, in public, after one public example.

Privacy (unit: one record; neighbours: add/remove; proved mode). A record is sampled with q = MN/n and touches one slot,
whose ballot is replaced: the histogram moves by at most sqrt(2) in L2. The ranking is post-processing of this one
Gaussian release, so k costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from dp_accounting import dp_event as dp

from dpicl.harness.core.errors import unknown
from dpicl.harness.mechanism.bases import AnswerContext, AnswerMechanism, FinalPrompt, Knob, Query
from dpicl.harness.mechanism.generation import check_positive
from dpicl.harness.models.embeddings import check_name
from dpicl.harness.privacy.primitives import GaussianSum
from dpicl.harness.privacy.private_set import Sample
from dpicl.mechanisms._public_candidates import KINDS, choosing, nearest, no_text, public_candidates

if TYPE_CHECKING:
    from dpicl.harness.data.task import PublicTask


@dataclass(frozen=True)
class SGAHistogram(AnswerMechanism):
    """public: 'in' or 'out', which public records. public_slots: how many slots of them. top: k, how many candidates
    are released. embedding: name of the embedding model."""

    name = "sga_histogram"
    knob = Knob("noise_multiplier", low=0.05, high=2000.0, non_private=0.0)
    source = "a histogram in place of DPM in Joo et al., arXiv 2509.10932"

    public: str = "in"
    public_slots: int = 20
    top: int = 3
    embedding: str = "embedded"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name(self.embedding)
        check_positive(public_slots=self.public_slots, top=self.top)
        if self.public not in KINDS:
            raise unknown("kind of public records", self.public, KINDS)

    def skip(self, task: PublicTask) -> str | None:
        return no_text(task, self.public)

    def release(self, knob: float) -> dp.DpEvent:
        return GaussianSum(knob).event

    def answer(self, query: Query, sample: Sample, context: AnswerContext) -> str | FinalPrompt:
        public = public_candidates(
            query,
            context,
            kind=self.public,
            slots=self.public_slots,
            examples=self.examples_per_slot,
            same_slots=self.scheme.single,
            embedding=self.embedding,
        )
        if not public.texts:
            return ""
        private = context.reader.embed(context.reader.texts(query, sample.slots), self.embedding)
        votes = np.where(private.any(axis=1), nearest(private, public.rows), -1)
        ballots = (votes[:, None] == np.arange(len(public.texts))).astype(np.float64)
        ranked = GaussianSum(context.knob).rank(ballots, sample)
        return choosing(context.task, query, [public.texts[at] for at in ranked[: self.top]], self.public)
