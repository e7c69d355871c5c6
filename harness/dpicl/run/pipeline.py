"""Runs one cell: load -> calibrate -> release -> evaluate -> result (docs/design.md).

The release, and the epsilon that is proved for it, are made in dpicl.releasing.release. A result holds numbers,
settings and released text, and nothing that is private: a released text is stored only when its epsilon is finite, and
when the task's `restricted` does not forbid it.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from dpicl.accounting.calibration import slack_of
from dpicl.accounting.events import to_json
from dpicl.accounting.slack import explain_looseness
from dpicl.core.cell import Cell, ReleaseConfig
from dpicl.core.errors import DpiclError
from dpicl.core.plugins import files_read
from dpicl.core.seeds import SECURE_SHARE, streams
from dpicl.core.vocabulary import Demonstration, ReleasedPrompt, Report, report_nothing
from dpicl.data.task import Task
from dpicl.evaluation.intervals import bootstrap_interval
from dpicl.mechanism import checked
from dpicl.mechanism.bases import Mechanism
from dpicl.models import plugin_of
from dpicl.models.base import LanguageModel
from dpicl.models.embeddings import load_embeddings
from dpicl.releasing.release import Release, limit_prompt, plan_labels, release
from dpicl.results import manifest
from dpicl.results.parts import WITHHELD, Data, Embedding, KnobValue, LedgerRow, Model
from dpicl.results.schema import (
    Answer,
    Cost,
    Documents,
    Manifest,
    Privacy,
    Released,
    ReleaseReference,
    Result,
    Score,
    SuiteReference,
    hash_release,
    wrap_validation_errors,
)
from dpicl.run.workbench import LoadedCell, OtherRelease, Workbench

if TYPE_CHECKING:
    from dpicl.evaluation.lm_eval_bridge import Evaluation

_SECURE_NOTES = (
    "cost, fingerprint and duplicates depend on private records: withheld; sizes are declared",
    f"accounted at delta - {SECURE_SHARE:g}; the rest of delta is for floating point",
)


def run_cell(
    cell: Cell, suite: SuiteReference, bench: Workbench, report: Report = report_nothing
) -> Result:
    """Runs one cell.

    report: called with (done, total, unit) as the release proceeds.
    Raises Skipped when the mechanism cannot do the task, and DpiclError for what a user can fix; BudgetExceeded when
    the ledger proves more than the target, in which case there is no result; PluginError for scores and texts that no
    result may hold.
    """
    clock = _Clock()
    report(0, 1, "loading")
    with clock.phase("load"):
        loaded = bench.load_cell(cell)
        loaded.require_scores()
    mechanism, task, model = loaded.mechanism, loaded.task, loaded.model
    # before a mechanism gets hold of the model
    made_with = manifest_of(task, model, plugin=cell.plugin)
    meter = Meter(model)
    report(0, 1, "releasing")
    failed_before = model.usage.failures.copy()
    released = release(
        mechanism,
        task,
        model,
        cell.release,
        outputs=bench.outputs,
        report=report,
        phase=clock.phase,
    )
    failures = dict(model.usage.failures - failed_before)
    with clock.phase("load"):
        loaded.load_scorers(released.prompt, released.answers)
    report(0, 1, "evaluating")
    evaluation = bench.evaluate(loaded, released.prompt, released.answers, clock.phase)
    model.require_same()
    with wrap_validation_errors():
        result = _result(loaded, suite, made_with, released, evaluation, meter.cost(clock.seconds))
        return result.model_copy(update={"failures": failures})


def score_release(
    cell: Cell,
    scored: Result,
    suite: SuiteReference,
    bench: Workbench,
    report: Report = report_nothing,
) -> Result:
    """Scores what an earlier result released, with the cell's test records; no private record reaches a mechanism.

    scored: a result that `can_score_again`, of a cell with the same `release_id`. Raises as `run_cell`, and
    OtherRelease where a release of the cell would be another one: of other records, or of another model of that name.
    """
    clock = _Clock()
    report(0, 1, "loading")
    with clock.phase("load"):
        loaded = bench.load_cell(cell)
        loaded.require_scores()
        bench.require_same_private_records(cell, scored)
        prompt = prompt_of(loaded, scored)
        loaded.load_scorers(prompt, None)
    made_with = manifest_of(loaded.task, loaded.model, plugin=cell.plugin)
    if made_with.model.pin != scored.manifest.model.pin:
        raise OtherRelease(f"its earlier release is of another model than {cell.model} is now")
    report(0, 1, "evaluating")
    evaluation = bench.evaluate(loaded, prompt, None, clock.phase)
    loaded.model.require_same()
    with wrap_validation_errors():
        return scored.model_copy(
            update={
                "cell_id": cell.id,
                "suite": suite,
                "cell": cell,
                **_fields_of_scores(loaded, evaluation),
                "manifest": made_with.model_copy(update=_list_inputs(loaded, evaluation.embedding)),
                "cost": scored.cost.model_copy(update={"seconds": clock.seconds}),
                "created": now(),
                "scored_release": ReleaseReference(
                    cell_id=scored.cell_id, sha256=hash_release(scored)
                ),
            }
        )


def prompt_of(loaded: LoadedCell, result: Result) -> ReleasedPrompt:
    """What a result released, as the model read it."""
    demonstrations = [Demonstration(each.text, each.label, each.tokens) for each in result.released]
    prompt = ReleasedPrompt(result.instruction, demonstrations)
    return limit_prompt(
        prompt, plan_labels(loaded.mechanism, loaded.task, loaded.cell.release), loaded.cell.shots
    )


class _Clock:
    """Seconds of each phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.perf_counter() - start, 3)


class Meter:
    """What a model reads from now on."""

    def __init__(self, model: LanguageModel) -> None:
        self._usage = model.usage
        self._before = self._usage.tokens_read

    def cost(self, seconds: dict[str, float]) -> Cost:
        read = self._usage.tokens_read - self._before
        return Cost(seconds=seconds, tokens_read=read, peak_memory_mb=manifest.peak_memory_mb())


def _result(
    loaded: LoadedCell,
    suite: SuiteReference,
    made_with: Manifest,
    released: Release,
    evaluation: Evaluation,
    cost: Cost,
) -> Result:
    cell, mechanism, task = loaded.cell, loaded.mechanism, loaded.task
    publishable = math.isfinite(released.bounds.upper) and not task.restricted
    answers = released.answers or {}
    shown = released.prompt if publishable else ReleasedPrompt(None)
    return Result(
        cell_id=cell.id,
        suite=suite,
        cell=cell,
        **_fields_of_scores(loaded, evaluation),
        privacy=privacy_of(mechanism, released, cell.release),
        released=[
            Released(text=each.text, label=each.label, tokens=each.tokens)
            for each in shown.demonstrations
        ],
        instruction=shown.instruction,
        released_count=len(released.prompt.texts) if released.answers is None else len(answers),
        answers=[Answer(id=key, text=text) for key, text in answers.items()] if publishable else [],
        prepared=released.more is not None,
        manifest=made_with.model_copy(update=_list_inputs(loaded, evaluation.embedding)),
        cost=cost,
        created=now(),
    )


def _fields_of_scores(loaded: LoadedCell, evaluation: Evaluation) -> dict[str, Any]:
    """The fields of a result that say how good its release is."""
    directions = loaded.task.config.higher_is_better
    return {
        "scores": _scores(evaluation, loaded.cell.seed),
        "main_metric": loaded.task.main_metric,
        "documents": {
            metric: Documents(ids=list(evaluation.ids), outcomes=list(outcomes))
            for metric, outcomes in evaluation.outcomes.items()
        },
        "aggregates": dict(evaluation.aggregates),
        "skipped_metrics": dict(evaluation.skipped),
        "higher_is_better": {
            name: directions[name] for name in (*evaluation.scores, *evaluation.aggregates)
        },
    }


def _list_inputs(loaded: LoadedCell, read: str | None) -> dict[str, Any]:
    """What of a manifest is known once a cell has run. read: the embedding model that a metric read."""
    cell, mechanism = loaded.cell, loaded.mechanism
    option, embedding = embedding_of(mechanism, None), embedding_of(mechanism, read)
    used = [digest for digest in (cell.plugin, plugin_of(cell.model)) if digest is not None]
    return {
        "embedding": embedding,
        "mechanism_embedding": None if option == embedding else option,
        "mechanism_version": mechanism.version if cell.plugin is None else None,
        "plugin_files": {digest: files_read(digest) for digest in used} or None,
    }


def now() -> str:
    """When a result is made, as its file says it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def privacy_of(mechanism: Mechanism, released: Release, config: ReleaseConfig) -> Privacy:
    event, knob = released.ledger.event(), None
    if mechanism.knob is not None:
        calibration = released.calibration
        knob = KnobValue(
            name=mechanism.knob.name, value=calibration.knob, by_label=dict(calibration.by_label)
        )
    slack = slack_of(event, released.calibration.delta, released.bounds.upper)
    return Privacy(
        epsilon_target=config.epsilon,
        epsilon_claimed=released.claimed,
        epsilon_proved=released.bounds.upper,
        delta=config.delta,
        knob=knob,
        queries=released.sizes.queries,
        epsilon_per_query=released.per_query,
        slack=slack,
        ledger=[LedgerRow(**row) for row in released.ledger.to_json()],
        event=to_json(event),
        accountants=released.bounds.accountants,
        notes=[
            *released.bounds.notes,
            *filter(None, [explain_looseness(slack)]),
            *(_SECURE_NOTES if config.secure else ()),
        ],
    )


def _scores(evaluation: Evaluation, seed: int) -> dict[str, Score]:
    resampling = int(streams(seed).stream("bootstrap").integers(2**31))
    scores = {}
    for metric, value in evaluation.scores.items():
        low, high = bootstrap_interval(evaluation.outcomes[metric], seed=resampling)
        scores[metric] = Score(value=value, low=low, high=high)
    return scores


def embedding_of(mechanism: Mechanism, read: str | None) -> Embedding | None:
    """The embedding model that a metric read, else that of the mechanism's option; None without one."""
    name = read or getattr(mechanism, "embedding", None)
    if not isinstance(name, str):
        return None
    try:
        model = load_embeddings(name)
    except DpiclError:
        return None  # a plug-in's option that is called so and names something else
    return Embedding(name=model.name, sha256=model.sha256)


def manifest_of(
    task: Task, model: LanguageModel, secure: bool = False, plugin: str | None = None
) -> Manifest:
    """What a reader needs to run it again; with secure noise without what follows from the records.

    plugin: sha256 of the file that the mechanism came with, if it did.
    """
    commit, dirty = manifest.commit()
    identity = model.identity
    return Manifest(
        commit=commit,
        dirty=dirty,
        python=platform.python_version(),
        packages=dict(manifest.package_versions()),
        model=Model.model_validate(identity, from_attributes=True),
        data=Data(
            fingerprint=WITHHELD if secure else task.fingerprint,
            source=task.source,
            dropped={} if secure else dict(task.dropped),
            sizes={
                label or "": n
                for label, n in sorted(task.group_sizes.items(), key=lambda item: item[0] or "")
            },
            public_records=len(task.public),
            test_records=len(task.test),
        ),
        prompts_hash=task.prompts_hash,
        dtype=identity.dtype,
        device=identity.device,
        machine=manifest.machine(),
        plugin_checked=None if plugin is None else checked.has_passed(plugin),
        server=model.server,
    )
