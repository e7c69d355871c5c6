"""The three base classes of mechanisms, and the objects they work with.

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
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from dpicl.accounting import dp_event as dp
from dpicl.accounting.events import flatten, merge_groups
from dpicl.core.cell import Options
from dpicl.core.errors import PluginError
from dpicl.core.plugins import Pluggable
from dpicl.core.seeds import PublicStreams, shot_streams
from dpicl.core.together import is_job, run_together
from dpicl.core.vocabulary import (
    Demonstration,
    FinalPrompt,
    Knob,
    Query,
    ReleasedPrompt,
    Sizes,
)
from dpicl.data.task import PublicTask, Task
from dpicl.models.base import LanguageModel
from dpicl.models.embeddings import embed_alone
from dpicl.privacy.private_set import PrivateRecord, PrivateSet, Sample
from dpicl.privacy.sampling_schemes import SamplingScheme, SchemeName, SlotScheme

#: The records of one prompt.
Slot = Sequence[PrivateRecord]


@dataclass(frozen=True)
class Context:
    """Everything public that a release may use. Noise is drawn by the primitives, with permits of the samples.

    shots: the label (or keyword) of each demonstration to release, in order; drawn from public lists.
    knob: the calibrated value of the mechanism's knob. knobs: that of each label, for a mechanism that is calibrated
        label by label (`Mechanism.knob_per_label`); `for_label` picks it.
    streams: public randomness.
    progress: called with the number of shots that are done.
    embed: (texts, name) -> float64[n, d] by the embedding model of that name: rows of length 1, each a function of its
        own text alone; the zero vector for an empty text.
    """

    task: PublicTask
    model: LanguageModel
    shots: tuple[str, ...]
    knob: float
    streams: PublicStreams
    progress: Callable[[int], None] = field(default=lambda done: None, repr=False)
    embed: Callable[[Sequence[str], str], np.ndarray] = field(default=embed_alone, repr=False)
    knobs: Mapping[str, float] = field(default_factory=dict)

    def for_label(self, label: str) -> Context:
        return replace(self, knob=self.knobs.get(label, self.knob))

    def for_each_shot(self, write: Callable[[str], Demonstration]) -> list[Demonstration]:
        """``write(label)`` for every shot, in their order; noise and samples come from streams of the shot's own.

        In a run, shots are written at the same time, and the model reads the prompts of all of them in full passes
        (dpicl.core.together). So ``write`` must not look at what another shot has done.
        """
        done = 0

        def write_shot(number: int, label: str) -> Demonstration:
            nonlocal done
            with shot_streams(number):
                demonstration = write(label)
            done += 1
            self.progress(done)
            return demonstration

        calls = [partial(write_shot, number, label) for number, label in enumerate(self.shots)]
        return run_together(calls) if is_job() else [call() for call in calls]


#: What a mechanism releases: demonstrations once, answers one by one, or something once from which all queries are
#: answered.
Kind = Literal["demonstrations", "answers", "prepared"]


#: What a mechanism needs of its model, from the least on: nothing; written texts; what `Reader` asks for, which is
#: log-probabilities of labels where a task has them and else texts; log-probabilities of tokens, at least of the
#: likeliest ones of each prompt; log-probabilities of any public set of tokens.
Needs = Literal["nothing", "texts", "reader", "log-probabilities", "candidates"]


#: A guess at the tokens of one record with its prompt; real records have 15 (TREC) to 120 (AG News).
RECORD_TOKENS = 80
#: A class size that any expected sample fits into.
_MANY = 10**7


class Mechanism(Pluggable):
    """What all kinds of mechanism share. Subclasses are frozen dataclasses whose fields are their options."""

    #: Of the base class: DemonstrationMechanism, AnswerMechanism or PreparedMechanism.
    kind: ClassVar[Kind | None] = None
    #: None when the mechanism has no knob (its epsilon is 0 or infinite whatever the target).
    knob: ClassVar[Knob | None]
    #: The hyperparameters of the paper, by task: option name -> value. Used before the suite's own options.
    published: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    #: Where the method comes from, for tables and pages.
    source: ClassVar[str] = ""
    #: Raised when what it releases, on the same inputs, changes: results of earlier versions are made again then.
    version: ClassVar[int] = 1
    #: What of it is our reading, where the paper's text could not be read; boards say it.
    reading: ClassVar[str] = ""
    #: What it needs of its model, which a model server may not give.
    needs: ClassVar[Needs] = "reader"
    #: What it does, in a line, for tables.
    summary: ClassVar[str] = ""
    #: Whether each label may have noise of its own: labels compose in parallel, so each is calibrated to the whole
    #: epsilon with its own number of records. It then releases with `Context.for_label`, and what `events` says of a
    #: label follows from that label's sizes alone.
    knob_per_label: ClassVar[bool] = False
    #: Of its kind: whether it releases texts once, which stand in every prompt; whether each answer costs epsilon;
    #: whether all records are read once, for a state that answers any query.
    releases_texts: ClassVar[bool] = False
    pays_per_query: ClassVar[bool] = False
    reads_all: ClassVar[bool] = False

    def plan_shots(
        self,
        task: PublicTask,
        shots: int,
        generator: np.random.Generator,
    ) -> tuple[str, ...]:
        """The label of every text that is released for a prompt of ``shots``, by public randomness; none where no text
        is. Raises PluginError for a mechanism that wants fewer, or other labels than the task has."""
        return ()

    def shot_labels(self, task: PublicTask) -> Sequence[str]:
        """The labels that texts are released for: the task's, unless the method leaves some out. A public choice, which
        follows from the options and the task's file."""
        return task.labels

    def public_sizes(self, task: Task, shots: Sequence[str], queries: int) -> Sizes:
        """The public numbers that an epsilon depends on: of these shots, or Q queries; ``task`` holds no record.

        Raises DataError for a group without records.
        """
        raise self.no_kind_error()

    def tokens_estimate(self, shots: int, queries: int) -> int:
        """About how many tokens the model reads for a release and so many queries of an evaluation."""
        raise self.no_kind_error()

    @classmethod
    def query_budget(cls, queries: int | None) -> int | None:
        """Q that an epsilon covers where ``queries`` are asked for; None where any number is free."""
        return queries if cls.pays_per_query else None

    @classmethod
    def collection(cls, options: Options) -> Hashable:
        """What two mechanisms with these options have in common that ask the model the same on the same records; None
        where they ask nothing twice."""
        return None

    def unmet_needs(self, task: PublicTask, model: LanguageModel) -> str | None:
        """Why a release cannot be made with this model's server, in a sentence; None where it can."""
        server, needs = model.server, self.needs
        if needs == "reader":
            needs = "log-probabilities" if task.chooses else "texts"
        if server is None or server.gives(needs):
            return None
        what = "of a public set of tokens" if needs == "candidates" else "of tokens"
        gives = (
            f"those of its {server.top_tokens} likeliest ones"
            if server.top_tokens
            else "texts alone"
        )
        return (
            f"{self.name} on {task.name} needs log-probabilities {what}, and {model.identity.name} gives {gives};"
            " choose another mechanism, or a server that gives them (docs/servers.md)."
        )

    def no_kind_error(self) -> PluginError:
        """The error of a mechanism that is of none of the kinds."""
        kinds = "neither a DemonstrationMechanism nor an AnswerMechanism nor a PreparedMechanism"
        return PluginError(f"Mechanism '{self.name}' is {kinds}.")

    @abstractmethod
    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        """Everything that a run may cause, in the worst case, as one event (see dpicl.accounting.events)."""

    def events_of(
        self,
        knob: float,
        by_label: Mapping[str, float],
        sizes: Sizes,
    ) -> dp.DpEvent:
        """`events`, with knobs of their own for the labels in ``by_label`` (none: ``knob`` for all)."""
        if not by_label:
            return self.events(knob, sizes)
        return merge_groups(
            self.events(by_label[str(label)], sizes.select_group(label)) for label in sizes.shots
        )

    def paper_epsilon(self, knob: float, sizes: Sizes, delta: float) -> float | None:
        """The epsilon that the authors would have claimed for this knob; None when they state no formula."""
        return None

    def skip(self, task: PublicTask) -> str | None:
        """Why this mechanism cannot do this task, or None when it can."""
        return None

    @property
    def by_label(self) -> bool:
        """Whether records of different labels are released from apart, where a task's labels are disjoint groups: then
        each label is a group of the private set, and labels compose in parallel. Else all records are one group.

        An answer mechanism always has one group.
        """
        return not self.pays_per_query


class DemonstrationMechanism(Mechanism):
    """Releases k synthetic demonstrations, or an instruction, once; any number of queries is then free."""

    kind = "demonstrations"
    releases_texts = True
    needs: ClassVar[Needs] = "candidates"

    def plan_shots(
        self,
        task: PublicTask,
        shots: int,
        generator: np.random.Generator,
    ) -> tuple[str, ...]:
        count: object = self.count_released(shots, task)
        if not isinstance(count, int) or isinstance(count, bool) or count < shots:
            raise PluginError(
                f"Mechanism '{self.name}' wants to release {count!r:.40} texts for {shots} shots."
            )
        labels = self.shot_labels(task)
        if task.labels and not (labels and {*labels} <= {*task.labels}):
            raise PluginError(
                f"Mechanism '{self.name}' wants to release texts of labels that {task.name} lacks."
            )
        return task.plan_shots(count, generator, labels)

    def public_sizes(self, task: Task, shots: Sequence[str], queries: int) -> Sizes:
        return task.sizes(shots) if self.by_label else Sizes({None: task.size}, {None: len(shots)})

    def tokens_estimate(self, shots: int, queries: int) -> int:
        """The events say how many records are read, how often, and how many tokens are drawn for each reading."""
        value = 0.0 if self.knob is None else math.sqrt(self.knob.low * self.knob.high)
        total = 0.0
        for component, readings in flatten(
            self.events(value, Sizes({None: _MANY}, {None: shots}))
        ).items():
            if isinstance(component, dp.PoissonSampledDpEvent):
                records = component.sampling_probability * _MANY
                drawn = sum(flatten(component.event).values())
                total += readings * records * (RECORD_TOKENS + drawn - 1)
        return queries * RECORD_TOKENS + round(total)

    def count_released(self, shots: int, task: PublicTask) -> int:
        """How many demonstrations are released where a prompt has ``shots``: these, unless more of them serve a
        classifier. The first ones stand in the prompt. A public number: `context.shots` has a label for each."""
        return shots

    @abstractmethod
    def release(
        self, private: PrivateSet, context: Context
    ) -> list[Demonstration] | ReleasedPrompt:
        """One demonstration for each entry of ``context.shots``, in the same order; or a prompt: an instruction that
        takes the place of the task's own, with these demonstrations or none."""


class Reader(Protocol):
    """The model as an answer mechanism may ask it: through slots of private records, or in public.

    Every output is a function of its own slot and of public things; nothing is asked twice.
    """

    def read_public(self) -> None:
        """Reads the zero-shot prompts of all queries, which empty slots will find in the cache.

        The harness does so before any record is assigned to slots. Raises PromptTooLong, and ModelError when the model
        answers one with numbers that are not finite.
        """

    def label_scores(
        self,
        query: Query,
        slots: Sequence[Slot],
        *,
        calibrated: bool,
    ) -> np.ndarray:
        """float64[M, L]: log-probability of each label word (all its tokens) after each slot's prompt.

        calibrated: minus the logarithm of the label's mean probability after the slot's examples and a content-free
        input, normalised over the labels: contextual calibration (Zhao et al. 2021) inside the slot. A row with a
        number that is not finite is all NaN.
        """

    def texts(self, query: Query, slots: Sequence[Slot]) -> list[str]:
        """The greedy answer of each slot, without blanks around it; '' where the model fails or says nothing."""

    def public_texts(self, query: Query, slots: Sequence[Slot]) -> list[str]:
        """As `texts`, from slots of public records, which are read together. Raises ModelError when the model fails."""

    def candidates(self, query: Query, count: int, temperature: float) -> list[str]:
        """``count`` public texts: the zero-shot answer, then samples of it at that temperature.

        Their randomness is public and belongs to the query, so every cell of a suite has the same ones.
        """

    def write(self, prompts: Sequence[str]) -> list[str]:
        """The greedy answers to public prompts. Raises PromptTooLong, and ModelError when the model fails."""

    def embed(self, texts: Sequence[str], name: str) -> np.ndarray:
        """float64[n, d] by the embedding model of that name: rows of length 1, the zero vector for an empty text."""


@dataclass(frozen=True)
class AnswerContext:
    """Everything besides the records that an answer, or a preparation with its answers, may use.

    reader: the model, asked through slots (private) or without records (public); it keeps what it has read.
    knob: the calibrated value of the mechanism's knob. streams: public randomness.
    """

    task: PublicTask
    reader: Reader
    knob: float
    streams: PublicStreams


@dataclass(frozen=True)
class AnswerMechanism(Mechanism):
    """Answers each query from M slots of private records, and pays for each answer.

    A subclass says what one answer releases (`release`) and how it is made (`answer`); the harness assigns the records
    to slots, charges all Q queries before the first answer, and calibrates. Options that all of them share:

    slots: M. examples_per_slot: N, expected records of a slot. partition: see dpicl.privacy.sampling_schemes.
        With N = 1 and ``slot_per_record`` every sampled record has a slot of its own (`scheme.own_slots`).
    record_tokens: every record's text is cut to its first so many tokens (None: whole).
    sampling_seed: the seed of the sampling randomness; None means the cell's own seed. With a fixed one, all seeds of a
        suite share what the model was asked, and their spread is that of the noise alone. Not with secure noise. Rows
        that share a sample do not compose as independent ones (docs/accounting.md, "row by row").
    """

    slots: int = 20
    examples_per_slot: int = 4
    partition: SchemeName = "per_query"
    record_tokens: int | None = None
    sampling_seed: int | None = None

    kind = "answers"
    pays_per_query = True

    #: Whether it takes a slot for each sampled record where N = 1: M is then an expected number, the number of slots is
    #: private, and its primitives state what one added row moves (``own_slots=self.scheme.own_slots``).
    slot_per_record: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self.require_at_least(slots=1, examples_per_slot=1, record_tokens=1, sampling_seed=0)
        self.require_at_most(slots=100_000, examples_per_slot=100_000)
        self.scheme  # noqa: B018  refuses an unknown partition

    def public_sizes(self, task: Task, shots: Sequence[str], queries: int) -> Sizes:
        return Sizes.from_queries(task.size, queries)

    def tokens_estimate(self, shots: int, queries: int) -> int:
        """What the slots read: their examples once where all queries share them, and every query."""
        examples = self.slots * self.examples_per_slot * (1 if self.scheme.single else queries)
        return (examples + queries * self.slots) * RECORD_TOKENS

    @classmethod
    def collection(cls, options: Options) -> Hashable:
        shared = ("slots", "examples_per_slot", "partition", "record_tokens", "sampling_seed")
        return tuple(options.get(name) for name in shared)

    @property
    def scheme(self) -> SlotScheme:
        """How queries get their slots; a subclass may have another one than the three of ``partition``."""
        return SamplingScheme(
            self.slots, self.examples_per_slot, self.partition, self.slot_per_record
        )

    @abstractmethod
    def release(self, knob: float) -> dp.DpEvent:
        """Everything that one answer releases from its sample: its primitives' events, composed."""

    @abstractmethod
    def answer(self, query: Query, sample: Sample, context: AnswerContext) -> str | FinalPrompt:
        """The answer to one query: a label, a phrase or a text; or the public prompt that the model will answer."""

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        """Q answers (``sizes.queries``; one, where it is None) from ``sizes.records[None]`` records."""
        return self.scheme.event(
            self.release(knob),
            sizes.records[None],
            sizes.queries or 1,
        )


class Prepared(Protocol):
    """What was released, and how it answers.

    One that can be saved also has ``state() -> Mapping[str, np.ndarray]``: what was released, as named arrays of finite
    numbers, and nothing else, since it is published. Its mechanism's `restore` makes it again.
    """

    def answer(self, query: Query) -> str | FinalPrompt:
        """The answer to one query: a label, a phrase or a text; or the public prompt that the model will answer.

        Post-processing: it follows from what was released, the query and public things alone. No record can be read any
        more when the first query is asked.
        """


#: Everything besides the records that a preparation and its answers may use.
PreparedContext = AnswerContext


class PreparedMechanism(Mechanism):
    """Releases something once, from which any number of queries is answered: class means, a linear model.

    The groups of the private set (`PrivateSet.groups`) are the task's labels where these are disjoint groups, unless
    `by_label` says otherwise. ``sizes`` of `events` has all of them, no shots, and no number of queries.
    """

    kind = "prepared"
    reads_all = True

    def public_sizes(self, task: Task, shots: Sequence[str], queries: int) -> Sizes:
        return Sizes(task.group_sizes if self.by_label else {None: task.size}, {})

    def tokens_estimate(self, shots: int, queries: int) -> int:
        """None: it asks no language model, and what its answers may ask in public is not known."""
        return 0

    @abstractmethod
    def prepare(self, private: PrivateSet, context: PreparedContext) -> Prepared:
        """Releases, and returns what answers. The private set is closed before the first query is asked."""

    def restore(self, state: Mapping[str, np.ndarray], context: PreparedContext) -> Prepared:
        """What answers as that did whose ``state`` (float64) was saved. The file may come from anybody.

        Raises KeyError or ValueError for a state that is none of this mechanism.
        """
        raise ValueError("its mechanism restores none")
