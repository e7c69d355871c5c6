"""Thresholded noisy histograms of votes: every record votes once for one of K public things."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpicl.accounting import dp_event as dp
from dpicl.accounting.events import gaussian
from dpicl.core.errors import PluginError
from dpicl.privacy.primitives import check_slots
from dpicl.privacy.private_set import Sample


@dataclass(frozen=True)
class VoteHistogram:
    """What follows from counts + N(0, sigma^2) of votes for K public things: a ranking, or a sample of them.

    Every record has a slot of its own and one vote, so one more record adds 1 to one count and changes no other: 1 in
    L2. The noise has the standard deviation sigma = ``noise_multiplier``. Noisy counts below ``threshold`` * sigma
    become 0 in a sample (DP-PE's H, here in units of the noise; 0 keeps what is above 0).
    """

    noise_multiplier: float
    threshold: float = 0.0

    #: How far one record moves the counts in L2, at most.
    bound = 1.0

    @property
    def event(self) -> dp.DpEvent:
        return gaussian(self.noise_multiplier)

    def best(
        self,
        votes: np.ndarray,
        groups: Sequence[Sequence[int]],
        count: int,
        sample: Sample,
    ) -> list[list[int]]:
        """For each group of indices its ``count`` largest noisy counts (all, where it has fewer), the largest first.

        votes: int64[n] in [0, K), one a slot; any other number abstains. groups: disjoint, public, of all K indices.
        Raises PluginError for a sample whose slots are shared or are not one a vote, and for groups that leave one out.
        """
        counts = self._noisy_counts(votes, groups, sample)
        return [
            [group[at] for at in np.argsort(-counts[list(group)], kind="stable")[:count]]
            for group in groups
        ]

    def draw(
        self,
        votes: np.ndarray,
        groups: Sequence[Sequence[int]],
        count: int,
        sample: Sample,
        generator: np.random.Generator,
    ) -> list[list[int]]:
        """For each group ``count`` of its indices, drawn with replacement in proportion to the noisy counts that reach
        the threshold; uniformly, where none does.

        generator: public randomness. Otherwise as `best`.
        """
        counts = self._noisy_counts(votes, groups, sample)
        counts[(counts < self.threshold * self.noise_multiplier) | (counts < 0)] = 0.0
        return [_draw(group, counts[list(group)], count, generator) for group in groups]

    def _noisy_counts(
        self,
        votes: np.ndarray,
        groups: Sequence[Sequence[int]],
        sample: Sample,
    ) -> np.ndarray:
        check_slots(votes, True, sample)
        size = sum(map(len, groups))
        if not all(groups) or {at for group in groups for at in group} != set(range(size)):
            raise PluginError(
                "Groups of a histogram are disjoint, not empty, and hold every index from 0 on."
            )
        cast = votes[(votes >= 0) & (votes < size)]
        counts = np.bincount(cast, minlength=size).astype(np.float64)
        return sample.spend(self.event).noisy_sum(counts, self.bound)


def _draw(
    group: Sequence[int],
    weights: np.ndarray,
    count: int,
    generator: np.random.Generator,
) -> list[int]:
    total = weights.sum()
    chances = weights / total if total > 0 else None
    return [
        group[at]
        for at in generator.choice(
            len(group),
            size=count,
            p=chances,
        )
    ]
