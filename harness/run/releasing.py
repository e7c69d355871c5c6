"""One release: calibrate, put the records behind a ledger, let the mechanism release, prove what the ledger holds.

This is the only place where private records meet a mechanism. Demonstrations, and what a prepared mechanism answers
from, are released once; an answer mechanism answers every test record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from dpicl.harness.core.cell import ReleaseConfig, large_delta
from dpicl.harness.core.errors import BudgetExceeded, PluginError, UsageError
from dpicl.harness.core.seeds import NoiseSource, PublicStreams, Streams, streams
from dpicl.harness.core.vocabulary import (
    RECORD_CENTRAL,
    Demonstration,
    FinalPrompt,
    Query,
    ReleasedPrompt,
    Report,
    Sizes,
    silent,
)
from dpicl.harness.data.concealed import concealed
from dpicl.harness.data.task import PublicTask, Task
from dpicl.harness.mechanism.bases import (
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
from dpicl.harness.mechanism.needs import lacking
from dpicl.harness.mechanism.options import option_types
from dpicl.harness.mechanism.outputs import (
    checked_answer,
    checked_claim,
    checked_prepared,
    checked_prompt,
    checked_state,
    named_failure,
    require_noise,
)
from dpicl.harness.models import misfit
from dpicl.harness.models.base import LanguageModel
from dpicl.harness.privacy import accountants, calibration_cache
from dpicl.harness.privacy.bounds import Bounds
from dpicl.harness.privacy.calibration import Calibration, calibrate
from dpicl.harness.privacy.events import notion_of
from dpicl.harness.privacy.ledger import Ledger
from dpicl.harness.privacy.private_set import Embed, PrivateSet
from dpicl.harness.privacy.sampling_schemes import SamplingScheme, SlotScheme
from dpicl.harness.privacy.secure_release import require_share
from dpicl.harness.run.budget import ChargeTo, NewRelease, charge
from dpicl.harness.run.output_cache import OutputCache
from dpicl.harness.run.reader import SlotReader, embedded

Phase = Callable[[str], AbstractContextManager[None]]
#: Queries -> answers by the query's id.
Answering = Callable[[Sequence[Query]], dict[str, str]]

#: How a prepared mechanism reads records: each in a slot of its own, once.
ALL_RECORDS = SamplingScheme(1, 1, "one_sample", slot_per_record=True)
#: What a mechanism released that gives answers.
NOTHING = ReleasedPrompt(None)
#: Rounding only: a proved epsilon may exceed its target by this factor, never by more.
_ROUNDING = 1 + 1e-9
#: A note on a proof whose rows were not read alone.
UP_TO_ROUNDING = "proved up to rounding: a record may change how the model rounds the rows of others, or nobody knows"


@dataclass(frozen=True)
class Stated:
    """What is said of a release before its mechanism sees a record.

    claimed: epsilon by the authors' formula, None without one. per_query: proved epsilon of one answer alone, None
    where any number of queries is free.
    """

    claimed: float | None
    per_query: float | None

    @classmethod
    def of(cls, mechanism: Mechanism, calibration: Calibration, sizes: Sizes) -> Stated:
        """Raises PluginError for a claim that is no number."""
        claimed: float | None = calibration.epsilon
        if mechanism.knob is not None and math.isfinite(calibration.epsilon):
            claims = [
                checked_claim(mechanism, mechanism.paper_epsilon(knob, own, calibration.delta))
                for knob, own in (
                    [(value, sizes.only(label)) for label, value in calibration.by_label.items()]
                    or [(calibration.knob, sizes)]
                )
            ]
            claimed = None if None in claims else max(claim for claim in claims if claim is not None)
        return cls(claimed, per_query_epsilon(mechanism, calibration.knob, sizes, calibration.delta))


@dataclass(frozen=True)
class Release:
    """What came out of a mechanism, and what it cost.

    prompt: of a demonstration mechanism; empty for answers. answers: query id -> answer; None for demonstrations.
    more: answers to further queries at no cost, of a prepared mechanism; else None. state: what it prepared, by which
    they can be answered later; None where it cannot be saved. charged_to: the names of the private sets that paid
    (secure noise).
    """

    calibration: Calibration
    sizes: Sizes
    stated: Stated
    prompt: ReleasedPrompt
    answers: dict[str, str] | None
    ledger: Ledger
    bounds: Bounds
    more: Answering | None = None
    state: dict[str, np.ndarray] | None = None
    charged_to: tuple[str, ...] = ()

    @property
    def demonstrations(self) -> Sequence[Demonstration]:
        return self.prompt.demonstrations


def calibrated(
    mechanism: Mechanism,
    sizes: Sizes,
    epsilon: float,
    delta: float,
    mode: str = "proved",
    cache: Path | None = calibration_cache.DEFAULT,
) -> Calibration:
    """The mechanism's knob for a run of these sizes; see `dpicl.harness.privacy.calibration.calibrate`.

    A mechanism with `knob_per_label` gets one for each label, calibrated to the whole epsilon with that label's own
    sizes: labels are disjoint, so they compose in parallel, and the epsilon of all is that of the worst one.
    """

    def of(own: Sizes) -> Calibration:
        return calibrate(
            lambda knob: mechanism.events(knob, own),
            mechanism.knob,
            epsilon,
            delta,
            name=mechanism.name,
            paper=lambda knob: mechanism.paper_epsilon(knob, own, delta),
            mode=mode,
            cache=cache,
        )

    if mechanism.knob is None or not mechanism.knob_per_label or None in sizes.shots or not sizes.shots:
        return of(sizes)
    alike: dict[tuple[int, int], Calibration] = {}
    for label, shots in sizes.shots.items():
        if (own := (sizes.records[label], shots)) not in alike:
            alike[own] = of(sizes.only(label))
    each = {str(label): alike[sizes.records[label], shots] for label, shots in sizes.shots.items()}
    knobs = {label: own.knob for label, own in each.items()}
    return Calibration.of_labels(each, mechanism.events_of(0.0, knobs, sizes))


def per_query_epsilon(mechanism: Mechanism, knob: float, sizes: Sizes, delta: float) -> float | None:
    """Proved epsilon of one answer, had it been the only one, as many papers report it; None where any number is
    free."""
    if mechanism.kind != "answers":
        return None
    return accountants.epsilon(mechanism.events(knob, replace(sizes, queries=1)), delta).upper


def release(
    mechanism: Mechanism,
    task: Task,
    model: LanguageModel,
    config: ReleaseConfig,
    queries: Sequence[Query] | None = None,
    *,
    outputs: Callable[[], OutputCache] = lambda: OutputCache(None),
    report: Report = silent,
    phase: Phase = lambda _: nullcontext(),
    charge_to: ChargeTo | None = None,
) -> Release:
    """Calibrates to the config's epsilon and releases once; with an answer mechanism, or a prepared one, the answers to
    ``queries`` (None: the test records).

    outputs: opens the cache of what slots answered and of embeddings; not called with secure noise, nor for
        demonstrations of a mechanism that embeds nothing.
    report: called with (done, total, unit). phase: opened around 'calibrate', 'release' and 'account'.
    charge_to: the private set that pays where noise is secure (None: one of the task's name), before a record is read.
    Raises UsageError for a model that does not go with the task; BudgetExceeded when the ledger proves more than the
    target: then nothing is returned. With secure noise raises UsageError without declared sizes, for an infinite
    epsilon, and where the part of delta that is set aside does not pay for floating point;
    BudgetExceeded where the limit of the private set would be passed; Concealed for every error that comes after that.
    """
    if mechanism.kind is None:
        raise no_kind(mechanism)
    if said := misfit(model.identity.name, task.name) or lacking(mechanism, task.public_view(), model):
        raise UsageError(said)
    randomness = streams(config.seed, config.noise)
    if config.secure:
        report = silent  # how far a release is may depend on the records
        config.require_small_delta(task.size)
    shots, asked, sizes = declared(mechanism, task, config, queries)
    calibration, stated = _calibrated(mechanism, sizes, config, phase)
    if 0 < calibration.bounds.upper < math.inf and notion_of(calibration.event) != mechanism.notion:
        raise PluginError(f"The events of {mechanism.name} are of another notion of privacy than it states.")
    charged_to: tuple[str, ...] = ()
    admitted = config.epsilon
    if config.secure:
        admitted = calibration.bounds.upper  # finite: nothing but what its private set is charged for
        spent = new_release(mechanism, task, model.identity.name, config, calibration, sizes)
        charged_to = charge(task.train, spent, charge_to or ChargeTo(default=task.name))
    ledger = Ledger(calibration.event, admitted)
    sampling, noise = _sampling(mechanism, randomness), randomness.source("noise")
    kept = cache(lambda: OutputCache(None) if config.secure else outputs())

    def embed(texts: Sequence[str], name: str) -> np.ndarray:
        return embedded(texts, name, kept(), model.identity.name, task.name)

    private = PrivateSet(task.train, ledger, sizes=sizes.records, sampling=sampling, noise=noise, embed=embed)
    work = _Work(
        task.public_view(),
        model,
        config,
        private,
        calibration,
        randomness.public,
        shots,
        asked,
        kept,
        embed,
        report,
    )
    with phase("release"):
        out = concealed(config.secure, lambda: named_failure(mechanism, lambda: work.of(mechanism)))
    with phase("account"):
        bounds = _proved(mechanism, config, ledger, model, task.size)
    return Release(calibration, sizes, stated, out.prompt, out.answers, ledger, bounds, out.more, out.state, charged_to)


def declared(
    mechanism: Mechanism, task: Task, config: ReleaseConfig, queries: Sequence[Query] | None = None
) -> tuple[tuple[str, ...], Sequence[Query], Sizes]:
    """What is public of a release before it is calibrated: labels of the shots, queries, and the sizes it depends on.

    Raises UsageError for secure noise without declared sizes, and for a mechanism that publishes texts where they are
    to stay private, or were chosen by what it keeps private; DataError for a group without records.
    """
    if config.secure and task.declared is None:
        raise UsageError(f"Secure noise needs the declared sizes of {task.name}; give --size.")
    if mechanism.notion != RECORD_CENTRAL and (config.secure or task.restricted):
        why = "secure noise keeps texts private" if config.secure else f"the records of {task.name} are restricted"
        raise UsageError(f"{mechanism.name} publishes the texts of records as they are, and {why}; leave it out.")
    if mechanism.notion != RECORD_CENTRAL and task.chosen_by_label:
        raise UsageError(
            f"{mechanism.name} keeps labels private, and `train_records` keeps texts by their labels, so that the shown"
            " texts would tell them; leave `train_records` out."
        )
    asked: Sequence[Query] = ()
    shots: tuple[str, ...] = ()
    if mechanism.kind == "demonstrations":
        shots = planned_shots(mechanism, task, config.shots, streams(config.seed, config.noise).stream("shots"))
    else:
        asked = task.queries() if queries is None else list(queries)
    return shots, asked, sizes_of(mechanism, task, shots, config.queries or len(asked))


def new_release(
    mechanism: Mechanism, task: Task, model: str, config: ReleaseConfig, calibration: Calibration, sizes: Sizes
) -> NewRelease:
    """A release as its private set is charged for it: everything that was calibrated, whatever the run comes to use."""
    proved = accountants.epsilon(calibration.event, config.accounted_delta)
    what = {
        "mechanism": mechanism.name,
        "options": {name: getattr(mechanism, name) for name in option_types(type(mechanism))},
        "task": task.name,
        "model": model,
        "epsilon_target": config.epsilon,
        "shots": config.shots if mechanism.kind == "demonstrations" else None,
        "queries": sizes.queries,
    }
    return NewRelease(calibration.event, proved.upper, config.delta, what)


@dataclass(frozen=True)
class _Released:
    """The parts of a `Release` that its mechanism made."""

    prompt: ReleasedPrompt = NOTHING
    answers: dict[str, str] | None = None
    more: Answering | None = None
    state: dict[str, np.ndarray] | None = None


@dataclass(frozen=True)
class _Work:
    """Everything that a mechanism releases with: what `release` got, made ready."""

    task: PublicTask
    model: LanguageModel
    config: ReleaseConfig
    private: PrivateSet
    calibration: Calibration
    public: PublicStreams
    shots: tuple[str, ...]
    queries: Sequence[Query]
    outputs: Callable[[], OutputCache]
    embed: Embed
    report: Report

    @property
    def knob(self) -> float:
        return self.calibration.knob

    def of(self, mechanism: Mechanism) -> _Released:
        """What the mechanism makes, by its kind."""
        with self.model.apart():
            match mechanism:
                case DemonstrationMechanism():
                    return self._demonstrations(mechanism)
                case AnswerMechanism():
                    return self._answers(mechanism)
                case PreparedMechanism():
                    return self._prepared(mechanism)
        raise no_kind(mechanism)

    def _demonstrations(self, mechanism: DemonstrationMechanism) -> _Released:
        def progress(done: int) -> None:
            self.report(done, len(self.shots), "demonstrations")

        knobs = self.calibration.by_label
        context = Context(self.task, self.model, self.shots, self.knob, self.public, progress, self.embed, knobs)
        given = mechanism.release(self.private, context)
        prompt = checked_prompt(mechanism, given, self.shots, self.model, self.task.labels)
        if len(prompt.demonstrations) == len(self.shots) > self.config.shots:
            prompt = replace(prompt, in_prompt=self.config.shots)
        _close(mechanism, self.private, self.config, prompt.texts)
        return _Released(prompt)

    def _answers(self, mechanism: AnswerMechanism) -> _Released:
        reader = self._reader(mechanism.scheme, mechanism.record_tokens)
        context = AnswerContext(self.task, reader, self.knob, self.public)
        budget = self.config.queries or len(self.queries)
        answers = answer_all(mechanism, self.queries, self.private, context, budget, self.report)
        _close(mechanism, self.private, self.config, list(answers.values()))
        return _Released(answers=answers)

    def _prepared(self, mechanism: PreparedMechanism) -> _Released:
        context = PreparedContext(self.task, self._reader(ALL_RECORDS), self.knob, self.public)
        made = checked_prepared(mechanism, mechanism.prepare(self.private, context))
        _close(mechanism, self.private, self.config, [mechanism.name])  # every answer follows from what was released
        more = partial(answer_from, mechanism, made, context.reader, report=self.report)
        return _Released(answers=more(self.queries), more=more, state=checked_state(mechanism, made))

    def _reader(self, scheme: SlotScheme, record_tokens: int | None = None) -> Reader:
        return SlotReader(self.task, self.model, self.outputs(), scheme, self.queries, record_tokens)


def no_kind(mechanism: Mechanism) -> PluginError:
    """The error of a mechanism that is of none of the kinds."""
    return PluginError(
        f"Mechanism '{mechanism.name}' is neither a DemonstrationMechanism nor an AnswerMechanism nor a"
        " PreparedMechanism."
    )


def planned_shots(
    mechanism: Mechanism, task: PublicTask, shots: int, generator: np.random.Generator
) -> tuple[str, ...]:
    """The label of every demonstration that a mechanism releases for a prompt of ``shots``, by public randomness.

    Raises PluginError for a mechanism that wants fewer, or other labels than the task has.
    """
    if not isinstance(mechanism, DemonstrationMechanism):
        return task.plan_shots(shots, generator)
    count: object = mechanism.released(shots, task)
    if not isinstance(count, int) or isinstance(count, bool) or count < shots:
        raise PluginError(f"Mechanism '{mechanism.name}' wants to release {count!r:.40} texts for {shots} shots.")
    labels = mechanism.shot_labels(task)
    if task.labels and not (labels and {*labels} <= {*task.labels}):
        raise PluginError(f"Mechanism '{mechanism.name}' wants to release texts of labels that {task.name} lacks.")
    return task.plan_shots(count, generator, labels)


def sizes_of(mechanism: Mechanism, task: Task, shots: Sequence[str], queries: int) -> Sizes:
    """The public numbers that an epsilon depends on: of these shots (demonstrations) or Q queries (answers).

    Raises DataError for a group without records.
    """
    if mechanism.kind == "answers":
        return Sizes.of_queries(task.size, queries)
    if mechanism.kind == "prepared":
        return Sizes(task.group_sizes if mechanism.by_label else {None: task.size}, {})
    return task.sizes(shots) if mechanism.by_label else Sizes({None: task.size}, {None: len(shots)})


def _calibrated(mechanism: Mechanism, sizes: Sizes, config: ReleaseConfig, phase: Phase) -> tuple[Calibration, Stated]:
    epsilon, delta = config.epsilon, config.accounted_delta
    with phase("calibrate"):
        found = named_failure(mechanism, lambda: calibrated(mechanism, sizes, epsilon, delta, config.mode))
    if config.secure and math.isinf(found.bounds.upper):
        raise UsageError(f"{mechanism.name} at epsilon = inf is not private: it publishes the records; leave it out.")
    if config.secure:
        require_share(found.event, epsilon)
    with phase("account"):
        return found, named_failure(mechanism, lambda: Stated.of(mechanism, found, sizes))


def answer_all(
    mechanism: AnswerMechanism,
    queries: Sequence[Query],
    private: PrivateSet,
    context: AnswerContext,
    budget: int,
    report: Report = silent,
) -> dict[str, str]:
    """Query id -> answer. The public prompts are read before any record is assigned to slots.

    budget: Q, how many queries are charged; all of them before the first is answered. What the model still has to write
    from released things is written at the end, for all queries together.
    Raises UsageError when there are more queries than were charged or two have one id, BudgetExceeded when the ledger
    does not admit Q of them; then nothing is drawn.
    """
    if len(queries) > budget:
        raise UsageError(f"There are {len(queries)} queries but the budget is for {budget}; raise `queries`.")
    if len({query.id for query in queries}) < len(queries):
        raise UsageError("Two queries have the same id; remove the repeated record from the test set.")
    context.reader.read_public()
    sample_for = mechanism.scheme.sampler(private, mechanism.release(context.knob), budget)
    said: dict[str, str | FinalPrompt] = {}
    for query in queries:
        said[query.id] = checked_answer(mechanism, mechanism.answer(query, sample_for(query.text), context))
        report(len(said), len(queries), "answers")
    return _written(said, context.reader)


def answer_from(
    mechanism: PreparedMechanism, made: Prepared, reader: Reader, queries: Sequence[Query], report: Report = silent
) -> dict[str, str]:
    """Query id -> answer, from what was prepared; the private set is closed before."""
    said: dict[str, str | FinalPrompt] = {}
    for query in queries:
        said[query.id] = checked_answer(mechanism, made.answer(query))
        report(len(said), len(queries), "answers")
    return _written(said, reader)


def _written(said: Mapping[str, str | FinalPrompt], reader: Reader) -> dict[str, str]:
    """The answers, with those that the model still has to write."""
    waiting = {key: answer.prompt for key, answer in said.items() if isinstance(answer, FinalPrompt)}
    written = dict(zip(waiting, reader.write(list(waiting.values())), strict=True))
    return {key: answer if isinstance(answer, str) else written[key] for key, answer in said.items()}


def _close(mechanism: Mechanism, private: PrivateSet, config: ReleaseConfig, texts: Sequence[str]) -> None:
    """Closes the private set. Raises PluginError where texts were released without noise at a finite epsilon."""
    releases = private.close()
    if math.isfinite(config.epsilon):
        require_noise(mechanism, texts, releases)


def _proved(mechanism: Mechanism, config: ReleaseConfig, ledger: Ledger, model: LanguageModel, records: int) -> Bounds:
    ledger.settle()
    bounds = accountants.epsilon(ledger.event(), config.accounted_delta)
    if config.mode == "proved" and not bounds.upper <= config.epsilon * _ROUNDING:
        raise BudgetExceeded(
            f"The ledger proves epsilon={bounds.upper:.6g}, over the target {config.epsilon:g}; nothing was kept."
            f" Mechanism '{mechanism.name}' charges what its `events` do not declare."
        )
    notes = bounds.notes
    if 0 < bounds.upper < math.inf and (said := large_delta(config.delta, records)):
        notes = (*notes, said)
    if 0 < bounds.upper < math.inf and model.identity.rows_alone is not True:
        notes = (*notes, UP_TO_ROUNDING)
    if bounds.upper > 0 and model.server is not None and mechanism.needs != "nothing":
        notes = (*notes, *model.server.notes)
    return replace(bounds, notes=notes)


def _sampling(mechanism: Mechanism, randomness: Streams) -> NoiseSource:
    """The sampling randomness: of the release's seed, or of the mechanism's own."""
    own = mechanism.sampling_seed if isinstance(mechanism, AnswerMechanism) else None
    if own is None:
        return randomness.source("sampling")
    if randomness.secure:
        raise UsageError(
            "Option sampling_seed makes the sampling randomness public, and secure noise keeps it secret; drop one."
        )
    return streams(own).source("sampling")
