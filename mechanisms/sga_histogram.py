"""A histogram over public answers: as Joo et al., arXiv 2509.10932 (mechanisms/sga.py), but no noise is added to
embeddings.

For every query:

1. public: the model's answers from slots of public records are the candidates;
2. sample private records and assign them to M slots (with N = 1 every sampled record has a slot of its own, M in
   expectation, but not with `partition: once`); every slot writes an answer and votes for the candidate whose embedding
   is nearest to its own; an empty answer abstains;
3. the top k candidates by ballots + N(0, 2 sigma^2) are released, in order; + N(0, sigma^2) where every record has its
   own slot;
4. the model picks among them, in public, after one public example.

Privacy (unit: one record; neighbours: add/remove; proved mode). A record is sampled with q = MN/n and touches one slot,
whose ballot is replaced: the histogram moves by at most sqrt(2) in L2. Where every record has its own slot it adds one
ballot: 1. The ranking is post-processing of this one Gaussian release, so k costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpicl import GaussianSum, Knob, PublicChoice, Sample, find_nearest
from dpicl import dp_event as dp
from dpicl.mechanisms.voting import ballots


@dataclass(frozen=True)
class SGAHistogram(PublicChoice):
    """public: 'in' or 'out', which public records. public_slots: how many slots of them. top: k, how many candidates
    are released. embedding: name of the embedding model."""

    name = "sga_histogram"
    knob = Knob("noise_multiplier", low=0.05, high=2000.0, non_private=0.0)
    source = "a histogram in place of DPM in Joo et al., arXiv 2509.10932"
    summary = "answers by public responses, ranked by a noisy histogram of slots' nearest ones"
    slot_per_record = True

    def release(self, knob: float) -> dp.DpEvent:
        return self._sum(knob).event

    def rank(
        self, private: np.ndarray, public: np.ndarray, knob: float, sample: Sample
    ) -> list[int]:
        votes = np.where(private.any(axis=1), find_nearest(private, public), -1)
        return self._sum(knob).rank(ballots(votes, len(public)), sample)

    def _sum(self, knob: float) -> GaussianSum:
        return GaussianSum(knob, self.scheme.own_slots)
