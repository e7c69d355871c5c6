"""Makes one release: calibrates, executes the mechanism (execution.py), and accounts for its ledger.

Demonstrations, and what a prepared mechanism answers from, are released once; an answer mechanism answers every test
record.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpicl.accounting import accountants, calibration_cache
from dpicl.accounting import dp_event as dp
from dpicl.accounting.bounds import Bounds
from dpicl.accounting.calibration import Calibration, calibrate
from dpicl.accounting.ledger import Ledger
from dpicl.core.cell import ReleaseConfig, large_delta
from dpicl.core.errors import BudgetExceeded, UsageError, require_known
from dpicl.core.output_cache import OutputCache
from dpicl.core.seeds import streams
from dpicl.core.together import run_together
from dpicl.core.vocabulary import (
    Demonstration,
    Query,
    ReleasedPrompt,
    Report,
    Sizes,
    report_nothing,
)
from dpicl.data.concealed import conceal
from dpicl.data.task import PublicTask, Task
from dpicl.mechanism.bases import DemonstrationMechanism, Mechanism
from dpicl.mechanism.options import option_types
from dpicl.mechanism.outputs import check_claim, name_failure, require_noise
from dpicl.models import incompatibility
from dpicl.models.base import LanguageModel
from dpicl.privacy.private_set import SampleObserver
from dpicl.privacy.release_hooks import NoisyRelease, observing
from dpicl.privacy.secure_release import require_share
from dpicl.releasing.execution import NOTHING, Answering, Execution, require_budget, sampling_of

Phase = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True)
class NewRelease:
    """A release that is to be charged. event: all that it may cause. epsilon, delta: proved for it alone. what: its
    settings, for the ledger; nothing private."""

    event: dp.DpEvent
    epsilon: float
    delta: float
    what: Mapping[str, Any]

    @property
    def free(self) -> bool:
        return isinstance(self.event, dp.NoOpDpEvent)


class Recorder(SampleObserver, ABC):
    """Keeps what a release draws, with the samples that it is drawn from."""

    @abstractmethod
    def intercept(
        self,
        noisy_release: NoisyRelease,
        draw: Callable[[], np.ndarray],
    ) -> np.ndarray:
        """See `dpicl.privacy.release_hooks.Observer`."""


#: Charges a release to private sets and returns their names.
Charger = Callable[[NewRelease], tuple[str, ...]]
#: Rounding only: a proved epsilon may exceed its target by this factor, never by more.
_ROUNDING = 1 + 1e-9
#: A note on a proof for a model that is not batch-invariant.
UP_TO_ROUNDING = "proved up to rounding: a record may change how the model rounds the rows of others, or nobody knows"


@dataclass(frozen=True)
class Release:
    """What came out of a mechanism, and what it cost.

    claimed: epsilon by the authors' formula, None without one; per_query: proved epsilon of one answer alone, None
    where any number of queries is free; both are said before the mechanism sees a record. prompt: of a demonstration
    mechanism; empty for answers. answers: query id -> answer; None for demonstrations. more: answers to further queries
    at no cost, of a prepared mechanism; else None. state: what it prepared, by which they can be answered later; None
    where it cannot be saved. charged_to: the names of the private sets that paid (secure noise).
    """

    calibration: Calibration
    sizes: Sizes
    claimed: float | None
    per_query: float | None
    ledger: Ledger
    bounds: Bounds
    prompt: ReleasedPrompt = NOTHING
    answers: dict[str, str] | None = None
    more: Answering | None = None
    state: dict[str, np.ndarray] | None = None
    charged_to: tuple[str, ...] = ()

    @property
    def demonstrations(self) -> Sequence[Demonstration]:
        return self.prompt.demonstrations


def calibrate_mechanism(
    mechanism: Mechanism,
    sizes: Sizes,
    epsilon: float,
    delta: float,
    mode: str = "proved",
    cache: Path | None = calibration_cache.DEFAULT,
) -> Calibration:
    """The mechanism's knob for a run of these sizes; see `dpicl.accounting.calibration.calibrate`.

    A mechanism with `knob_per_label` gets one for each label, calibrated to the whole epsilon with that label's own
    sizes: labels are disjoint, so they compose in parallel, and the epsilon of all is that of the worst one.
    """

    def of(label_sizes: Sizes) -> Calibration:
        return calibrate(
            lambda knob: mechanism.events(knob, label_sizes),
            mechanism.knob,
            epsilon,
            delta,
            name=mechanism.name,
            paper=lambda knob: mechanism.paper_epsilon(knob, label_sizes, delta),
            mode=mode,
            cache=cache,
        )

    if (
        mechanism.knob is None
        or not mechanism.knob_per_label
        or None in sizes.shots
        or not sizes.shots
    ):
        return of(sizes)
    alike: dict[tuple[int, int], Calibration] = {}
    for label, shots in sizes.shots.items():
        if (label_sizes := (sizes.records[label], shots)) not in alike:
            alike[label_sizes] = of(sizes.select_group(label))
    each = {str(label): alike[sizes.records[label], shots] for label, shots in sizes.shots.items()}
    knobs = {label: label_sizes.knob for label, label_sizes in each.items()}
    return Calibration.from_labels(each, mechanism.events_of(0.0, knobs, sizes))


def claimed_epsilon(mechanism: Mechanism, calibration: Calibration, sizes: Sizes) -> float | None:
    """Epsilon by the authors' formula, of the label with the largest one. Raises PluginError for a claim that is no
    number."""
    if mechanism.knob is None or not math.isfinite(calibration.epsilon):
        return calibration.epsilon
    knobs = [(value, sizes.select_group(label)) for label, value in calibration.by_label.items()]
    claims = [
        check_claim(mechanism, mechanism.paper_epsilon(knob, knob_sizes, calibration.delta))
        for knob, knob_sizes in knobs or [(calibration.knob, sizes)]
    ]
    return None if None in claims else max(claim for claim in claims if claim is not None)


def per_query_epsilon(
    mechanism: Mechanism, knob: float, sizes: Sizes, delta: float
) -> float | None:
    """Proved epsilon of one answer, had it been the only one, as many papers report it; None where any number is
    free."""
    if sizes.queries is None:
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
    report: Report = report_nothing,
    phase: Phase = lambda _: nullcontext(),
    charge: Charger | None = None,
    recorder: Recorder | None = None,
) -> Release:
    """Calibrates to the config's epsilon and releases once; with an answer mechanism, or a prepared one, the answers to
    ``queries`` (None: the test records).

    outputs: opens the cache of what slots answered and of embeddings; not called with secure noise, nor for
        demonstrations of a mechanism that embeds nothing.
    report: called with (done, total, unit). phase: opened around 'calibrate', 'release' and 'account'.
    charge: charges a private set before a record is read; secure noise needs it.
    recorder: sees every noisy value, and may give one that was drawn before.
    Raises UsageError for a model that does not go with the task; BudgetExceeded when the ledger proves more than the
    target: then nothing is returned. With secure noise raises UsageError without declared sizes or a private set to
    charge, for an infinite epsilon, and where the part of delta that is set aside does not pay for floating point;
    what ``charge`` raises; Concealed for every error that comes after that.
    """
    if reason := incompatibility(model.identity.name, task.name) or mechanism.unmet_needs(
        task.public_view(), model
    ):
        raise UsageError(reason)
    randomness = streams(config.seed, config.noise)
    if config.secure:
        report = report_nothing  # how far a release is may depend on the records
        config.require_small_delta(task.size)
    shots, declared, sizes = declare(mechanism, task, config, queries)
    calibration, claimed, per_query = _calibrate(mechanism, sizes, config, phase)
    sampling = sampling_of(mechanism, randomness)
    charged_to: tuple[str, ...] = ()
    admitted = config.epsilon
    if config.secure:
        if charge is None:
            raise UsageError(
                "Secure noise is charged to a private set; release with `dpicl release`."
            )
        # finite: nothing but what its private set is charged for
        admitted = calibration.bounds.upper
        charged_to = charge(
            new_release(mechanism, task, model.identity.name, config, calibration, sizes)
        )
    ledger = Ledger(calibration.event, admitted)
    cached = cache(lambda: OutputCache(None) if config.secure else outputs())

    execution = Execution(
        mechanism,
        task.public_view(),
        model,
        calibration.knob,
        calibration.by_label,
        records=task.train,
        sizes=sizes,
        ledger=ledger,
        sampling=sampling,
        noise=randomness.source("noise"),
        public=randomness.public,
        shots=shots,
        queries=declared,
        outputs=cached,
        report=report,
        observer=recorder,
    )

    recording = nullcontext() if recorder is None else observing(recorder)
    with phase("release"), recording, conceal(config.secure), name_failure(mechanism):
        with model.isolated_cache():
            # as a job, so that its shots are written at the same time
            (out,) = run_together([execution.run])
            answers, state = out.answers, out.state
        if math.isfinite(config.epsilon):
            require_noise(mechanism, out.texts, out.releases)
    prompt = limit_prompt(out.prompt, shots, config.shots)
    more = None if out.prepared is None else out.answer
    with phase("account"):
        bounds = _prove(mechanism, config, ledger, model, task.size)
    return Release(
        calibration,
        sizes,
        claimed,
        per_query,
        ledger,
        bounds,
        prompt,
        answers,
        more,
        state,
        charged_to,
    )


def plan_labels(mechanism: Mechanism, task: PublicTask, config: ReleaseConfig) -> tuple[str, ...]:
    """A label for each demonstration, by public randomness; or those of `label_shots`, in turn.

    Raises UsageError for counts of labels that the mechanism has no texts of.
    """
    view = task.public_view()
    if config.label_shots:
        return _turns_of(mechanism, view, dict(config.label_shots))
    randomness = streams(config.seed, config.noise)
    return mechanism.plan_shots(view, config.shots, randomness.stream("shots"))


def _turns_of(
    mechanism: Mechanism,
    task: PublicTask,
    counts: Mapping[str, int],
) -> tuple[str, ...]:
    """Each label as often as its count says, one of each in turn, in the task's order."""
    if not isinstance(mechanism, DemonstrationMechanism) or not task.partitioned:
        reason = (
            "the task has no labels"
            if not task.partitioned
            else f"{mechanism.name} releases no texts of labels"
        )
        raise UsageError(
            f"Numbers of texts for each label do not fit: {reason}; give one number with --shots."
        )
    labels = mechanism.shot_labels(task)
    require_known("label", counts, labels)
    number = sum(counts.values())
    if mechanism.count_released(number, task) != number:
        raise UsageError(
            f"{mechanism.name} chooses the labels of its texts itself; give one number with --shots."
        )
    turns = range(max(counts.values()))
    return tuple(label for turn in turns for label in labels if turn < counts.get(label, 0))


def limit_prompt(prompt: ReleasedPrompt, labels: Sequence[str], shots: int) -> ReleasedPrompt:
    """The prompt as a model reads it: the first ``shots`` demonstrations of a mechanism that plans more of them."""
    return (
        replace(prompt, in_prompt=shots)
        if len(prompt.demonstrations) == len(labels) > shots
        else prompt
    )


class Declared(NamedTuple):
    """What is public of a release before it is calibrated: a label for each demonstration, the queries (none of
    demonstrations), and the numbers that its epsilon depends on."""

    shots: tuple[str, ...]
    queries: Sequence[Query]
    sizes: Sizes


def declare(
    mechanism: Mechanism, task: Task, config: ReleaseConfig, queries: Sequence[Query] | None = None
) -> Declared:
    """Raises UsageError for secure noise without declared sizes; DataError for a group without records."""
    if config.secure and task.declared is None:
        raise UsageError(f"Secure noise needs the declared sizes of {task.name}; give --size.")
    shots = plan_labels(mechanism, task, config)
    queried = () if shots else task.queries() if queries is None else list(queries)
    sizes = mechanism.public_sizes(task.keep_sizes(), shots, config.queries or len(queried))
    if sizes.queries is not None:
        require_budget(queried, sizes.queries)
    return Declared(shots, queried, sizes)


def expected_release(
    mechanism: Mechanism, task: Task, model: str, config: ReleaseConfig, queries: Sequence[Query]
) -> NewRelease:
    """What `release` will charge for these settings, before a model is loaded; no record is looked at.

    Raises UsageError, DataError and PluginError as `release` does before it charges.
    """
    sizes = declare(mechanism, task, config, queries).sizes
    calibration, *_ = _calibrate(mechanism, sizes, config, lambda _: nullcontext())
    return new_release(mechanism, task, model, config, calibration, sizes)


def new_release(
    mechanism: Mechanism,
    task: Task,
    model: str,
    config: ReleaseConfig,
    calibration: Calibration,
    sizes: Sizes,
) -> NewRelease:
    """A release as its private set is charged for it: everything that was calibrated, whatever the run comes to use."""
    proved = accountants.epsilon(calibration.event, config.accounted_delta)
    what = {
        "mechanism": mechanism.name,
        "options": {name: getattr(mechanism, name) for name in option_types(type(mechanism))},
        "task": task.name,
        "model": model,
        "epsilon_target": config.epsilon,
        "shots": config.shots if sizes.shots else None,
        "queries": sizes.queries,
    }
    return NewRelease(calibration.event, proved.upper, config.delta, what)


def _calibrate(
    mechanism: Mechanism, sizes: Sizes, config: ReleaseConfig, phase: Phase
) -> tuple[Calibration, float | None, float | None]:
    """With the claimed epsilon, and that of one query."""
    epsilon, delta = config.epsilon, config.accounted_delta
    with phase("calibrate"), name_failure(mechanism):
        calibration = calibrate_mechanism(mechanism, sizes, epsilon, delta)
    if config.secure and math.isinf(calibration.bounds.upper):
        raise UsageError(
            f"{mechanism.name} at epsilon = inf is not private: it publishes the records; leave it out."
        )
    if config.secure:
        require_share(calibration.event, epsilon)
    with phase("account"), name_failure(mechanism):
        claimed = claimed_epsilon(mechanism, calibration, sizes)
        return (
            calibration,
            claimed,
            per_query_epsilon(mechanism, calibration.knob, sizes, calibration.delta),
        )


def _prove(
    mechanism: Mechanism,
    config: ReleaseConfig,
    ledger: Ledger,
    model: LanguageModel,
    records: int,
) -> Bounds:
    ledger.settle()
    bounds = accountants.epsilon(ledger.event(), config.accounted_delta)
    if not bounds.upper <= config.epsilon * _ROUNDING:
        raise BudgetExceeded(
            f"The ledger proves epsilon={bounds.upper:.6g}, over the target {config.epsilon:g}; nothing was kept."
            f" Mechanism '{mechanism.name}' charges what its `events` do not declare."
        )
    notes = bounds.notes
    if 0 < bounds.upper < math.inf and (warning := large_delta(config.delta, records)):
        notes = (*notes, warning)
    if 0 < bounds.upper < math.inf and model.identity.batch_invariant is not True:
        notes = (*notes, UP_TO_ROUNDING)
    if bounds.upper > 0 and model.server is not None and mechanism.needs != "nothing":
        notes = (*notes, *model.server.notes)
    return replace(bounds, notes=notes)
