"""What one run of a mechanism did, in order: samples, spends, noisy releases, reads of records, the outcome.

Nothing here judges; the checks do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from dp_accounting import dp_event as dp

from dpicl.attacks.observers import Observation, stated
from dpicl.conformance.footprint import Footprint
from dpicl.core.vocabulary import Partition
from dpicl.privacy.events import EpsilonDeltaDpEvent
from dpicl.privacy.release_hooks import NoisyRelease, Permit

#: What a noisy release gives instead of its noisy value: a function of its shot, its number there (0 and its number for
#: answers), and of what is public about it.
Script = Callable[[tuple[int, int], NoisyRelease], np.ndarray]


@dataclass(frozen=True)
class Drawn:
    """One sample. members: which records. slots: the slot of each, in the same order (() without slots).

    size: number of records of the group that was sampled. rate: q. number: M, None without slots. uses: the most
    samples that a record joins; None for Poisson samples.
    """

    partition: Partition
    members: tuple[int, ...]
    slots: tuple[int, ...]
    size: int
    rate: float
    number: int | None
    uses: int | None = None


@dataclass(frozen=True)
class Spend:
    """An event that a primitive spent from a sample, and the permit that it got for it."""

    sample: int
    event: dp.DpEvent
    permit: Permit


@dataclass(frozen=True)
class ObservedRelease(Observation):
    """noise: the values of each noise draw since the release before. spend: number of the spend that its permit is
    from. shot: of demonstrations; else 0."""

    noise: tuple[np.ndarray, ...]
    spend: int | None
    shot: int = 0


#: A demonstration or an answer, as runs are compared: the label or query id, the text, and what else is published.
Item = tuple[str, ...]
#: Stands where the label does, for an instruction that was released. No label has a line break.
INSTRUCTION = "instruction\n"
#: The name of the item that is a saved state.
STATE = "state\n"


@dataclass
class Transcript:
    """observed_releases: shot by shot, also where shots were written at the same time. strangers: records that were
    read though no sample had held them. texts_read: number of samples drawn before -> records whose texts were read.

    revealed: whether all records were read at epsilon = infinity.
    asked: public prompts, which may hold public and released things alone. progress: as it was reported.
    unseeded: whether the noise claimed to be secure. refused: why the harness would not publish what was returned.
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
        """Everything that an outsider sees of a run with scripted releases: their shapes, the outcome, progress, kind
        of failure. What it prints and logs is in ``footprint``."""
        failure = type(self.error).__name__ if self.error else None
        shapes = [stated(observed.release) for observed in self.observed_releases]
        return shapes, self.released, tuple(self.asked), tuple(self.progress), failure

    def paid_delta(self, observed: ObservedRelease) -> float:
        """What the sample of a release was charged for failures, (0, delta) events."""
        sample = self.sample_of(observed)
        events = [spend.event for spend in self.spends if spend.sample == sample]
        return sum(each.delta for each in events if isinstance(each, EpsilonDeltaDpEvent) and each.epsilon == 0)

    def sample_of(self, observed: ObservedRelease) -> int | None:
        """Number of the sample that a release was charged to."""
        return None if observed.spend is None else self.spends[observed.spend].sample
