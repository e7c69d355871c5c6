"""Records what one run of a mechanism did, in order: samples, spends, noisy releases, reads of records, the outcome.

Nothing here judges; the checks do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpicl.accounting import dp_event as dp
from dpicl.accounting.events import EpsilonDeltaDpEvent
from dpicl.attacks.observers import Observation, describe_release
from dpicl.conformance.footprint import Footprint
from dpicl.core.seeds import NoiseSource, SecureNoise, current_shot
from dpicl.core.vocabulary import Partition, Record
from dpicl.privacy.private_set import Assigned, SampleObserver
from dpicl.privacy.release_hooks import NoisyRelease, Permit
from dpicl.releasing.reader import SlotReader

#: What a noisy release gives instead of its noisy value: a function of its shot, its number there (0 and its number for
#: answers), and of what is public about it.
Script = Callable[[tuple[int, int], NoisyRelease], np.ndarray]
#: The largest value of a uniform draw.
_BELOW_ONE = float(np.nextafter(1.0, 0.0))
#: The numbers, modulo 2, of the samples that the added record is in.
Presence = frozenset[int]
ODD_SAMPLES, EVEN_SAMPLES = frozenset({1}), frozenset({0})
EVERY_SAMPLE, NO_SAMPLE = ODD_SAMPLES | EVEN_SAMPLES, Presence()


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
    public_prompts: of the model, which may hold public and released things alone. progress: as it was reported.
    unseeded: whether the noise claimed to be secure. refused: why the harness would not publish what was returned.
    released: None when the run failed with ``error``.
    """

    samples: list[Drawn] = field(default_factory=list)
    spends: list[Spend] = field(default_factory=list)
    observed_releases: list[ObservedRelease] = field(default_factory=list)
    strangers: set[int] = field(default_factory=set)
    texts_read: dict[int, set[int]] = field(default_factory=dict)
    revealed: bool = False
    public_prompts: list[str] = field(default_factory=list)
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
        shapes = [describe_release(observed.release) for observed in self.observed_releases]
        return shapes, self.released, tuple(self.public_prompts), tuple(self.progress), failure

    def paid_delta(self, observed: ObservedRelease) -> float:
        """What the sample of a release was charged for failures, (0, delta) events."""
        sample = self.sample_of(observed)
        events = [spend.event for spend in self.spends if spend.sample == sample]
        return sum(
            each.delta
            for each in events
            if isinstance(each, EpsilonDeltaDpEvent) and each.epsilon == 0
        )

    def sample_of(self, observed: ObservedRelease) -> int | None:
        """Number of the sample that a release was charged to."""
        return None if observed.spend is None else self.spends[observed.spend].sample


class ObservedRecord:
    """A record that notes when it is read though no sample gave it out."""

    def __init__(self, number: int, record: Record, observer: RunObserver) -> None:
        self.number, self._record, self._observer = number, record, observer

    @property
    def text(self) -> str:
        self._observer.read(self.number, text=True)
        return self._record.text

    @property
    def label(self) -> str:
        self._observer.read(self.number)
        return self._record.label


class CoupledByRecord:
    """Sampling randomness that belongs to records and not to places: wherever one more record joins a set, all others
    keep their coins and their slots. What other shots draw, and when, changes nothing either.

    coins, places: what coins and slots are multiplied by; below 1 more records are sampled, and into fewer slots.
    (Every outcome of fair coins is possible, so a bound must hold for these too.) With every other even seed the added
    record comes first in the first slot, where a slot in random order is sure to show it, and with the others it is in
    the last one.
    """

    def __init__(self, seed: int, coins: float, places: float) -> None:
        self._seed, self._of_coins, self._of_places, self._calls = (
            seed,
            coins,
            places,
            Counter[int](),
        )
        #: Where the added record is in the group that is sampled next, and whether it is in the sample.
        self._place: int | None = None
        self._present = False
        self._coins: np.ndarray | None = None

    def expect(self, place: int | None, present: bool) -> None:
        """A sample follows of a group whose record at ``place`` is the added one (None: it has none)."""
        self._place, self._present, self._coins = place, present, None

    def uniform(self, size: int) -> np.ndarray:
        """float64[size]: the coins of a group; at the next call the slots of its records that were sampled."""
        shot = current_shot()
        stream = 0 if shot is None else shot + 1
        self._calls[stream] += 1
        generator = np.random.default_rng((self._seed, stream, self._calls[stream]))
        place = self._place
        if place is None:
            factor = self._of_coins if self._coins is None else self._of_places
            self._coins = np.zeros(0)
            return generator.random(size) * factor
        if self._coins is None:
            coin = 0.0 if self._present else _BELOW_ONE
            others = generator.random(size - 1) * self._of_coins
            self._coins = np.insert(others, place, coin)
            return self._coins
        smallest = np.argsort(self._coins)[:size]  # their records are sampled
        if place not in smallest:
            return generator.random(size) * self._of_places
        others = generator.random(size - 1) * self._of_places
        draws = generator.random(2)
        of_added = (0.0, draws[0], _BELOW_ONE, draws[1])[self._seed % 4]
        before = np.count_nonzero(smallest < place)
        return np.insert(others, before, of_added)


class RunObserver(SampleObserver):
    """Notes what a run samples, spends and releases, and the records that it reads while ``watching``. Puts the added
    record into the samples that ``presence`` names, and replaces noisy values where there is a script.

    places: group (None: all records) -> the place of the added record in it. drawn: noise since the release before.
    """

    def __init__(
        self,
        transcript: Transcript,
        places: Mapping[Partition, int],
        sampling: CoupledByRecord,
        presence: Presence,
        drawn: list[np.ndarray],
        script: Script | None,
    ) -> None:
        self._transcript, self._places = transcript, places
        self._sampling, self._presence = sampling, presence
        self._drawn, self._script = drawn, script
        self._handed: set[int] = set()
        self._releases = Counter[int]()  # of each shot
        # the number of the spend that gave a permit, by the permit's id
        self._spends: dict[int, int] = {}
        self.watching = False

    def read(self, number: int, text: bool = False) -> None:
        """A record was read, or its text was."""
        if not self.watching:
            return
        if text:
            self._transcript.texts_read.setdefault(len(self._transcript.samples), set()).add(number)
        if number not in self._handed and not self._transcript.revealed:
            self._transcript.strangers.add(number)

    def begin_sample(self, partition: Partition) -> None:
        present = len(self._transcript.samples) % 2 in self._presence
        self._sampling.expect(self._places.get(partition), present)

    def end_sample(self, assigned: Assigned) -> None:
        members: list[int] = []
        slots: list[int] = []
        for slot, records in enumerate(assigned.slots):
            for record in records:
                if isinstance(record, ObservedRecord):
                    members.append(record.number)
                    slots.append(slot)
        sample = Drawn(
            partition=assigned.partition,
            members=tuple(members),
            slots=() if assigned.number is None else tuple(slots),
            size=assigned.size,
            rate=assigned.rate,
            number=assigned.number,
            uses=assigned.uses,
        )
        self._transcript.samples.append(sample)
        self._handed.update(members)

    def note_spend(self, event: dp.DpEvent, permit: Permit, sample: int) -> None:
        self._spends.setdefault(id(permit), len(self._transcript.spends))
        self._transcript.spends.append(Spend(sample, event, permit))

    def note_reveal(self) -> None:
        self._transcript.revealed = True

    @contextmanager
    def looking(self) -> Iterator[None]:
        watching, self.watching = self.watching, False
        try:
            yield
        finally:
            self.watching = watching

    def intercept(
        self,
        noisy_release: NoisyRelease,
        draw: Callable[[], np.ndarray],
    ) -> np.ndarray:
        notes, shot = self._transcript, current_shot() or 0
        copied = replace(noisy_release, clean=np.array(noisy_release.clean, dtype=np.float64))
        released = (
            draw() if self._script is None else self._script((shot, self._releases[shot]), copied)
        )
        spend = self._spends.get(id(noisy_release.permit))
        observed = ObservedRelease(copied, released.copy(), tuple(self._drawn), spend, shot)
        notes.observed_releases.append(observed)
        self._releases[shot] += 1
        self._drawn.clear()
        return released


class ObservedReader(SlotReader):
    """Notes the public prompts that the model is asked to answer."""

    def __init__(self, written: list[str], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._written = written

    def write(self, prompts: Sequence[str]) -> list[str]:
        self._written.extend(prompts)
        return super().write(prompts)


class RecordingNoise:
    """A noise source that keeps what it drew for the next noisy release."""

    seeded = True

    def __init__(self, source: NoiseSource) -> None:
        self._source = source
        self.drawn: list[np.ndarray] = []

    def gaussian(self, scale: float, size: int) -> np.ndarray:
        values = self._source.gaussian(scale, size)
        if scale:
            self.drawn.append(values.copy())
        return values

    def gumbel(self, size: int) -> np.ndarray:
        values = self._source.gumbel(size)
        self.drawn.append(values.copy())
        return values

    def uniform(self, size: int) -> np.ndarray:
        return self._source.uniform(size)


class UnseededNoise(RecordingNoise, SecureNoise):
    """The same, as a mechanism sees it with secure noise."""

    seeded = False
