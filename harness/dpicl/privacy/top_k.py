"""Noisy top-k of counts over a public list: Gumbel noise, so k draws of the exponential mechanism."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from dpicl.accounting import dp_event as dp
from dpicl.accounting.events import bounded_range_choice
from dpicl.privacy.primitives import RangeChoice, check_slots, finite_rows
from dpicl.privacy.private_set import Sample

#: Audit event (PEP 578) of rows with values above 1, with the primitive's name: the conformance kit says so.
ROWS_CUT = "dpicl.rows_cut"


@dataclass(frozen=True)
class NoisyTopK(RangeChoice):
    """The ``count`` words with the largest noisy counts, in order.

    Rows hold 0 or 1 for each of K public words. One record replaces one slot's row: every count moves by at most 1,
    some up and others down, so the range of the move is at most 2. With ``own_slots`` it adds one row: every count
    rises by 0 or 1, and the range is at most 1. Adding ``temperature`` times Gumbel noise to every count and taking the
    k largest in order is the same as drawing k times, without replacement, from softmax(count / temperature) (Durfee &
    Rogers 2019): k bounded-range choices of epsilon' = range / temperature. All k are charged, also where the list is
    shorter.
    """

    count: int
    temperature: float
    own_slots: bool = False

    @property
    def width(self) -> float:
        return 1.0 if self.own_slots else 2.0

    @property
    def event(self) -> dp.DpEvent:
        one = bounded_range_choice(self.range_epsilon)
        return (
            one
            if isinstance(one, dp.NonPrivateDpEvent)
            else dp.SelfComposedDpEvent(one, self.count)
        )

    def choose(self, rows: np.ndarray, sample: Sample) -> list[int]:
        """min(k, K) indices in [0, K), largest noisy count first; rows is [M, K], one a slot.

        Values are clipped to [0, 1], so a row counts a word once; those that are not finite count as 0. At temperature
        0 the true top-k; of equal counts the first. Raises PluginError for own_slots where the sample has shared ones
        or not one slot a row.
        """
        check_slots(rows, self.own_slots, sample)
        finite = finite_rows(rows)
        if (finite > 1.0).any():
            sys.audit(ROWS_CUT, type(self).__name__)
        return self._choose_by(finite.clip(0.0, 1.0).sum(axis=0), sample)

    def choose_held(
        self,
        held: Sequence[Collection[int]],
        size: int,
        sample: Sample,
    ) -> list[int]:
        """As `choose`, of rows of a long list that are given by their ones: for each slot the words that it holds.

        held: indices in [0, size), of which each counts once a slot; any other number counts for nothing.
        """
        check_slots(held, self.own_slots, sample)
        counts = np.zeros(size)
        for words in held:
            for word in {word for word in words if 0 <= word < size}:
                counts[word] += 1.0
        return self._choose_by(counts, sample)

    def _choose_by(self, counts: np.ndarray, sample: Sample) -> list[int]:
        choices = dp.SelfComposedDpEvent(bounded_range_choice(self.range_epsilon), self.count)
        return sample.spend(choices).noisy_choice(counts, self.width)
