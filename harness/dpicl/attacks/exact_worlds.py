"""Two worlds of one run: the same records, sampling and public randomness, with a canary and without, through the
mechanism's own code.

The others keep their sampling randomness, and the canary is in every sample of its group: of a world so fixed the clean
value of every release is known. Later releases may depend on earlier ones, so one world leads (noiselessly, or as it is
told), and the other one repeats what was released: both follow one path, as the adversary of adaptive composition may
demand (docs/accounting.md, exact audits).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import numpy as np
from dp_accounting import dp_event as dp

from dpicl.attacks.exact_pairs import SampleLoss, require_same, sample_loss, share_of_bound
from dpicl.core.errors import UsageError
from dpicl.core.seeds import SamplingRandomness
from dpicl.core.vocabulary import Partition
from dpicl.privacy.private_set import Assigned
from dpicl.privacy.release_hooks import NoisyRelease, Permit

#: What the t-th release gives in the leading world.
Policy = Callable[[NoisyRelease], np.ndarray]


def noiseless(release: NoisyRelease) -> np.ndarray:
    """The path of an adversary who wants what the leading world says: sums as they are, the best choice, "above"."""
    if release.kind == "gaussian":
        return release.clean.copy()
    if release.kind == "threshold":
        return np.ones(1, dtype=np.int64)
    return np.argsort(-release.clean.ravel(), kind="stable")[: release.count]


@dataclass
class Lengthening:
    """As `noiseless`, but where a text ended: there a less likely thing is released. ranks: number of a release ->
    rank."""

    ranks: Mapping[int, int]
    _seen: int = 0

    def __call__(self, release: NoisyRelease) -> np.ndarray:
        rank, self._seen = self.ranks.get(self._seen, 0), self._seen + 1
        if not rank or release.kind == "threshold":
            return noiseless(release)
        if release.kind == "choice":
            return np.argsort(-release.clean.ravel(), kind="stable")[rank : rank + release.count]
        released = release.clean.copy()
        released.flat[np.argsort(-released.ravel(), kind="stable")[:rank]] = released.min() - 1
        return released


def of_rank(rank: int) -> Policy:
    """A path of less likely things: the index of that rank, of sums as well; "below", so that public things follow."""

    def choose(release: NoisyRelease) -> np.ndarray:
        if release.kind == "threshold":
            return np.zeros(1, dtype=np.int64)
        order = np.argsort(-release.clean.ravel(), kind="stable")
        at = order[min(rank, order.size - 1)]
        if release.kind == "choice":
            return np.array([at, *order[order != at]])[: release.count]
        released = np.zeros(release.clean.shape)
        released.flat[at] = 1.0
        return released

    return choose


@dataclass
class World:
    """One run, as an observer of its samples and releases.

    path: what to release, in order; a policy where this world leads. copies: of the canary; several take one slot each,
    of those that ``slots`` of a world with one says. releases: what was seen. rates, records, slots: of every sample,
    how many records are in it, and how many slots it has (None: one for each record; 0: no Poisson sample). sample_of:
    the sample of each release.
    """

    path: Policy | Sequence[np.ndarray]
    randomness: SamplingRandomness
    group: Partition = None
    copies: int = 0
    known_slots: Sequence[int | None] = ()
    releases: list[NoisyRelease] = field(default_factory=list)
    released: list[np.ndarray] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    slots: list[int | None] = field(default_factory=list)
    sample_of: list[int] = field(default_factory=list)
    _samples: dict[Permit, int] = field(default_factory=dict)
    _canary_next: bool = False
    _sampled: bool = False

    # -- sampling: the canary's copies, the last records of their group, are in every sample, and take the first places

    def uniform(self, size: int) -> np.ndarray:
        """See SamplingRandomness."""
        if not self._canary_next:
            return self.randomness.uniform(size)
        slots = self.known_slots[len(self.rates)] if self._sampled and self.copies > 1 else None
        places = (np.arange(self.copies) + 0.5 * (self.copies > 1)) / slots if slots else np.zeros(self.copies)
        self._sampled = True
        return np.append(self.randomness.uniform(size - self.copies), np.minimum(places, 1 - 1e-9))

    def drawing(self, partition: Partition) -> None:
        """See SampleObserver."""
        self._canary_next, self._sampled = self.copies > 0 and partition == self.group, False

    def drawn(self, assigned: Assigned) -> None:
        """See SampleObserver."""
        self._canary_next = False
        self.rates.append(assigned.rate)
        self.records.append(sum(map(len, assigned.slots)))
        self.slots.append(assigned.number if assigned.uses is None else 0)

    def spent(self, event: dp.DpEvent, permit: Permit, sample: int) -> None:
        """See SampleObserver."""
        self._samples[permit] = sample

    def revealed(self) -> None:
        """See SampleObserver."""
        raise UsageError("The mechanism reads records without noise, at epsilon = infinity: there is nothing to bound.")

    def looking(self) -> AbstractContextManager[None]:
        """See SampleObserver."""
        return nullcontext()

    # -- releases

    def passes(self, noisy_release: NoisyRelease, draw: Callable[[], np.ndarray]) -> np.ndarray:
        """See Observer: no noise is drawn."""
        at, permit = len(self.releases), noisy_release.permit
        if permit is None or permit not in self._samples:
            raise UsageError("A release came from no sample of this run, so its rate is not known; see `dpicl check`.")
        if callable(self.path):
            released = self.path(noisy_release)
        elif at < len(self.path):
            released = self.path[at].copy()
        else:
            raise _other_length()
        self.releases.append(noisy_release)
        self.released.append(released.copy())
        self.sample_of.append(self._samples[permit])
        return released


@dataclass(frozen=True)
class Seen:
    """What both worlds showed of the samples that the canary is in: their losses, and of each of their releases the
    share of its stated bound and (rate, with the canary, without). kinds: how many there are of each."""

    losses: list[SampleLoss]
    shares: list[float]
    kinds: dict[str, int]
    pairs: list[tuple[float, NoisyRelease, NoisyRelease]]

    @property
    def strength(self) -> float:
        """Orders canaries; is in no bound."""
        return sum(loss.strength for loss in self.losses)


def seen(present: World, absent: World) -> Seen:
    """What two worlds say, release by release. Raises UsageError where they are not the same releases, one by one."""
    require_aligned(present, absent)
    questions: set[int] = set()
    of_sample: dict[int, list[tuple[NoisyRelease, NoisyRelease]]] = {}
    shares, kinds, pairs = [], dict[str, int](), []
    for sample, a, b in zip(present.sample_of, present.releases, absent.releases, strict=True):
        if present.records[sample] == absent.records[sample]:
            if not np.array_equal(a.clean, b.clean):
                raise _untouched()
            continue
        if a.kind == "threshold" and id(a.permit) in questions:
            continue  # of a round the first question alone
        questions.add(id(a.permit))
        of_sample.setdefault(sample, []).append((a, b))
        shares.append(share_of_bound(a, b))
        kinds[a.kind] = kinds.get(a.kind, 0) + 1
        pairs.append((present.rates[sample], a, b))
    losses = [sample_loss(present.rates[sample], each) for sample, each in of_sample.items()]
    return Seen(losses, shares, kinds, pairs)


def require_aligned(present: World, absent: World) -> None:
    """Raises UsageError where two worlds make other releases, or such that differ in more than their clean values."""
    if present.sample_of != absent.sample_of or present.rates != absent.rates:
        raise _other_length()
    for a, b in zip(present.releases, absent.releases, strict=True):
        require_same(a, b)


def _untouched() -> UsageError:
    return UsageError(
        "A record changes a release from a sample that it is not in, and no epsilon covers that; `dpicl check` looks"
        " for the reason."
    )


def _other_length() -> UsageError:
    return UsageError(
        "With a canary the run makes other releases than without, though it released the same so far: their number or"
        " order follows from private records, and no epsilon covers that; `dpicl check` looks for the reason."
    )
