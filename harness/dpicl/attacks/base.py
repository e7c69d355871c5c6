"""The base class of attacks, with what one gets and returns.

An attack is one file with one class, found by its name. It sees no private record but the candidates that it is asked
about, except where its `access` is white-box.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dpicl.attacks.results import Access, Estimate, LowerBound
from dpicl.attacks.targets import Target
from dpicl.attacks.views import replace_records
from dpicl.core.cell import ReleaseConfig
from dpicl.core.output_cache import OutputCache
from dpicl.core.plugins import Pluggable
from dpicl.core.vocabulary import Partition, Record, Report, report_nothing
from dpicl.data.task import Task
from dpicl.mechanism.bases import Mechanism
from dpicl.models.base import LanguageModel


@dataclass(frozen=True)
class AttackSetup:
    """Everything that an attack works with.

    members: the private set. others: records of the same distribution that are not in it.
    canaries: those of both whose membership an independent fair coin decided (see dpicl.attacks.one_run).
    sizes: n_y of each group that is released from, as public constants: the expected number of members.
    redraw: makes another setup of its kind. outputs: opens the cache of what slots answered.
    """

    task: Task
    model: LanguageModel
    mechanism: Mechanism
    members: tuple[Record, ...]
    others: tuple[Record, ...]
    config: ReleaseConfig
    canaries: frozenset[Record] = frozenset()
    sizes: Mapping[Partition, int] | None = None
    redraw: Callable[[int], AttackSetup] | None = None
    outputs: Callable[[], OutputCache] = lambda: OutputCache(None)
    report: Report = report_nothing

    @property
    def candidates(self) -> list[Record]:
        """Members and others, in an order that says nothing about which is which."""
        return sorted((*self.members, *self.others), key=_priority)

    def target(self) -> Target:
        """What was released from the members."""
        return self.make_target(self.members, self.sizes)

    def make_target(
        self,
        records: Sequence[Record],
        sizes: Mapping[Partition, int] | None = None,
    ) -> Target:
        """A target, with a budget of its own, from any private set; sizes: n_y, else the records are counted."""
        task = replace_records(self.task, records, sizes)
        return Target(self.mechanism, task, self.model, self.config, self.outputs, self.report)

    def resample(self, number: int) -> AttackSetup:
        """The setup of another release: other records, another sample, other noise; this one for the first."""
        return self if number == 0 or self.redraw is None else self.redraw(number)


@dataclass(frozen=True)
class AttackFinding:
    """What an attack found; see `AttackResult` for the fields. target: the one whose privacy stands in the result."""

    target: Target
    bound: LowerBound | None = None
    measures: Mapping[str, Estimate] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Attack(Pluggable):
    """Subclasses are frozen dataclasses whose fields are their options."""

    access: ClassVar[Access] = "black-box"
    #: One sentence for `dpicl list attacks`.
    summary: ClassVar[str]
    #: Demonstrations that a demonstration mechanism releases, unless the user says otherwise.
    shots: ClassVar[int] = 4
    #: Whether it tells members from others, so that it needs others.
    membership: ClassVar[bool] = True
    #: The mechanism broken on purpose that shows its power best (see dpicl.attacks.broken).
    positive_control: ClassVar[str] = "broken_answers"

    @abstractmethod
    def skip(self, mechanism: Mechanism, task: Task) -> str | None:
        """Why this attack says nothing about this mechanism on this task, or None."""

    @abstractmethod
    def run(self, setup: AttackSetup) -> AttackFinding:
        """Makes the attack. Raises UsageError when the setup does not fit, and whatever a release may raise."""


def _priority(record: Record) -> bytes:
    return hashlib.sha256(f"candidate:{record.text}".encode("utf-8", "surrogatepass")).digest()
