"""The private records of a run. They come out only through doors that put the event on the ledger.

`poisson_slots` is the proved door: every record flips its own coin, and every sampled record is dealt, independently,
into one slot. Adding or removing one record changes one slot at most, whatever the others do, so the accountants for
Poisson sampling under add/remove hold for the code that runs. `reveal` is every other read: it costs epsilon =
infinity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from dp_accounting import dp_event as dp

from harness.errors import BudgetExceeded, DataError, UsageError
from harness.privacy.events import flatten
from harness.privacy.ledger import Ledger, Partition
from harness.seeds import Coins


class PrivateRecord(Protocol):
    """What a private record must have; read-only."""

    @property
    def text(self) -> str: ...

    @property
    def label(self) -> str: ...


class Sample:
    """One Poisson sample, dealt into slots, with the right to make the releases that were charged for it.

    slots: one tuple of records a slot; empty slots are empty tuples.
    """

    def __init__(self, slots: tuple[tuple[PrivateRecord, ...], ...], releases: dp.DpEvent) -> None:
        self.slots = slots
        self._unspent = flatten(releases)

    def spend(self, event: dp.DpEvent) -> None:
        """Called by a primitive before it draws noise. Raises BudgetExceeded for a release that was not charged."""
        wanted = flatten(event)
        if not wanted <= self._unspent:
            raise BudgetExceeded(
                f"The release {event!r} was not charged when its sample was drawn; declare every release of a sample"
                " in `poisson_slots(..., releases=...)`. Nothing was drawn."
            )
        self._unspent = self._unspent - wanted


class SlotSampler:
    """Draws the Poisson samples that were paid for, each with coins of its own."""

    def __init__(
        self,
        group: Sequence[PrivateRecord],
        rate: float,
        slots: int | None,
        releases: dp.DpEvent,
        times: int,
        coins: Coins,
        shuffled: bool = False,
    ) -> None:
        self._group, self._rate, self._slots, self._releases = group, rate, slots, releases
        self._left, self._coins, self._shuffled = times, coins, shuffled

    def draw(self) -> Sample:
        """Samples each record with probability q and deals the sampled ones, independently and uniformly, into slots.

        Raises BudgetExceeded when as many samples as were charged have been drawn.
        """
        if self._left <= 0:
            raise BudgetExceeded("More samples were asked for than were charged; raise `times` in `poisson_slots`.")
        self._left -= 1
        chosen = np.flatnonzero(self._coins.uniform(len(self._group)) < self._rate)
        if self._slots is None:
            return Sample(tuple((self._group[i],) for i in chosen.tolist()), self._releases)
        dealt: list[list[PrivateRecord]] = [[] for _ in range(self._slots)]
        places = self._coins.uniform(len(chosen)) * self._slots
        order = np.argsort(places % 1.0, kind="stable") if self._shuffled else np.arange(len(chosen))
        for at in order.tolist():
            dealt[int(places[at])].append(self._group[int(chosen[at])])
        return Sample(tuple(map(tuple, dealt)), self._releases)


class PrivateSet:
    """Private records behind the ledger.

    sizes: n_y of every group that may be sampled, as public constants: sampling rates come from them and never from a
        count of the records. With the single key None all records are one group; otherwise the records of one label are
        disjoint from those of the others (one label a record), and each label is a group of its own.
    coins: where the sampling coins come from (secret where the noise is: amplification rests on them).
    """

    def __init__(
        self,
        records: Sequence[PrivateRecord],
        ledger: Ledger,
        *,
        sizes: Mapping[Partition, int],
        coins: Coins,
    ) -> None:
        self._records = tuple(records)
        self._ledger = ledger
        self._sizes = dict(sizes)
        self._coins = coins
        self.partitioned = None not in self._sizes

    def partition_of(self, label: str) -> Partition:
        """The group that a demonstration with this label is made from."""
        return label if self.partitioned else None

    def size(self, partition: Partition) -> int:
        """n_y, a public constant. Raises DataError for a group that the task does not name."""
        if not self._sizes.get(partition):
            raise DataError(f"There is no private record of {partition!r}; choose another label or load more records.")
        return self._sizes[partition]

    def _group(self, partition: Partition) -> list[PrivateRecord]:
        return [record for record in self._records if partition is None or record.label == partition]

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
        """Charges ``times`` x Poisson(q = expected/n_y, releases), and answers with the sampler that was paid for.

        The whole number is charged before the first draw: stopping early is post-processing and gives nothing back.

        expected: expected number of records in a sample, a public constant (M*N or s).
        slots: M, how many slots the sampled records are dealt into; None gives every sampled record a slot of its own.
        releases: everything that will be released from one sample.
        shuffled: the records of a slot come in random order, each by a coin of its own; else in the order of the set.
        Raises UsageError when the group is smaller than the expected sample or ``times`` is not a whole number of at
        least 1, and BudgetExceeded before any coin is flipped.
        """
        if not isinstance(times, int) or times < 1:
            raise UsageError(f"The number of samples must be a whole number of at least 1, not {times!r}.")
        rate = sampling_rate(expected, self.size(partition), partition)
        event = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, releases), times)
        self._ledger.charge(event, partition, note="Poisson sample")
        return SlotSampler(self._group(partition), rate, slots, releases, times, self._coins, shuffled)

    def reveal(self, note: str = "records read without a mechanism") -> list[PrivateRecord]:
        """All records, at the price of epsilon = infinity."""
        self._ledger.charge(dp.NonPrivateDpEvent(), None, note)
        return list(self._records)


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
