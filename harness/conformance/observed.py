"""The private set, the noise and the noisy releases of a run under observation: they work as ever, and write a
transcript."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from dp_accounting import dp_event as dp

from dpicl.harness.conformance.transcript import Drawn, Noise, ObservedRelease, Script, Shape, Spend, Transcript
from dpicl.harness.core.seeds import NoiseSource, SecureNoise, SeededNoise
from dpicl.harness.core.vocabulary import Partition, Record
from dpicl.harness.privacy.private_set import Assigned
from dpicl.harness.privacy.release_hooks import NoisyRelease, Permit
from dpicl.harness.run.reader import SlotReader

#: Whether the added record is in the sample of that number.
Presence = Callable[[int], bool]


class ObservedRecord:
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


class Ward:
    """Knows which records have been handed out; notes who is read from when it is told to."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._handed: set[int] = set()
        self.observing = False

    def hand_out(self, numbers: Iterable[int]) -> None:
        self._handed.update(numbers)

    def read(self, number: int, text: bool = False) -> None:
        if not self.observing:
            return
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
        sampling = np.random.default_rng((self._seed, self._calls)).random(size)
        if self.last is not None:
            sampling[-1], self.last = self.last, None
        return sampling


class SampleNotes:
    """Notes every sample and every permit; lets the added record's coin fall as it was asked for.

    records: watched ones. presence: of the last record, which neighbours differ by.
    """

    def __init__(
        self,
        records: Sequence[ObservedRecord],
        labels: Sequence[str],
        sampling: StableCoins,
        transcript: Transcript,
        ward: Ward,
        presence: Presence | None,
    ) -> None:
        self._last = (len(records) - 1, labels[-1]) if records else None
        self._sampling, self._transcript, self._ward, self._presence = sampling, transcript, ward, presence

    def drawing(self, partition: Partition) -> None:
        if self._presence is not None and self._last is not None and partition in (None, self._last[1]):
            at = len(self._transcript.samples)
            self._sampling.last = 0.0 if self._presence(at) else float(np.nextafter(1.0, 0.0))

    def drawn(self, assigned: Assigned) -> None:
        held = [
            (r.number, slot) for slot, rows in enumerate(assigned.slots) for r in rows if isinstance(r, ObservedRecord)
        ]
        members = tuple(record for record, _ in held)
        places = () if assigned.number is None else tuple(slot for _, slot in held)
        drawn = Drawn(assigned.partition, members, places, assigned.size, assigned.rate, assigned.number)
        self._transcript.samples.append(drawn)
        self._ward.hand_out(members)

    def spent(self, event: dp.DpEvent, permit: Permit, sample: int) -> None:
        self._transcript.spends.append(Spend(sample, event, permit))

    def revealed(self) -> None:
        self._transcript.revealed = True


class ObservedReader(SlotReader):
    """Notes the public prompts that the model is asked to answer."""

    asked: list[str]

    def write(self, prompts: Sequence[str]) -> list[str]:
        self.asked.extend(prompts)
        return super().write(prompts)


class RecordingNoise:
    """A noise source that keeps what it gave until a noisy release, or the end, asks for it."""

    seeded = True

    def __init__(self, source: NoiseSource) -> None:
        self._source = source
        self.given: list[Noise] = []

    def gaussian(self, scale: float, size: int) -> np.ndarray:
        values = self._source.gaussian(scale, size)
        if scale:
            self.given.append(Noise("gaussian", values.copy()))
        return values

    def gumbel(self, size: int) -> np.ndarray:
        values = self._source.gumbel(size)
        self.given.append(Noise("gumbel", values.copy()))
        return values

    def uniform(self, size: int) -> np.ndarray:
        return self._source.uniform(size)


class UnseededNoise(RecordingNoise, SecureNoise):
    """The same as a mechanism meets it with `noise: secure`."""

    seeded = False


class ReleaseKeeper:
    """Stands at the noisy releases: notes every release, and answers by the script in the noise's place where there is
    one."""

    def __init__(self, transcript: Transcript, given: list[Noise], script: Script | None) -> None:
        self._transcript, self._given, self._script = transcript, given, script

    def passes(self, noisy_release: NoisyRelease, draw: Callable[[], np.ndarray]) -> np.ndarray:
        shape = Shape.of(noisy_release)
        clean = np.array(noisy_release.clean, dtype=np.float64)
        if self._script is None:
            released = draw()
        else:
            released = self._script(len(self._transcript.observed_releases), shape)
        spend = next(
            (at for at, each in enumerate(self._transcript.spends) if each.permit is noisy_release.permit), None
        )
        observed = ObservedRelease(shape, clean, released.copy(), tuple(self._given), spend)
        self._given.clear()
        self._transcript.observed_releases.append(observed)
        return released
