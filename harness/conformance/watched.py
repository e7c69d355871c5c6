"""The private set, the noise and the doors of a run under watch: they work as ever, and write a transcript."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from dp_accounting import dp_event as dp

from harness.conformance.transcript import Drawn, Noise, Passage, Script, Shape, Spend, Transcript
from harness.privacy.doors import Door
from harness.privacy.ledger import Ledger, Partition
from harness.privacy.private_set import PrivateRecord, PrivateSet, Sample, SlotSampler, sampling_rate
from harness.record_sets import Record
from harness.seeds import NoiseSource, SeededNoise, Streams

#: Whether the added record is in the sample of that number.
Presence = Callable[[int], bool]


class WatchedRecord:
    """A record that notes when somebody reads it whom no sample gave it to."""

    def __init__(self, number: int, record: Record, ward: Ward) -> None:
        self.number, self._record, self._ward = number, record, ward

    @property
    def text(self) -> str:
        self._ward.read(self.number, text=True)
        return self._record.text

    @property
    def label(self) -> str:
        self._ward.read(self.number)
        return self._record.label

    def belongs_to(self, partition: Partition) -> bool:
        """For the sampler, which may look."""
        return partition is None or self._record.label == partition


class Ward:
    """Knows which records have been handed out."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._handed: set[int] = set()

    def hand_out(self, numbers: Iterable[int]) -> None:
        self._handed.update(numbers)

    def read(self, number: int, text: bool = False) -> None:
        if text:
            self._transcript.texts_read.setdefault(len(self._transcript.samples), set()).add(number)
        if number not in self._handed and not self._transcript.revealed:
            self._transcript.strangers.add(number)


class StableCoins(SeededNoise):
    """Coins that every record keeps when another one is added at the end of the set.

    ``last`` is the coin of the last record at the next call; None leaves it as it falls.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(np.random.default_rng(seed))
        self._seed, self._calls = seed, 0
        self.last: float | None = None

    def uniform(self, size: int) -> np.ndarray:
        self._calls += 1
        coins = np.random.default_rng((self._seed, self._calls)).random(size)
        if self.last is not None:
            coins[-1], self.last = self.last, None
        return coins


class WatchedSet(PrivateSet):
    """records: watched ones. added: number of the record that neighbours differ by (the last), with its presence."""

    def __init__(
        self,
        records: Sequence[WatchedRecord],
        ledger: Ledger,
        *,
        sizes: dict[Partition, int],
        coins: StableCoins,
        transcript: Transcript,
        ward: Ward,
        presence: Presence | None,
    ) -> None:
        super().__init__(records, ledger, sizes=sizes, coins=coins)
        self._watched, self._stable = tuple(records), coins
        self._transcript, self._ward, self._presence = transcript, ward, presence

    def _group(self, partition: Partition) -> list[PrivateRecord]:
        return [record for record in self._watched if record.belongs_to(partition)]

    def poisson_slots(
        self,
        expected: float,
        slots: int | None,
        *,
        partition: Partition,
        releases: dp.DpEvent,
        times: int = 1,
        shuffled: bool = False,
    ) -> SlotSampler:
        sampler = super().poisson_slots(
            expected, slots, partition=partition, releases=releases, times=times, shuffled=shuffled
        )
        rate = sampling_rate(expected, self.size(partition), partition)
        return _WatchedSampler(self, sampler, partition, slots, rate, releases)

    def reveal(self, note: str = "records read without a mechanism") -> list[PrivateRecord]:
        revealed = super().reveal(note)
        self._transcript.revealed = True
        return revealed

    def drawn(
        self, sampler: SlotSampler, partition: Partition, number: int | None, rate: float, releases: dp.DpEvent
    ) -> Sample:
        """Draws, with the added record's coin as it was asked for, and notes who is in which slot."""
        group = [record for record in self._watched if record.belongs_to(partition)]
        at = len(self._transcript.samples)
        if self._presence is not None and group and group[-1] is self._watched[-1]:
            self._stable.last = 0.0 if self._presence(at) else float(np.nextafter(1.0, 0.0))
        slots = sampler.draw().slots
        dealt = [(r.number, slot) for slot, held in enumerate(slots) for r in held if isinstance(r, WatchedRecord)]
        members = tuple(record for record, _ in dealt)
        places = () if number is None else tuple(slot for _, slot in dealt)
        self._transcript.samples.append(Drawn(partition, members, places, len(group), rate, number))
        self._ward.hand_out(members)
        return _WatchedSample(slots, releases, self._transcript, at)


class _WatchedSampler(SlotSampler):
    def __init__(
        self,
        owner: WatchedSet,
        sampler: SlotSampler,
        partition: Partition,
        number: int | None,
        rate: float,
        releases: dp.DpEvent,
    ) -> None:
        self._owner, self._sampler = owner, sampler
        self._terms = (partition, number, rate, releases)

    def draw(self) -> Sample:
        return self._owner.drawn(self._sampler, *self._terms)


class _WatchedSample(Sample):
    def __init__(
        self, slots: tuple[tuple[PrivateRecord, ...], ...], releases: dp.DpEvent, transcript: Transcript, at: int
    ) -> None:
        super().__init__(slots, releases)
        self._transcript, self._at = transcript, at

    def spend(self, event: dp.DpEvent) -> None:
        super().spend(event)
        self._transcript.spends.append(Spend(self._at, event))


class RecordingNoise:
    """A noise source that keeps what it gave until a door, or the end, asks for it."""

    seeded = True

    def __init__(self, source: NoiseSource, given: list[Noise]) -> None:
        self._source, self._given = source, given

    def gaussian(self, scale: float, size: int) -> np.ndarray:
        values = self._source.gaussian(scale, size)
        if scale:
            self._given.append(Noise("gaussian", values.copy()))
        return values

    def gumbel(self, size: int) -> np.ndarray:
        values = self._source.gumbel(size)
        self._given.append(Noise("gumbel", values.copy()))
        return values

    def uniform(self, size: int) -> np.ndarray:
        return self._source.uniform(size)


@dataclass(frozen=True)
class WatchedStreams(Streams):
    """Public streams of one seed, sources of noise of another one; the sources are recorded."""

    noise_root: int = 0
    given: list[Noise] = field(default_factory=list)

    def source(self, name: str) -> NoiseSource:
        return RecordingNoise(Streams(self.noise_root).source(name), self.given)


class DoorKeeper:
    """Stands at the doors: notes every passage, and answers by the script in the noise's place where there is one."""

    def __init__(self, transcript: Transcript, given: list[Noise], script: Script | None) -> None:
        self._transcript, self._given, self._script = transcript, given, script

    def passes(self, door: Door, draw: Callable[[], np.ndarray]) -> np.ndarray:
        self.collect_loose()
        shape = Shape.of(door)
        clean = np.array(door.clean, dtype=np.float64)
        if self._script is None:
            released = draw()
        else:
            released = self._script(len(self._transcript.passages), shape)
        spend = len(self._transcript.spends) - 1
        passage = Passage(shape, clean, released.copy(), tuple(self._given), None if spend < 0 else spend)
        self._given.clear()
        self._transcript.passages.append(passage)
        return released

    def collect_loose(self) -> None:
        """Noise that was drawn since the last door."""
        self._transcript.loose.extend(self._given)
        self._given.clear()
