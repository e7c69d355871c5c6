"""What an attack is: it asks a target about members and others, and scores each; or it counts what came out.

An attack is one file with one class, found by its name. It sees no private record but the candidates that it is asked
about, except where its `access` is white-box.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from harness.attacks.results import Access, Estimate, LowerBound

if TYPE_CHECKING:
    from harness.attacks.targets import Target
    from harness.mechanism import Mechanism
    from harness.models.base import LanguageModel
    from harness.record_sets import Record
    from harness.releasing import Terms
    from harness.task import Task

Report = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Scene:
    """Everything that an attack works with.

    members: the private set. others: records of the same distribution that are not in it.
    face: makes a target, with a budget of its own, from any private set (the members, as a rule).
    """

    task: Task
    model: LanguageModel
    mechanism: Mechanism
    members: tuple[Record, ...]
    others: tuple[Record, ...]
    terms: Terms
    face: Callable[[tuple[Record, ...]], Target]
    report: Report = field(default=lambda *_: None)


@dataclass(frozen=True)
class Finding:
    """What an attack found; see `AttackResult` for the fields. target: the one whose privacy stands in the result."""

    target: Target
    bound: LowerBound | None = None
    measures: Mapping[str, Estimate] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Attack(ABC):
    """Subclasses are frozen dataclasses whose fields are their options."""

    name: ClassVar[str]
    access: ClassVar[Access]
    #: Where the attack comes from, for tables and pages.
    source: ClassVar[str]
    #: One sentence for `dpicl list attacks`.
    summary: ClassVar[str]

    @abstractmethod
    def skip(self, mechanism: Mechanism, task: Task) -> str | None:
        """Why this attack says nothing about this mechanism on this task, or None."""

    @abstractmethod
    def run(self, scene: Scene) -> Finding:
        """Makes the attack. Raises UsageError when the scene does not fit, and whatever a release may raise."""
