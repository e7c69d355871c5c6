"""Executes a mechanism: the only place where private records meet one.

A run, the conformance kit and the audits are callers with other arguments: other records, noise, ledgers, observers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from dpicl.accounting.ledger import Ledger
from dpicl.core.errors import UsageError
from dpicl.core.output_cache import OutputCache
from dpicl.core.seeds import NoiseSource, PublicStreams, SamplingRandomness, Streams, streams
from dpicl.core.vocabulary import FinalPrompt, Query, ReleasedPrompt, Report, Sizes, report_nothing
from dpicl.data.task import PublicTask
from dpicl.mechanism.bases import (
    AnswerContext,
    AnswerMechanism,
    Context,
    DemonstrationMechanism,
    Mechanism,
    Prepared,
    PreparedContext,
    PreparedMechanism,
    Reader,
)
from dpicl.mechanism.outputs import check_answer, check_prepared, check_prompt, check_state
from dpicl.models.base import LanguageModel
from dpicl.privacy.private_set import PrivateRecord, PrivateSet, Sample, SampleObserver
from dpicl.privacy.sampling_schemes import SamplingScheme, SlotScheme
from dpicl.releasing.reader import SlotReader, embed_texts

#: Queries -> answers by the query's id.
Answering = Callable[[Sequence[Query]], dict[str, str]]

#: How a prepared mechanism reads records: each in a slot of its own, once.
ALL_RECORDS = SamplingScheme(1, 1, "one_sample", slot_per_record=True)
#: What a mechanism released that gives answers.
NOTHING = ReleasedPrompt(None)


@dataclass(frozen=True)
class ExecutionResult:
    """What a mechanism made of the records; it leads to none of them.

    prompt: of a demonstration mechanism. answered: what an answer mechanism said to each query; None for other kinds.
    made: what a prepared one answers from, and restore: what makes it of its state. reader: by which the model writes
    what follows. releases: how many noisy releases there were.
    """

    mechanism: Mechanism
    queries: Sequence[Query] = ()
    report: Report = field(default=report_nothing, repr=False)
    prompt: ReleasedPrompt = NOTHING
    answered: Sequence[str | FinalPrompt] | None = None
    prepared: Prepared | None = None
    reader: Reader | None = field(default=None, repr=False)
    restore: Callable[[Mapping[str, np.ndarray]], Prepared] | None = field(default=None, repr=False)
    releases: int = 0

    @cached_property
    def answers(self) -> dict[str, str] | None:
        """Query id -> answer, which the model may still have to write from released things; None of demonstrations."""
        if self.answered is None or self.reader is None:
            return None if self.prepared is None else self.answer(self.queries)
        return _write(
            dict(
                zip(
                    (query.id for query in self.queries),
                    self.answered,
                    strict=True,
                )
            ),
            self.reader,
        )

    def answer(self, queries: Sequence[Query]) -> dict[str, str]:
        """Query id -> answer, from what was prepared, at no cost."""
        assert self.prepared is not None and self.reader is not None
        return answer_from(self.mechanism, self.prepared, self.reader, queries, self.report)

    @cached_property
    def state(self) -> dict[str, np.ndarray] | None:
        """What was prepared, as it can be saved; None where it cannot."""
        return None if self.prepared is None else check_state(self.mechanism, self.prepared)

    @property
    def texts(self) -> Sequence[str]:
        """What was published; of what was prepared its name, since every answer follows from it."""
        if self.prepared is not None:
            return [self.mechanism.name]
        return self.prompt.texts if self.answers is None else list(self.answers.values())


@dataclass(frozen=True)
class Execution:
    """A mechanism with everything that it is executed on.

    task, model, knob, knobs, public, shots: see `Context`. records, sizes, ledger, sampling, noise, observer: of the
    private set. queries: what is asked; as many are charged as ``sizes`` says. outputs: opens the cache of what
    slots answered and of embeddings. reader: one that has read the public prompts; None for one of this execution's
    own, by ``reads``. checked: what is done with the prompt that a mechanism returns. report: called with (done, total,
    unit).
    """

    mechanism: Mechanism
    task: PublicTask
    model: LanguageModel
    knob: float
    knobs: Mapping[str, float] = field(default_factory=dict)
    _: KW_ONLY
    records: Sequence[PrivateRecord] = field(repr=False)
    sizes: Sizes
    sampling: SamplingRandomness
    noise: NoiseSource
    public: PublicStreams
    ledger: Ledger = field(default_factory=lambda: Ledger(None, math.inf))
    observer: SampleObserver | None = None
    shots: tuple[str, ...] = ()
    queries: Sequence[Query] = ()
    outputs: Callable[[], OutputCache] = lambda: OutputCache(None)
    reader: Reader | None = None
    reads: Callable[..., Reader] = SlotReader
    checked: Callable[..., ReleasedPrompt] = check_prompt
    report: Report = report_nothing

    @cached_property
    def private(self) -> PrivateSet:
        return PrivateSet(
            self.records,
            self.ledger,
            sizes=self.sizes.records,
            sampling=self.sampling,
            noise=self.noise,
            observer=self.observer,
            embed=self.embed,
        )

    def run(self) -> ExecutionResult:
        """What the mechanism makes. No record can be read afterwards. Raises PluginError for a mechanism of no kind.

        A mechanism is never given its execution, which holds records and noise.
        """
        match mechanism := self.mechanism:
            case DemonstrationMechanism():
                result = ExecutionResult(
                    mechanism, prompt=self._check(mechanism.release(self.private, self._context))
                )
            case AnswerMechanism():
                # The public prompts are read before any record is assigned to slots, and all queries are charged before
                # the first is answered.
                reader = self._reader(mechanism.scheme, mechanism.record_tokens)
                context = AnswerContext(self.task, reader, self.knob, self.public)
                sample_for = self.sampler(mechanism)
                answered: list[str | FinalPrompt] = []
                for query in self.queries:
                    output = mechanism.answer(query, sample_for(query.text), context)
                    answered.append(check_answer(mechanism, output))
                    self.report(len(answered), len(self.queries), "answers")
                result = ExecutionResult(
                    mechanism, self.queries, self.report, answered=answered, reader=reader
                )
            case PreparedMechanism():
                context = PreparedContext(
                    self.task,
                    self._reader(ALL_RECORDS, public=False),
                    self.knob,
                    self.public,
                )
                result = ExecutionResult(
                    mechanism,
                    self.queries,
                    self.report,
                    prepared=check_prepared(mechanism, mechanism.prepare(self.private, context)),
                    reader=context.reader,
                    restore=partial(_restore, mechanism, context),
                )
            case _:
                raise mechanism.no_kind_error()
        return replace(result, releases=self.private.close())

    @property
    def _context(self) -> Context:
        report, shots = self.report, len(self.shots)  # what is handed out leads to no record

        def progress(done: int) -> None:
            report(done, shots, "demonstrations")

        knobs = dict(self.knobs)
        return Context(
            self.task,
            self.model,
            self.shots,
            self.knob,
            self.public,
            progress,
            self.embed,
            knobs,
        )

    def _check(self, output: object) -> ReleasedPrompt:
        return self.checked(self.mechanism, output, self.shots, self.model)

    @property
    def embed(self) -> Callable[[Sequence[str], str], np.ndarray]:
        """See `Context`."""
        outputs, model, task = self.outputs, self.model, self.task.name
        return lambda texts, name: embed_texts(texts, name, outputs(), model.identity.name, task)

    def sampler(self, mechanism: AnswerMechanism) -> Callable[[str], Sample]:
        """A query's text -> its sample, all of them charged. Raises BudgetExceeded where the ledger has too little."""
        budget = self.sizes.queries or len(self.queries)
        return mechanism.scheme.sampler(self.private, mechanism.release(self.knob), budget)

    def _reader(
        self,
        scheme: SlotScheme,
        record_tokens: int | None = None,
        public: bool = True,
    ) -> Reader:
        if self.reader is not None:
            return self.reader
        reader = self.reads(
            self.task,
            self.model,
            self.outputs(),
            scheme,
            self.queries,
            record_tokens,
        )
        if public:
            reader.read_public()
        return reader


def _restore(
    mechanism: PreparedMechanism,
    context: PreparedContext,
    state: Mapping[str, np.ndarray],
) -> Prepared:
    return mechanism.restore(state, context)


def sampling_of(mechanism: Mechanism, randomness: Streams) -> NoiseSource:
    """The sampling randomness: of the release's seed, or of the mechanism's own (answers alone have one)."""
    seed: int | None = getattr(mechanism, "sampling_seed", None)
    if seed is None:
        return randomness.source("sampling")
    if randomness.secure:
        raise UsageError(
            "Option sampling_seed makes the sampling randomness public, and noise: secure keeps it secret; drop one."
        )
    return streams(seed).source("sampling")


def require_budget(queries: Sequence[Query], budget: int) -> None:
    """Raises UsageError when there are more queries than are charged, or two have one id."""
    if len(queries) > budget:
        raise UsageError(
            f"There are {len(queries)} queries but the budget is for {budget}; raise `queries`."
        )
    if len({query.id for query in queries}) < len(queries):
        raise UsageError(
            "Two queries have the same id; remove the repeated record from the test set."
        )


def answer_from(
    mechanism: Mechanism,
    prepared: Prepared,
    reader: Reader,
    queries: Sequence[Query],
    report: Report,
) -> dict[str, str]:
    """Query id -> answer, from what was prepared; the private set is closed before."""
    answers: dict[str, str | FinalPrompt] = {}
    for query in queries:
        answers[query.id] = check_answer(mechanism, prepared.answer(query))
        report(len(answers), len(queries), "answers")
    return _write(answers, reader)


def _write(
    answers: Mapping[str, str | FinalPrompt],
    reader: Reader,
) -> dict[str, str]:
    """The answers, with those that the model still has to write, all together."""
    waiting = {
        key: answer.prompt for key, answer in answers.items() if isinstance(answer, FinalPrompt)
    }
    written = dict(
        zip(
            waiting,
            reader.write(list(waiting.values())),
            strict=True,
        )
    )
    return {
        key: answer if isinstance(answer, str) else written[key] for key, answer in answers.items()
    }
