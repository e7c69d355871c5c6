"""The private records of a run. Every read of them is charged to the ledger.

`poisson_slots` is the proved read: every record is sampled independently, and every sampled record is assigned,
independently, to one slot. Adding or removing one record changes one slot at most, whatever the others do, so the
accountants for Poisson sampling under add/remove hold for the code that runs. `joining_slots` is the other: a record
is in the samples of at most r queries that are like it. `reveal` is every other read: it costs epsilon = infinity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from dpicl.accounting import dp_event as dp
from dpicl.accounting.events import flatten
from dpicl.accounting.ledger import JOINED, SAMPLED, Ledger
from dpicl.core.errors import BudgetExceeded, DataError, PluginError, UsageError
from dpicl.core.seeds import NoiseSource, SamplingRandomness
from dpicl.core.vocabulary import Partition
from dpicl.privacy.joining import Joining
from dpicl.privacy.release_hooks import Permit
from dpicl.privacy.secure_release import require_few_rows


class PrivateRecord(Protocol):
    """What a private record must have; read-only."""

    @property
    def text(self) -> str: ...

    @property
    def label(self) -> str: ...


#: (texts, name of an embedding model) -> float64[n, d]; every row a function of its own text, of length 1 or 0.
Embed = Callable[[Sequence[str], str], np.ndarray]
#: Slots of records: one tuple a slot; empty slots are empty tuples.
Slots = tuple[tuple[PrivateRecord, ...], ...]


@dataclass(frozen=True)
class Assigned:
    """One sample, assigned to slots. number: M; None: each record has its own. size: records of the group. uses: where
    records join samples by likeness, the most that one record joins; None for Poisson samples."""

    partition: Partition
    rate: float
    number: int | None
    size: int
    slots: Slots
    uses: int | None = None


class SampleObserver:
    """Sees how samples are drawn and spent: the conformance kit, an exact audit. This one does nothing about it."""

    def begin_sample(self, partition: Partition) -> None:
        """The next sample is about to be drawn."""

    def end_sample(self, assigned: Assigned) -> None:
        """It was drawn."""

    def note_spend(self, event: dp.DpEvent, permit: Permit, sample: int) -> None:
        """A permit was given for a release from a sample (their number, from 0, in order of the draws)."""

    def note_reveal(self) -> None:
        """All records were read, at epsilon = infinity."""

    def looking(self) -> AbstractContextManager[None]:
        """Inside this block the private set itself looks at all records, to see which queries they will join."""
        return nullcontext()


class LentRecord:
    """A record of a sample, readable as long as the sample is open."""

    __slots__ = ("_read",)

    def __init__(self, record: PrivateRecord, require_open: Callable[[], None]) -> None:
        def read() -> PrivateRecord:
            require_open()
            return record

        self._read = read

    @property
    def text(self) -> str:
        return self._read().text

    @property
    def label(self) -> str:
        return self._read().label


class Sample:
    """One sample, assigned to slots, with the right to make the releases that were charged for it.

    releases: what was charged. noise: where the noise of these releases comes from.
    permitted: told of every permit that is given. used: called when one is used.
    own_slots: whether every sampled record has a slot of its own: one more adds a slot and changes no other.
    replaced: how many slots one more record changes, where slots are shared.
    Once it is closed, its records cannot be read and its releases cannot be made.
    """

    __slots__ = ("_read", "close", "own_slots", "replaced", "spend")

    #: `spend(event) -> Permit`: the right to make one release (or a choice of several in order), with its noise. Raises
    #: BudgetExceeded for a release that was not charged, and when the sample is closed; then nothing is drawn.
    spend: Callable[[dp.DpEvent], Permit]
    close: Callable[[], None]

    def __init__(
        self,
        slots: Iterable[Iterable[PrivateRecord]],
        releases: dp.DpEvent,
        noise: NoiseSource,
        permitted: Callable[[dp.DpEvent, Permit], None] = lambda event, permit: None,
        used: Callable[[], None] = lambda: None,
        *,
        own_slots: bool = False,
        replaced: int = 1,
    ) -> None:
        self.own_slots, self.replaced = own_slots, replaced
        # All state is in these functions: what a mechanism holds names no record, no noise and no charge.
        is_open, unspent = True, flatten(releases)

        def require_open() -> None:
            if not is_open:
                raise PluginError(
                    "A record of a closed sample was read: a sample is charged for its own releases; read `slots`"
                    " before the next sample is drawn, and keep no record."
                )

        def require_open_for_releases() -> None:
            if not is_open:
                raise BudgetExceeded(
                    "A release comes after its sample was closed: a permit is for the sample that it was charged for;"
                    " use it before the next sample is drawn. Nothing was drawn."
                )

        lent = tuple(tuple(LentRecord(record, require_open) for record in slot) for slot in slots)

        def read() -> Slots:
            require_open()
            return lent

        def spend(event: dp.DpEvent) -> Permit:
            nonlocal unspent
            components = flatten(event)
            if dp.NonPrivateDpEvent() in unspent:
                # epsilon is infinite: once more costs no more
                components.pop(dp.NonPrivateDpEvent(), None)
            if not is_open or not components <= unspent:
                why = (
                    "was not charged when its sample was drawn"
                    if is_open
                    else "comes after its sample was closed"
                )
                raise BudgetExceeded(
                    f"The release {event!r} {why}; declare every release of a sample in `poisson_slots(...,"
                    " releases=...)`, and make it before the next sample is drawn. Nothing was drawn."
                )
            permit = Permit(event, noise, used, require_open_for_releases)
            unspent = unspent - components
            permitted(event, permit)
            return permit

        def close() -> None:
            nonlocal is_open
            is_open = False

        self._read, self.spend, self.close = read, spend, close

    @property
    def slots(self) -> Slots:
        """One tuple of records a slot; empty slots are empty tuples. Raises PluginError when the sample is closed."""
        return self._read()


class SlotSampler:
    """Draws the samples that were charged: Poisson samples, each with fresh randomness, or those of queries.

    next_sample: draws one. times: how many were charged.
    """

    __slots__ = ("close", "draw")

    #: `draw() -> Sample`: samples each record with probability q and assigns the sampled ones, independently and
    #: uniformly, to slots; `draw(text)` where records join the queries that they are like. Closes the sample that was
    #: drawn before. Raises BudgetExceeded when as many samples as were charged have been drawn.
    draw: Callable[..., Sample]
    #: `close()`: closes the sample that was drawn last.
    close: Callable[[], None]

    def __init__(self, next_sample: Callable[..., Sample], times: int) -> None:
        left, last = times, None

        def draw(*query: str) -> Sample:
            nonlocal left, last
            if left <= 0:
                raise BudgetExceeded(
                    "More samples were drawn than were charged; raise `times` in `poisson_slots`."
                )
            left -= 1
            close()
            last = next_sample(*query)
            return last

        def close() -> None:
            if last is not None:
                last.close()

        self.draw, self.close = draw, close


@dataclass
class _Records:
    """What a private set keeps from its mechanism: the records by group (None: all of them), and how they are charged,
    sampled and released. permits: how many were used."""

    groups: dict[Partition, list[PrivateRecord]]
    ledger: Ledger
    sampling: SamplingRandomness
    noise: NoiseSource
    observer: SampleObserver
    embed: Embed | None
    samplers: list[SlotSampler] = field(default_factory=list)
    drawn: int = 0
    permits: int = 0

    def poisson_slots(
        self,
        rate: float,
        slots: int | None,
        partition: Partition,
        releases: dp.DpEvent,
        times: int,
        shuffled: bool,
    ) -> SlotSampler:
        event = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, releases), times)
        self.ledger.charge(event, partition, note=SAMPLED)

        def next_sample() -> Sample:
            group = self.groups.get(partition, [])
            self.observer.begin_sample(partition)
            assigned = _assign_slots(group, rate, slots, shuffled, self.sampling)
            return self._sample(
                Assigned(partition, rate, slots, len(group), assigned),
                releases,
                own_slots=slots is None,
            )

        return self._sampler(next_sample, times)

    def joining_slots(
        self,
        slots: int,
        threshold: float,
        uses: int,
        embedding: str,
        releases: dp.DpEvent,
        times: int,
        nearest: int | None,
    ) -> SlotSampler:
        if (embed := self.embed) is None:
            raise PluginError(
                "Records join queries in runs of answer mechanisms alone; draw Poisson samples here."
            )
        if not self.noise.seeded:
            require_few_rows(slots)
        self.ledger.charge(
            dp.SelfComposedDpEvent(releases, min(uses, times)),
            None,
            note=JOINED,
        )
        with self.observer.looking():
            contents = [(record.text, record.label) for record in self.groups[None]]
            rows = embed([text for text, _ in contents], embedding)
        joining = Joining(contents, rows, slots, threshold, uses, nearest)

        def next_sample(query: str) -> Sample:
            group = self.groups.get(None, [])
            joined = joining.join(embed([query], embedding)[0])
            assigned = tuple(tuple(group[at] for at in slot if group) for slot in joined)
            assignment = Assigned(None, 1.0, slots, len(group), assigned, uses)
            return self._sample(
                assignment, releases, own_slots=False, replaced=1 if nearest is None else 2
            )

        return self._sampler(next_sample, times)

    def reveal(self, note: str) -> list[PrivateRecord]:
        self.ledger.charge(dp.NonPrivateDpEvent(), None, note)
        self.observer.note_reveal()
        return list(self.groups.get(None, ()))

    def close(self) -> int:
        for each in self.samplers:
            each.close()
        self.groups.clear()
        return self.permits

    def _sampler(self, next_sample: Callable[..., Sample], times: int) -> SlotSampler:
        self.samplers.append(SlotSampler(next_sample, times))
        return self.samplers[-1]

    def _sample(
        self,
        assigned: Assigned,
        releases: dp.DpEvent,
        own_slots: bool,
        replaced: int = 1,
    ) -> Sample:
        number = self.drawn
        self.drawn += 1
        self.observer.end_sample(assigned)

        def note_permit(event: dp.DpEvent, permit: Permit) -> None:
            self.observer.note_spend(event, permit, number)

        return Sample(
            assigned.slots,
            releases,
            self.noise,
            note_permit,
            self._count_use,
            own_slots=own_slots,
            replaced=replaced,
        )

    def _count_use(self) -> None:
        self.permits += 1


class PrivateSet:
    """Private records, read only through the ledger. No attribute of it holds records, ledger or noise.

    sizes: n_y of every group that may be sampled, as public constants: sampling rates come from them and never from a
        count of the records. With the single key None all records are one group; otherwise the records of one label are
        disjoint from those of the others (one label a record), and each label is a group of its own.
    sampling: where the sampling randomness comes from (secret where the noise is: amplification rests on it).
    noise: where the noise of releases comes from.
    observer: told of every sample and every permit.
    embed: the public embedding by which records join queries; None where none is wanted.
    """

    def __init__(
        self,
        records: Sequence[PrivateRecord],
        ledger: Ledger,
        *,
        sizes: Mapping[Partition, int],
        sampling: SamplingRandomness,
        noise: NoiseSource,
        observer: SampleObserver | None = None,
        embed: Embed | None = None,
    ) -> None:
        self._sizes = dict(sizes)
        self.partitioned = None not in self._sizes
        self._seeded = noise.seeded
        groups: dict[Partition, list[PrivateRecord]] = {None: list(records)}
        for record in records:
            groups.setdefault(record.label, []).append(record)
        content = _Records(groups, ledger, sampling, noise, observer or SampleObserver(), embed)
        # Functions, and no bound methods: those have an attribute that leads to what they are bound to.
        self._poisson_slots = lambda *arguments: content.poisson_slots(*arguments)
        self._joining_slots = lambda *arguments: content.joining_slots(*arguments)
        self._reveal = lambda note: content.reveal(note)
        self._close = lambda: content.close()

    @property
    def groups(self) -> tuple[Partition, ...]:
        """The groups that may be sampled, which are public: labels, or None alone for all records."""
        return tuple(self._sizes)

    def partition_of(self, label: str) -> Partition:
        """The group that a demonstration with this label is made from."""
        return label if self.partitioned else None

    def size(self, partition: Partition) -> int:
        """n_y, a public constant. Raises DataError for a group that the task does not name."""
        if not self._sizes.get(partition):
            raise DataError(
                f"There is no private record of {partition!r}; choose another label or load more records."
            )
        return self._sizes[partition]

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
        """Charges ``times`` x Poisson(q = expected/n_y, releases), and returns the sampler of these samples.

        The whole number is charged before the first draw: stopping early is post-processing and gives nothing back.

        expected: expected number of records in a sample, a public constant (M*N or s).
        slots: M, how many slots the sampled records are assigned to; None gives every sampled record its own slot.
        releases: everything that will be released from one sample.
        shuffled: the records of a slot come in random order; else in the order of the set.
        Raises UsageError when the group is smaller than the expected sample or ``times`` is not a whole number of at
        least 1, and BudgetExceeded before anything is sampled.
        """
        _require_count("samples", times)
        rate = sampling_rate(expected, self.size(partition), partition)
        if not self._seeded:
            require_few_rows(slots or 2 * expected)
        return self._poisson_slots(rate, slots, partition, releases, times, shuffled)

    def joining_slots(
        self,
        slots: int,
        *,
        threshold: float,
        uses: int,
        embedding: str,
        releases: dp.DpEvent,
        times: int,
        nearest: int | None = None,
    ) -> SlotSampler:
        """Charges min(uses, times) x releases, and returns the sampler of ``times`` queries: `draw(text)`.

        A record joins a query when the inner product of their embeddings is at least the threshold and it has joined
        fewer than ``uses``; its slot among ``slots`` is a public hash of its content (dpicl.privacy.joining has
        the theorem). Slots are shared: one more record changes one slot of what it joins, two where the ``nearest`` of
        those that join are shown alone.

        releases: everything that will be released from one sample; so ``times`` samples have the right to it, and no
        record is behind more than ``uses`` of them.
        Raises UsageError for numbers below 1, PluginError where the set has no embedding, and BudgetExceeded before
        anything is read.
        """
        _require_count("samples", times)
        _require_count("queries that a record joins", uses)
        return self._joining_slots(slots, threshold, uses, embedding, releases, times, nearest)

    def reveal(self, note: str = "records read without a mechanism") -> list[PrivateRecord]:
        """All records, at the price of epsilon = infinity."""
        return self._reveal(note)

    def close(self) -> int:
        """Ends the run: closes every sample, and no other is drawn from records. Returns how many permits were used."""
        return self._close()


def _require_count(what: str, number: int) -> None:
    if not isinstance(number, int) or number < 1:
        raise UsageError(
            f"The number of {what} must be a whole number of at least 1, not {number!r}."
        )


def _assign_slots(
    group: Sequence[PrivateRecord],
    rate: float,
    slots: int | None,
    shuffled: bool,
    sampling: SamplingRandomness,
) -> Slots:
    """One Poisson sample of a group, assigned to slots (None: a slot for each sampled record)."""
    chosen = np.flatnonzero(sampling.uniform(len(group)) < rate)
    if slots is None:
        return tuple((group[i],) for i in chosen.tolist())
    assigned: list[list[PrivateRecord]] = [[] for _ in range(slots)]
    places = sampling.uniform(len(chosen)) * slots
    order = np.argsort(places % 1.0, kind="stable") if shuffled else np.arange(len(chosen))
    for at in order.tolist():
        assigned[int(places[at])].append(group[int(chosen[at])])
    return tuple(map(tuple, assigned))


def sampling_rate(expected: float, records: int, partition: Partition = None) -> float:
    """q = expected sample / n_y. Raises UsageError when it is not in (0, 1]."""
    rate = expected / records
    if not 0 < rate <= 1:
        where = "the private set" if partition is None else f"class '{partition}'"
        raise UsageError(
            f"The expected sample of {expected:g} records does not fit {where}, which has {records}; lower the number"
            " of slots, examples per slot or prompts, or leave this class out."
        )
    return rate
