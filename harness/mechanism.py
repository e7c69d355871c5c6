"""The two mechanism interfaces, and what passes through them.

A mechanism turns private records into something that may be released. It is one file with one class: the class states
its knob (the one number that buys privacy), the worst-case events of a run, and how it releases. It never computes
its own noise from epsilon: the harness calibrates the knob so that ``events(knob, sizes)`` is proved to cost at most
epsilon.

    @dataclass(frozen=True)
    class MyMethod(DemonstrationMechanism):
        name = "my_method"
        knob = Knob("noise_multiplier", low=0.05, high=1000.0, non_private=0.0)
        slots: int = 10                       # dataclass fields are the options that a suite may set
        def events(self, knob, sizes): ...
        def release(self, private, context): ...
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from harness.models.base import LanguageModel
    from harness.privacy.private_set import PrivateSet
    from harness.seeds import NoiseSource, Streams
    from harness.task import Task

#: A group of records that is disjoint from every other group (a label), or None where there is no partition.
Partition = str | None


@dataclass(frozen=True)
class Knob:
    """The one number that buys privacy: the larger it is, the more private the release.

    ``low`` and ``high`` bracket the search; ``non_private`` is the value that stands for epsilon = infinity.
    """

    name: str
    low: float
    high: float
    non_private: float


@dataclass(frozen=True)
class Sizes:
    """The public numbers that an epsilon depends on.

    records: n_y, the number of private records of each partition (public constants, never counted again during a run).
    shots: how many demonstrations are released from each partition (only the partitions that are used).
    queries: Q, how many queries the release answers; None when it is unlimited.
    """

    records: Mapping[Partition, int]
    shots: Mapping[Partition, int]
    queries: int | None = None


@dataclass(frozen=True)
class Demonstration:
    """One released example: public label, released text, and how many tokens were drawn for it."""

    text: str
    label: str
    tokens: int
    stopped: bool = True


@dataclass(frozen=True)
class Context:
    """Everything public that a release may use.

    shots: the label (or keyword) of each demonstration to release, in order; drawn from public lists.
    knob: the calibrated value of the mechanism's knob.
    report: called with (done, total, unit) as the release proceeds.
    """

    task: Task
    model: LanguageModel
    shots: tuple[str, ...]
    knob: float
    streams: Streams
    noise: NoiseSource
    report: Callable[[int, int, str], None] = field(default=lambda done, total, unit: None)

    def for_each_shot(self, write: Callable[[str], Demonstration]) -> list[Demonstration]:
        """``write(label)`` for every shot in order, reporting after each."""
        demonstrations = []
        for label in self.shots:
            demonstrations.append(write(label))
            self.report(len(demonstrations), len(self.shots), "demonstrations")
        return demonstrations


class Mechanism(ABC):
    """What both kinds of mechanism share. Subclasses are frozen dataclasses whose fields are their options."""

    name: ClassVar[str]
    #: None when the mechanism has no knob (its epsilon is 0 or infinite whatever is asked).
    knob: ClassVar[Knob | None]
    #: The hyperparameters of the paper, by task: option name -> value. Used before the suite's own options.
    published: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    #: Where the method comes from, for tables and pages.
    source: ClassVar[str] = ""

    @abstractmethod
    def events(self, knob: float, sizes: Sizes) -> DpEvent:
        """Everything that a run may cause, in the worst case, as one event (see harness.privacy.events)."""

    def paper_epsilon(self, knob: float, sizes: Sizes, delta: float) -> float | None:
        """The epsilon that the authors would have claimed for this knob; None when they state no formula."""
        return None

    def skip(self, task: Task) -> str | None:
        """Why this mechanism cannot do this task, or None when it can."""
        return None


class DemonstrationMechanism(Mechanism):
    """Releases k synthetic demonstrations once; any number of queries is then free."""

    @abstractmethod
    def release(self, private: PrivateSet, context: Context) -> list[Demonstration]:
        """One demonstration for each entry of ``context.shots``, in the same order."""
