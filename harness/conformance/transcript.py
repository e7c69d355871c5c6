"""What one run of a mechanism did, in order: samples, spends, releases of noisy releases, noise, reads of records, the
outcome.

Nothing here judges; the checks do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from dp_accounting import dp_event as dp

from dpicl.harness.conformance.footprint import Footprint
from dpicl.harness.core.vocabulary import Partition
from dpicl.harness.privacy.release_hooks import NoisyRelease, Permit

#: What leaves a noisy release in place of the noise: a function of the noisy release's number and of what is public
#: about it (`Shape`).
Script = Callable[[int, "Shape"], np.ndarray]


@dataclass(frozen=True)
class Shape:
    """What is public about a noisy release: everything but what goes in."""

    kind: str
    shape: tuple[int, ...]
    bound: float
    scale: float
    count: int

    @classmethod
    def of(cls, noisy_release: NoisyRelease) -> Shape:
        return cls(
            noisy_release.kind,
            noisy_release.clean.shape,
            float(noisy_release.bound),
            float(noisy_release.scale),
            noisy_release.count,
        )


@dataclass(frozen=True)
class Noise:
    """Values that a noise source gave at one call. kind: 'gaussian', 'gumbel'."""

    kind: str
    values: np.ndarray


@dataclass(frozen=True)
class Drawn:
    """One Poisson sample. members: which records. slots: the slot of each, in the same order (() without slots).

    size: number of records of the group that was sampled. rate: q. number: M, None without slots.
    """

    partition: Partition
    members: tuple[int, ...]
    slots: tuple[int, ...]
    size: int
    rate: float
    number: int | None


@dataclass(frozen=True)
class Spend:
    """An event that a primitive spent from a sample, and the permit that it got for it."""

    sample: int
    event: dp.DpEvent
    permit: Permit


@dataclass(frozen=True)
class ObservedRelease:
    """One release. clean: what went in. released: what came out. noise: what was drawn meanwhile. spend: number of the
    spend that paid for it."""

    shape: Shape
    clean: np.ndarray
    released: np.ndarray
    noise: tuple[Noise, ...]
    spend: int | None


#: A demonstration or an answer, as it is compared: the label or query id, the text, whatever else goes with it.
Item = tuple[str, ...]


@dataclass
class Transcript:
    """strangers: records that were read though no sample had held them. texts_read: number of draws before -> records
    whose texts were read.

    revealed: whether all records were read at epsilon = infinity.
    asked: public prompts, which the model answers from public and released things alone. progress: as it was reported.
    unseeded: whether the noise said that it is secure. refused: why the harness would not publish what was returned.
    released: None when the run failed with ``error``.
    """

    samples: list[Drawn] = field(default_factory=list)
    spends: list[Spend] = field(default_factory=list)
    observed_releases: list[ObservedRelease] = field(default_factory=list)
    strangers: set[int] = field(default_factory=set)
    texts_read: dict[int, set[int]] = field(default_factory=dict)
    revealed: bool = False
    asked: list[str] = field(default_factory=list)
    progress: list[tuple[object, ...]] = field(default_factory=list)
    footprint: Footprint = field(default_factory=Footprint)
    unseeded: bool = False
    refused: str | None = None
    released: tuple[Item, ...] | None = None
    error: BaseException | None = None

    @property
    def public(self) -> tuple[object, ...]:
        """Everything that an outsider sees of a run whose releases are given: noisy releases, outcome, progress, kind
        of failure. What it says to terminal and logs is in ``footprint``."""
        failure = type(self.error).__name__ if self.error else None
        shapes = tuple(observed.shape for observed in self.observed_releases)
        return shapes, self.released, tuple(self.asked), tuple(self.progress), failure

    def sample_of(self, observed: ObservedRelease) -> int | None:
        """Number of the sample that a release was paid from."""
        return None if observed.spend is None else self.spends[observed.spend].sample
