"""Sampling schemes: how private records are assigned to the prompts of queries, with the privacy event of each.

| partition | the records of a slot | Q answers cost |
|---|---|---|
| per_query | a fresh Poisson sample for every query | Q x Poisson(q, release) |
| one_sample | one Poisson sample for all queries | Poisson(q, Q x release) |
| once | all records are assigned to slots; a slot shows its first N | Q x release: no amplification |

q = M N / n with M slots of N expected records. In all three a record touches one slot of a sample. The last two read
the examples of a slot once for all queries.

With N = 1 a mechanism may ask for ``own_slots``: every sampled record then has a slot of its own, M in expectation, in
`per_query` and in `one_sample`. Adding a record adds a slot (to the sample of a query with probability q, or to the one
sample of all queries, where it stays for all Q releases); it changes no other slot. With `once` every record is in
the one sample, M slots show one record each of those that they hold, and a record that is added takes the place of
another one: slots are shared, and a row is replaced.

`JoiningScheme` samples nothing: a record joins the first r queries that it is like (dpicl.privacy.joining), and
Q answers cost min(r, Q) x release.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from dpicl.accounting import dp_event as dp
from dpicl.accounting.events import compose
from dpicl.core.errors import UsageError, unknown_name
from dpicl.privacy.private_set import PrivateSet, Sample, sampling_rate

SchemeName = Literal["per_query", "one_sample", "once"]
SCHEMES: tuple[str, ...] = get_args(SchemeName)


class SlotScheme(Protocol):
    """How the queries of a run get their slots of records, and what that costs."""

    @property
    def single(self) -> bool:
        """Whether all queries see the same slots."""

    @property
    def own_slots(self) -> bool:
        """Whether every sampled record has a slot of its own, so that a record adds a row and replaces none."""

    @property
    def shown(self) -> int | None:
        """How many of a slot's records its prompt shows; None: all."""

    def event(self, release: dp.DpEvent, records: int, queries: int) -> dp.DpEvent:
        """What ``queries`` answers cost, each of which makes ``release`` from its sample of the n ``records``."""

    def sampler(
        self,
        private: PrivateSet,
        release: dp.DpEvent,
        queries: int,
    ) -> Callable[[str], Sample]:
        """The sample of a query, by its text, in order; the whole cost of all queries is charged before it returns.

        Raises BudgetExceeded when the ledger does not admit it.
        """

    def describe(self, records: int) -> str:
        """In a few words, which of the n records a query sees."""


@dataclass(frozen=True)
class SamplingScheme:
    """slots: M. examples_per_slot: N, expected records of a slot (once: the most that it shows). slot_per_record:
    whether the mechanism wants a slot for each record where it can have one."""

    slots: int
    examples_per_slot: int
    partition: SchemeName
    slot_per_record: bool = False

    def __post_init__(self) -> None:
        if self.partition not in SCHEMES:
            raise unknown_name("partition", str(self.partition), SCHEMES)

    @property
    def single(self) -> bool:
        """See SlotScheme."""
        return self.partition != "per_query"

    @property
    def own_slots(self) -> bool:
        """See SlotScheme."""
        return self.slot_per_record and self.examples_per_slot == 1 and self.partition != "once"

    @property
    def shown(self) -> int | None:
        """See SlotScheme."""
        return self.examples_per_slot if self.partition == "once" else None

    def event(self, release: dp.DpEvent, records: int, queries: int) -> dp.DpEvent:
        """See SlotScheme."""
        inside, times = self._repeat(release, queries)
        return compose(
            [dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(self._rate(records), inside), times)]
        )

    def sampler(
        self,
        private: PrivateSet,
        release: dp.DpEvent,
        queries: int,
    ) -> Callable[[str], Sample]:
        """See SlotScheme."""
        inside, times = self._repeat(release, queries)
        expected = (
            private.size(None) if self.partition == "once" else self.slots * self.examples_per_slot
        )
        sampler = private.poisson_slots(
            expected,
            None if self.own_slots else self.slots,
            partition=None,
            releases=inside,
            times=times,
            shuffled=True,
        )
        if not self.single:
            return lambda text: sampler.draw()
        sample = sampler.draw()
        return lambda text: sample

    def describe(self, records: int) -> str:
        """See SlotScheme."""
        return f"sampling rate {self._rate(records):.3g}"

    def _rate(self, records: int) -> float:
        return (
            1.0
            if self.partition == "once"
            else sampling_rate(self.slots * self.examples_per_slot, records)
        )

    def _repeat(
        self,
        release: dp.DpEvent,
        queries: int,
    ) -> tuple[dp.DpEvent, int]:
        """(what one sample releases, number of samples)."""
        return (dp.SelfComposedDpEvent(release, queries), 1) if self.single else (release, queries)


@dataclass(frozen=True)
class JoiningScheme:
    """slots: M. examples_per_slot: N, the most records of a slot that its prompt shows, the likest first. threshold:
    the least inner product of embeddings of length 1 at which a record joins a query. uses: r. embedding: name of the
    model. nearest: k, the likest of all that join, which alone are shown; None: all."""

    slots: int
    examples_per_slot: int
    threshold: float
    uses: int
    embedding: str
    nearest: int | None = None

    single = False
    own_slots = False

    def __post_init__(self) -> None:
        if not (-1 <= self.threshold <= 1 and self.uses >= 1):
            raise UsageError(
                f"Records join at a threshold in [-1, 1] and at least 1 query, not {self.threshold} and {self.uses}."
            )

    @property
    def shown(self) -> int | None:
        """See SlotScheme."""
        return self.examples_per_slot

    @property
    def replaced(self) -> int:
        """How many slots of a query one more record changes: its own, and that of the record which it displaces."""
        return 1 if self.nearest is None else 2

    def event(self, release: dp.DpEvent, records: int, queries: int) -> dp.DpEvent:
        """See SlotScheme. It depends neither on ``records`` nor, from r on, on ``queries``."""
        return compose([dp.SelfComposedDpEvent(release, min(self.uses, queries))])

    def sampler(
        self,
        private: PrivateSet,
        release: dp.DpEvent,
        queries: int,
    ) -> Callable[[str], Sample]:
        """See SlotScheme."""
        return private.joining_slots(
            self.slots,
            threshold=self.threshold,
            uses=self.uses,
            embedding=self.embedding,
            releases=release,
            times=queries,
            nearest=self.nearest,
        ).draw

    def describe(self, records: int) -> str:
        """See SlotScheme."""
        return f"a record joins {self.uses} queries at most, at a likeness of {self.threshold:g} or more"
