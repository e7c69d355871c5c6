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

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from dpicl.harness.core.errors import UsageError
from dpicl.harness.privacy.ledger import Partition as Partition
from dpicl.harness.privacy.sampling_schemes import Dealing, Way

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dpicl.harness.core.seeds import PublicStreams
    from dpicl.harness.data.task import PublicTask
    from dpicl.harness.models.base import LanguageModel
    from dpicl.harness.privacy.private_set import PrivateSet, Sample
    from dpicl.harness.run.reader import SlotReader


@dataclass(frozen=True)
class Knob:
    """The one number that buys privacy: the larger it is, the more private the release.

    ``low`` and ``high`` bracket the search; ``non_private`` is the value that stands for epsilon = infinity.
    Raises UsageError for numbers that bracket nothing.
    """

    name: str
    low: float
    high: float
    non_private: float

    def __post_init__(self) -> None:
        numbers = (self.low, self.high, self.non_private)
        plain = type(self.name) is str and all(type(each) in (int, float) and math.isfinite(each) for each in numbers)
        if not plain or not 0 < self.low < self.high or self.non_private < 0:
            raise UsageError(
                "A knob has a name and finite numbers: 0 < low < high, between which noise is looked for, and"
                " non_private, 0 or more."
            )


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

    @classmethod
    def of_queries(cls, records: int, queries: int) -> Sizes:
        """The sizes of an answer mechanism: n records in one group, Q queries, no demonstration."""
        return cls(records={None: records}, shots={}, queries=queries)


@dataclass(frozen=True)
class Demonstration:
    """One released example: public label and released text.

    tokens: how many tokens the text has. The harness counts them in what is published, whatever a mechanism says.
    """

    text: str
    label: str
    tokens: int = 0


@dataclass(frozen=True)
class Context:
    """Everything public that a release may use. Noise is drawn by the primitives, with permits of the samples.

    shots: the label (or keyword) of each demonstration to release, in order; drawn from public lists.
    knob: the calibrated value of the mechanism's knob.
    streams: public randomness.
    progress: called with the number of shots that are done.
    """

    task: PublicTask
    model: LanguageModel
    shots: tuple[str, ...]
    knob: float
    streams: PublicStreams
    progress: Callable[[int], None] = field(default=lambda done: None, repr=False)

    def for_each_shot(self, write: Callable[[str], Demonstration]) -> list[Demonstration]:
        """``write(label)`` for every shot in order, reporting after each."""
        demonstrations = []
        for label in self.shots:
            demonstrations.append(write(label))
            self.progress(len(demonstrations))
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
        """Everything that a run may cause, in the worst case, as one event (see dpicl.harness.privacy.events)."""

    def paper_epsilon(self, knob: float, sizes: Sizes, delta: float) -> float | None:
        """The epsilon that the authors would have claimed for this knob; None when they state no formula."""
        return None

    def skip(self, task: PublicTask) -> str | None:
        """Why this mechanism cannot do this task, or None when it can."""
        return None


class DemonstrationMechanism(Mechanism):
    """Releases k synthetic demonstrations once; any number of queries is then free."""

    @abstractmethod
    def release(self, private: PrivateSet, context: Context) -> list[Demonstration]:
        """One demonstration for each entry of ``context.shots``, in the same order."""


@dataclass(frozen=True)
class Query:
    """One public question. id: of its document, the same under every limit and order."""

    id: str
    text: str


@dataclass(frozen=True)
class FinalPrompt:
    """An answer that the model still has to write, greedily, from public and released things alone.

    It is post-processing, so the prompts of all queries may wait and be read together.
    """

    prompt: str


@dataclass(frozen=True)
class AnswerContext:
    """Everything besides the records that an answer may use.

    reader: the model, asked through slots (private) or without records (public); it keeps what it has read.
    knob: the calibrated value of the mechanism's knob. streams: public randomness.
    """

    task: PublicTask
    reader: SlotReader
    knob: float
    streams: PublicStreams


@dataclass(frozen=True)
class AnswerMechanism(Mechanism):
    """Answers each query from M slots of private records, and pays for each answer.

    A subclass says what one answer releases (`release`) and how it is made (`answer`); the harness deals the records,
    charges all Q queries before the first answer, and calibrates. Options that all of them share:

    slots: M. examples_per_slot: N, expected records of a slot. partition: see dpicl.harness.privacy.sampling_schemes.
    record_tokens: every record's text is cut to its first so many tokens (None: whole).
    sampling_seed: whose coins deal the records; None means the cell's own seed. With a fixed one, all seeds of a suite
        share what the model was asked, and their spread is that of the noise alone. Not with secure noise. Rows that
        share a sample do not compose as independent ones (docs/accounting.md, "row by row").
    """

    slots: int = 20
    examples_per_slot: int = 4
    partition: Way = "per_query"
    record_tokens: int | None = None
    sampling_seed: int | None = None

    def __post_init__(self) -> None:
        for name in ("slots", "examples_per_slot", "record_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"Option {name} must be at least 1, not {value}.")
        if self.sampling_seed is not None and self.sampling_seed < 0:
            raise UsageError(f"Option sampling_seed must be 0 or more, not {self.sampling_seed}.")
        self.dealing  # noqa: B018  refuses an unknown partition

    @property
    def dealing(self) -> Dealing:
        return Dealing(self.slots, self.examples_per_slot, self.partition)

    @abstractmethod
    def release(self, knob: float) -> DpEvent:
        """Everything that one answer releases from its sample: its primitives' events, composed."""

    @abstractmethod
    def answer(self, query: Query, sample: Sample, context: AnswerContext) -> str | FinalPrompt:
        """The answer to one query: a label, a phrase or a text; or the public prompt that the model will answer."""

    def events(self, knob: float, sizes: Sizes) -> DpEvent:
        """Q answers (``sizes.queries``; one, where it is None) from ``sizes.records[None]`` records."""
        return self.dealing.event(self.release(knob), sizes.records[None], sizes.queries or 1)
