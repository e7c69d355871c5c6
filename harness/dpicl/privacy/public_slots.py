"""Slots of public records, for controls: the same pipeline as with private ones, without charge, noise or release hook.

Nothing here touches the private set, so epsilon is 0. What a primitive releases from a public sample is its clean
value: the method at epsilon = infinity, on records that everybody knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dpicl.accounting import dp_event as dp
from dpicl.core.seeds import SeededNoise
from dpicl.privacy.private_set import PrivateRecord, PrivateSet, Sample
from dpicl.privacy.release_hooks import Permit, round_to_grid
from dpicl.privacy.sampling_schemes import SamplingScheme


class PublicPermit(Permit):
    """Gives the clean value, as often as it is asked: nothing was charged, and nothing private goes in."""

    __slots__ = ()

    def noisy_sum(
        self, clean: np.ndarray, bound: float, grid: float = 0.0, ids: np.ndarray | None = None
    ) -> np.ndarray:
        return round_to_grid(clean, grid)[0] if grid else np.array(clean, dtype=np.float64)

    def _choices(
        self, rows: Sequence[np.ndarray], width: float, count: int, ids: np.ndarray | None = None
    ) -> list[list[int]]:
        return [np.argsort(-scores, kind="stable")[:count].tolist() for scores in rows]


class PublicSample(Sample):
    """Slots of public records; `spend` gives a `PublicPermit` for whatever it is asked."""

    __slots__ = ()

    def __init__(self, slots: Iterable[Iterable[PrivateRecord]] = ()) -> None:
        noise = SeededNoise(lambda shot: np.random.default_rng(0))  # of permits that draw none
        super().__init__(slots, dp.NoOpDpEvent(), noise)
        self.spend = lambda event: PublicPermit(event, noise)


@dataclass(frozen=True)
class PublicScheme(SamplingScheme):
    """No private record reaches a prompt, so nothing is charged; the mechanism makes slots of public records itself."""

    @property
    def own_slots(self) -> bool:
        """See SlotScheme."""
        return False

    def event(self, release: dp.DpEvent, records: int, queries: int) -> dp.DpEvent:
        """See SlotScheme."""
        return dp.NoOpDpEvent()

    def sampler(
        self,
        private: PrivateSet,
        release: dp.DpEvent,
        queries: int,
    ) -> Callable[[str], Sample]:
        """See SlotScheme. The samples are empty."""
        return lambda text: PublicSample()

    def describe(self, records: int) -> str:
        """See SlotScheme."""
        return "no private record"
