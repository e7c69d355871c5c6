"""One release: calibrate, put the records behind a ledger, let the mechanism release, prove what the ledger holds.

This is the only place where private records meet a mechanism. Demonstrations are released once; an answer mechanism
answers every test record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from dpicl.harness.core.cell import ReleaseConfig, refusal
from dpicl.harness.core.errors import BudgetExceeded, PluginError, UsageError
from dpicl.harness.core.seeds import NoiseSource, Streams, streams
from dpicl.harness.core.vocabulary import RECORD_CENTRAL, Demonstration, FinalPrompt, Query, Report, Sizes, silent
from dpicl.harness.data.concealed import concealed
from dpicl.harness.data.task import Task
from dpicl.harness.mechanism.bases import AnswerContext, AnswerMechanism, Context, DemonstrationMechanism, Mechanism
from dpicl.harness.mechanism.outputs import (
    checked_answer,
    checked_claim,
    checked_demonstrations,
    named_failure,
    require_noise,
)
from dpicl.harness.models.base import LanguageModel
from dpicl.harness.privacy import accountants, calibration_cache
from dpicl.harness.privacy.bounds import Bounds
from dpicl.harness.privacy.calibration import Calibration, calibrate
from dpicl.harness.privacy.events import notion_of
from dpicl.harness.privacy.ledger import Ledger
from dpicl.harness.privacy.private_set import Embed, PrivateSet
from dpicl.harness.run.output_cache import OutputCache
from dpicl.harness.run.reader import SlotReader

Phase = Callable[[str], AbstractContextManager[None]]

#: Rounding only: a proved epsilon may exceed its target by this factor, never by more.
_ROUNDING = 1 + 1e-9
#: A note on a proof whose rows were not read alone.
UP_TO_ROUNDING = "proved up to rounding: on this device a record may change how the model rounds the rows of others"


@dataclass(frozen=True)
class Stated:
    """What is said of a release before its mechanism sees a record.

    claimed: epsilon by the authors' formula, None without one. per_query: proved epsilon of one answer alone, None for
    demonstrations.
    """

    claimed: float | None
    per_query: float | None

    @classmethod
    def of(cls, mechanism: Mechanism, calibration: Calibration, sizes: Sizes) -> Stated:
        """Raises PluginError for a claim that is no number."""
        claimed: float | None = calibration.epsilon
        if mechanism.knob is not None and math.isfinite(calibration.epsilon):
            claimed = checked_claim(mechanism, mechanism.paper_epsilon(calibration.knob, sizes, calibration.delta))
        return cls(claimed, per_query_epsilon(mechanism, calibration.knob, sizes, calibration.delta))


@dataclass(frozen=True)
class Release:
    """What came out of a mechanism, and what it cost. answers: query id -> answer; None for demonstrations."""

    calibration: Calibration
    sizes: Sizes
    stated: Stated
    demonstrations: list[Demonstration]
    answers: dict[str, str] | None
    ledger: Ledger
    bounds: Bounds


def calibrated(
    mechanism: Mechanism,
    sizes: Sizes,
    epsilon: float,
    delta: float,
    mode: str = "proved",
    cache: Path | None = calibration_cache.DEFAULT,
) -> Calibration:
    """The mechanism's knob for a run of these sizes; see `dpicl.harness.privacy.calibration.calibrate`."""
    return calibrate(
        lambda knob: mechanism.events(knob, sizes),
        mechanism.knob,
        epsilon,
        delta,
        name=mechanism.name,
        paper=lambda knob: mechanism.paper_epsilon(knob, sizes, delta),
        mode=mode,
        cache=cache,
    )


def per_query_epsilon(mechanism: Mechanism, knob: float, sizes: Sizes, delta: float) -> float | None:
    """Proved epsilon of one answer, had it been the only one, as many papers report it; None for demonstrations."""
    if not isinstance(mechanism, AnswerMechanism):
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
    reveal: bool = False,
) -> Release:
    """Calibrates to the config's epsilon and releases once; with an answer mechanism the answers to ``queries`` (None:
    the test records).

    outputs: opens the cache of what slots answered; not called with secure noise, nor for demonstrations.
    report: called with (done, total, unit). phase: opened around 'calibrate', 'release' and 'account'.
    reveal: whether secure noise may come with an infinite epsilon.
    Raises BudgetExceeded when the ledger proves more than the target: then nothing is returned. With secure noise
    raises UsageError without declared sizes, and for an infinite epsilon that is not wanted; Concealed for every error
    that comes after that.
    """
    randomness = streams(config.seed, config.noise)
    if config.secure:
        report = silent  # how far a release is may depend on the records
        if task.declared is None:
            raise UsageError(f"Secure noise needs the declared sizes of {task.name}; give them under `sizes`.")
    if mechanism.notion != RECORD_CENTRAL and (config.secure or task.restricted):
        why = "noise: secure keeps texts private" if config.secure else f"the records of {task.name} are restricted"
        raise UsageError(f"{mechanism.name} publishes the texts of records as they are, and {why}; leave it out.")
    asked: Sequence[Query] = ()
    shots: tuple[str, ...] = ()
    if isinstance(mechanism, AnswerMechanism):
        asked = task.queries() if queries is None else list(queries)
        sizes = Sizes.of_queries(task.size, config.queries or len(asked))
    elif isinstance(mechanism, DemonstrationMechanism):
        shots = task.plan_shots(config.shots, randomness.stream("shots"))
        sizes = task.sizes(shots)
    else:
        raise PluginError(f"Mechanism '{mechanism.name}' is neither a DemonstrationMechanism nor an AnswerMechanism.")
    calibration, stated = _calibrated(mechanism, sizes, config, phase, reveal)
    if 0 < calibration.bounds.upper < math.inf and notion_of(calibration.event) != mechanism.notion:
        raise PluginError(f"The events of {mechanism.name} are of another notion of privacy than it states.")
    ledger, knob = Ledger(calibration.event, config.epsilon), calibration.knob
    sampling, noise = _sampling(mechanism, randomness), randomness.source("noise")

    def private_set(embed: Embed | None = None) -> PrivateSet:
        return PrivateSet(task.train, ledger, sizes=sizes.records, sampling=sampling, noise=noise, embed=embed)

    def released() -> tuple[list[Demonstration], dict[str, str] | None]:
        seen, public = task.public_view(), randomness.public
        if isinstance(mechanism, AnswerMechanism):
            cache = OutputCache(None) if config.secure else outputs()
            reader = SlotReader(seen, model, cache, mechanism.scheme, asked, mechanism.record_tokens)
            context, private = AnswerContext(seen, reader, knob, public), private_set(reader.embed)
            answers = answer_all(mechanism, asked, private, context, config.queries or len(asked), report)
            _close(mechanism, private, config, list(answers.values()))
            return [], answers
        assert isinstance(mechanism, DemonstrationMechanism)
        private = private_set()
        told = Context(seen, model, shots, knob, public, lambda done: report(done, len(shots), "demonstrations"))
        given = mechanism.release(private, told)
        demonstrations = checked_demonstrations(mechanism, given, shots, model, task.labels)
        _close(mechanism, private, config, [each.text for each in demonstrations])
        return demonstrations, None

    with phase("release"):
        demonstrations, answers = concealed(config.secure, lambda: named_failure(mechanism, released))
    with phase("account"):
        bounds = _proved(mechanism, config, ledger, model)
    return Release(calibration, sizes, stated, demonstrations, answers, ledger, bounds)


def _calibrated(
    mechanism: Mechanism, sizes: Sizes, config: ReleaseConfig, phase: Phase, reveal: bool
) -> tuple[Calibration, Stated]:
    epsilon, delta = config.epsilon, config.accounted_delta
    with phase("calibrate"):
        found = named_failure(mechanism, lambda: calibrated(mechanism, sizes, epsilon, delta, config.mode))
    if config.secure and math.isinf(found.bounds.upper) and not reveal:
        raise UsageError(refusal(mechanism.name))
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
    waiting = {key: answer.prompt for key, answer in said.items() if isinstance(answer, FinalPrompt)}
    written = dict(zip(waiting, context.reader.write(list(waiting.values())), strict=True))
    return {key: answer if isinstance(answer, str) else written[key] for key, answer in said.items()}


def _close(mechanism: Mechanism, private: PrivateSet, config: ReleaseConfig, texts: Sequence[str]) -> None:
    """Closes the private set. Raises PluginError where texts were released without noise at a finite epsilon."""
    releases = private.close()
    if math.isfinite(config.epsilon):
        require_noise(mechanism, texts, releases)


def _proved(mechanism: Mechanism, config: ReleaseConfig, ledger: Ledger, model: LanguageModel) -> Bounds:
    ledger.settle()
    bounds = accountants.epsilon(ledger.event(), config.accounted_delta)
    if config.mode == "proved" and not bounds.upper <= config.epsilon * _ROUNDING:
        raise BudgetExceeded(
            f"The ledger proves epsilon={bounds.upper:.6g}, over the target {config.epsilon:g}; nothing was kept."
            f" Mechanism '{mechanism.name}' charges what its `events` do not declare."
        )
    if 0 < bounds.upper < math.inf and not model.identity.rows_alone:
        return replace(bounds, notes=(*bounds.notes, UP_TO_ROUNDING))
    return bounds


def _sampling(mechanism: Mechanism, randomness: Streams) -> NoiseSource:
    """The sampling randomness: of the release's seed, or of the mechanism's own."""
    own = mechanism.sampling_seed if isinstance(mechanism, AnswerMechanism) else None
    if own is None:
        return randomness.source("sampling")
    if randomness.secure:
        raise UsageError(
            "Option sampling_seed makes the sampling randomness public, and noise: secure keeps it secret; drop one."
        )
    return streams(own).source("sampling")
