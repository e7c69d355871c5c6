"""Runs a mechanism in two worlds, with a canary and without, on the same records, sampling and public randomness.

The others keep their sampling randomness, and the canary is in every sample of its group: of a world so fixed the clean
value of every release is known. Later releases may depend on earlier ones, so one world leads (noiselessly, or as it is
told), and the other one repeats what was released: both follow one path, as the adversary of adaptive composition may
demand (docs/accounting.md, exact audits).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dpicl.accounting import dp_event as dp
from dpicl.attacks.exact_pairs import SampleLoss, move, require_same, sample_loss
from dpicl.attacks.observers import Policy, Recording
from dpicl.core.errors import UsageError
from dpicl.core.seeds import SamplingRandomness
from dpicl.core.vocabulary import Partition
from dpicl.privacy.private_set import Assigned, SampleObserver
from dpicl.privacy.release_hooks import NoisyRelease, Permit

_OTHER_LENGTH = (
    "With a canary the run makes other releases than without, though it released the same so far: their number or order"
    " follows from private records, and no epsilon covers that; `dpicl check` looks for the reason."
)


def path_of(ranks: Mapping[int, int]) -> Policy:
    """The path of an adversary who wants what the leading world says: sums as they are, the best choice, "above".

    ranks: number of a release -> rank of the less likely thing that it gives instead, so that a text goes on.
    """

    def path(number: int, release: NoisyRelease) -> np.ndarray:
        if release.kind == "threshold":
            return np.ones(1, dtype=np.int64)
        rank = ranks.get(number, 0)
        order = _order(release)
        if release.kind == "choice":
            return order[rank : rank + release.count]
        released = release.clean.copy()
        if rank:
            released.flat[order[:rank]] = released.min() - 1
        return released

    return path


def follow_rank(rank: int) -> Policy:
    """A path of less likely things: the index of that rank, of sums as well; "below", so that public things follow."""

    def path(_: int, release: NoisyRelease) -> np.ndarray:
        if release.kind == "threshold":
            return np.zeros(1, dtype=np.int64)
        order = _order(release)
        chosen = order[min(rank, order.size - 1)]
        if release.kind == "choice":
            return np.array([chosen, *order[order != chosen]])[: release.count]
        released = np.zeros(release.clean.shape)
        released.flat[chosen] = 1.0
        return released

    return path


@dataclass
class World(Recording, SampleObserver):
    """One run, as an observer of its samples and releases; no noise is drawn.

    group, copies: of the canary; several copies take one slot each, of those that ``single``, the same world with one,
    has. samples: as they were drawn. sample_of: the sample of each release.
    """

    randomness: SamplingRandomness = field(kw_only=True)
    group: Partition = None
    copies: int = 0
    single: World | None = None
    samples: list[Assigned] = field(default_factory=list)
    sample_of: list[int] = field(default_factory=list)
    _samples: dict[Permit, int] = field(default_factory=dict)
    _canary_next: bool = False
    _sampled: bool = False

    def records_in(self, sample: int) -> int:
        """How many records are in a sample."""
        return sum(map(len, self.samples[sample].slots))

    def slots_of(self, sample: int) -> int | None:
        """How many slots a sample has; None: one for each record; 0: it is no Poisson sample."""
        assigned = self.samples[sample]
        return assigned.number if assigned.uses is None else 0

    def repeat_path(self, number: int, _: NoisyRelease) -> np.ndarray:
        """The path of a world that follows this one."""
        if number >= len(self.observed_releases):
            raise UsageError(_OTHER_LENGTH)
        return self.observed_releases[number].released.copy()

    # -- sampling: the canary's copies, the last records of their group, are in every sample, and take the first places

    def uniform(self, size: int) -> np.ndarray:
        if not self._canary_next:
            return self.randomness.uniform(size)
        slots = self.single.slots_of(len(self.samples)) if self._sampled and self.single else None
        places = np.zeros(self.copies)
        if slots:
            middle = 0.5 if self.copies > 1 else 0.0
            places = (np.arange(self.copies) + middle) / slots
        self._sampled = True
        others = self.randomness.uniform(size - self.copies)
        return np.append(others, np.minimum(places, 1 - 1e-9))

    def begin_sample(self, partition: Partition) -> None:
        self._canary_next, self._sampled = self.copies > 0 and partition == self.group, False

    def end_sample(self, assigned: Assigned) -> None:
        self._canary_next = False
        self.samples.append(assigned)

    def note_spend(self, event: dp.DpEvent, permit: Permit, sample: int) -> None:
        self._samples[permit] = sample

    def note_reveal(self) -> None:
        raise UsageError(
            "The mechanism reads records without noise, at epsilon = infinity: there is nothing to bound."
        )

    # -- releases

    def intercept(
        self,
        noisy_release: NoisyRelease,
        draw: Callable[[], np.ndarray],
    ) -> np.ndarray:
        if noisy_release.permit is None or noisy_release.permit not in self._samples:
            raise UsageError(
                "A release came from no sample of this run, so its rate is not known; see `dpicl check`."
            )
        self.sample_of.append(self._samples[noisy_release.permit])
        return super().intercept(noisy_release, draw)


class Moved(NamedTuple):
    """A release from a sample that the canary is in. sample: its number. rate: of the sample. present, absent: the
    release with the canary and without."""

    sample: int
    rate: float
    present: NoisyRelease
    absent: NoisyRelease


@dataclass(frozen=True)
class Comparison:
    """The releases of two worlds from samples that the canary is in; of a round of AboveThreshold the first one."""

    moved: list[Moved]

    @classmethod
    def of(cls, releases: Iterable[Moved]) -> Comparison:
        """Of all of them, in order."""
        first_questions: list[Moved] = []
        rounds: set[Permit | None] = set()
        for release in releases:
            permit = release.present.permit
            if release.present.kind != "threshold" or permit not in rounds:
                rounds.add(permit)
                first_questions.append(release)
        return cls(first_questions)

    @cached_property
    def losses(self) -> list[SampleLoss]:
        """Of each sample."""
        by_sample: dict[tuple[int, float], list[tuple[NoisyRelease, NoisyRelease]]] = defaultdict(
            list
        )
        for moved in self.moved:
            by_sample[moved.sample, moved.rate].append((moved.present, moved.absent))
        return [sample_loss(rate, releases) for (_, rate), releases in by_sample.items()]

    @cached_property
    def shares(self) -> list[float]:
        """Of each release how much of its stated bound the canary moved it."""
        return [move(moved.present, moved.absent) / moved.present.bound for moved in self.moved]

    @property
    def strength(self) -> float:
        """Orders canaries; is in no bound."""
        return sum(loss.strength for loss in self.losses)


def compare_worlds(present: World, absent: World) -> Comparison:
    """The releases of two worlds, one by one. Raises UsageError where they are not the same releases."""
    require_aligned(present, absent)
    moved = []
    for number, sample in enumerate(present.sample_of):
        with_it = present.observed_releases[number].release
        without = absent.observed_releases[number].release
        if present.records_in(sample) != absent.records_in(sample):
            moved.append(Moved(sample, present.samples[sample].rate, with_it, without))
        elif not np.array_equal(with_it.clean, without.clean):
            raise UsageError(
                "A record changes a release from a sample that it is not in, and no epsilon covers that; `dpicl"
                " check` looks for the reason."
            )
    return Comparison.of(moved)


def require_aligned(present: World, absent: World) -> None:
    """Raises UsageError where two worlds make other releases, or such that differ in more than their clean values."""
    rates_present = [sample.rate for sample in present.samples]
    rates_absent = [sample.rate for sample in absent.samples]
    if present.sample_of != absent.sample_of or rates_present != rates_absent:
        raise UsageError(_OTHER_LENGTH)
    for with_it, without in zip(present.observed_releases, absent.observed_releases, strict=True):
        require_same(with_it.release, without.release)


def _order(release: NoisyRelease) -> np.ndarray:
    """Indices, the largest value first."""
    return np.argsort(-release.clean.ravel(), kind="stable")
