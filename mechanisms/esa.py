"""Embedding space aggregation: Wu et al., "Privacy-Preserving In-Context Learning for Large Language Models", ICLR 2024
(arXiv 2305.01639).

For every query:

1. public: zero-shot answers to the query are the candidates; the mean of their embeddings is the centre;
2. sample records and assign them to M slots (with N = 1 every sampled record has a slot of its own, M in expectation,
   but not with `partition: once`); every slot writes an answer, which is embedded (length 1);
3. embeddings are centred, clipped to radius r and summed over slots; + N(0, (2 r sigma)^2) on every coordinate, or
   + N(0, (r sigma)^2) where every record has its own slot;
4. the answer is the candidate nearest to centre + noisy sum / M.

Privacy (unit: one record; neighbours: add/remove; proved mode). A record is sampled with q = MN/n and touches one slot,
whose vector is replaced by another one in the ball of radius r: the sum moves by at most 2r in L2. Where every record
has its own slot it adds one vector: r. An answer is one Gaussian release. An empty text counts as the centre. Unlike
the released code, which takes the sensitivity of the sum to be 1 although the slot's embedding is replaced and not
removed (2 for vectors of length 1: what it calls epsilon = 1 costs up to 5.32), does not centre, and samples a fixed
number of records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dpicl import (
    AnswerContext,
    AnswerMechanism,
    Knob,
    NearestToMean,
    PublicTask,
    Query,
    Sample,
    Sizes,
    UsageError,
    check_embedding_name,
    check_positive,
)
from dpicl import dp_event as dp


@dataclass(frozen=True)
class ESA(AnswerMechanism):
    """radius: r, in the space of embeddings of length 1. candidates: how many zero-shot answers; the first is greedy,
    the others are drawn at ``temperature``. embedding: name of the embedding model."""

    name = "esa"
    knob: ClassVar[Knob | None] = Knob("noise_multiplier", low=0.05, high=2000.0, non_private=0.0)
    source = "Wu et al., ICLR 2024, arXiv 2305.01639"
    summary = "answers by the public candidate nearest to a noisy mean of slots' embeddings"
    needs = "texts"
    published = {"samsum": {"slots": 100, "examples_per_slot": 4, "candidates": 100}}

    radius: float = 0.5
    candidates: int = 20
    temperature: float = 0.7
    embedding: str = "embedded"

    slot_per_record = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_embedding_name(self.embedding)
        check_positive(radius=self.radius, temperature=self.temperature)
        if self.candidates < 2:
            raise UsageError(
                f"Option candidates must be at least 2, not {self.candidates}: one leaves nothing to choose."
            )
        self.require_at_most(candidates=10_000)

    def skip(self, task: PublicTask) -> str | None:
        if task.kind == "generation":
            return None
        return "it aggregates texts; where the answers are few and public, voting is the same with less noise"

    def release(self, knob: float) -> dp.DpEvent:
        return self._nearest_to_mean(knob).event

    def paper_epsilon(self, knob: float, sizes: Sizes, delta: float) -> float:
        """The PRV accountant's estimate for Poisson sampling at sensitivity 1 on the sum, as the authors' notebook."""

        from dpicl import epsilon  # loads dp_accounting and prv_accountant

        claimed = self._nearest_to_mean(knob).bound * knob
        if claimed == 0:
            return math.inf
        event = self.scheme.event(
            dp.GaussianDpEvent(claimed), sizes.records[None], sizes.queries or 1
        )
        return epsilon(event, delta).estimate

    def answer(self, query: Query, sample: Sample, context: AnswerContext) -> str:
        reader = context.reader
        candidates = [
            text for text in reader.candidates(query, self.candidates, self.temperature) if text
        ]
        if not candidates:
            return ""
        public = reader.embed(candidates, self.embedding)
        centre = public.mean(axis=0)

        private = reader.embed(reader.texts(query, sample.slots), self.embedding)
        private[~private.any(axis=1)] = centre
        chosen = self._nearest_to_mean(context.knob).choose(private, centre, public, sample)
        return candidates[chosen]

    def _nearest_to_mean(self, knob: float) -> NearestToMean:
        return NearestToMean(knob, self.radius, divisor=self.slots, own_slots=self.scheme.own_slots)
