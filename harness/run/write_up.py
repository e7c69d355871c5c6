"""From what a cell did to its result: numbers, settings, released text, and nothing that is private.

A released text is stored only when its epsilon is finite, and when the task's `restricted` does not forbid it. With
secure noise the records are taken for private in earnest: then also what depends on them without being paid for
(seconds, tokens read, memory, fingerprint) is withheld, and sizes are the declared ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dpicl.harness.core.seeds import SECURE_SHARE, Streams, streams
from dpicl.harness.data.config import higher_is_better
from dpicl.harness.evaluation.statistics import bootstrap_interval
from dpicl.harness.mechanism import checked
from dpicl.harness.mechanism.bases import Demonstration, Mechanism
from dpicl.harness.privacy.events import to_json
from dpicl.harness.run import manifest
from dpicl.harness.run.expand import Cell
from dpicl.harness.run.releasing import Release
from dpicl.harness.run.results import (
    WITHHELD,
    Answer,
    Cost,
    Data,
    Documents,
    KnobValue,
    LedgerRow,
    Manifest,
    Model,
    Privacy,
    Released,
    Result,
    Score,
    SuiteReference,
    storable,
)

if TYPE_CHECKING:
    from dpicl.harness.data.task import Task
    from dpicl.harness.evaluation.lm_eval_bridge import Evaluation
    from dpicl.harness.models.base import LanguageModel

_EARNEST = (
    "cost, fingerprint and duplicates depend on private records: withheld; sizes are declared",
    f"accounted at delta - {SECURE_SHARE:g}; the rest of delta is for floating point",
)


@storable()
def write_up(
    cell: Cell,
    suite: SuiteReference,
    mechanism: Mechanism,
    task: Task,
    made_with: Manifest,
    release: Release,
    evaluation: Evaluation,
    cost: Cost,
) -> Result:
    """The result of a cell. Raises PluginError for scores and texts that no result may hold."""
    in_earnest = cell.secure
    publishable = math.isfinite(release.bounds.upper) and not _is_restricted(task)
    answers = release.answers or {}
    said = higher_is_better(task.config)
    return Result(
        cell_id=cell.id,
        suite=suite,
        cell=cell,
        scores=_scores(evaluation, streams(cell.seed)),
        main_metric=task.main_metric,
        documents=_documents(evaluation),
        privacy=privacy_of(mechanism, release, cell.epsilon, cell.delta, cell.mode, in_earnest),
        released=_released(release.demonstrations) if publishable else [],
        released_count=len(release.demonstrations) if release.answers is None else len(answers),
        answers=[Answer(id=key, text=text) for key, text in answers.items()] if publishable else [],
        aggregates=dict(evaluation.aggregates),
        skipped_metrics=dict(evaluation.skipped),
        higher_is_better={name: said[name] for name in (*evaluation.scores, *evaluation.aggregates)},
        manifest=made_with,
        cost=Cost(seconds={}, tokens_read=0, peak_memory_mb=0.0) if in_earnest else cost,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _is_restricted(task: Task) -> bool:
    """Whether released texts must stay here: they retell, or are, real records whose text may not be published."""
    return task.source != "synthetic" and bool(task.config["metadata"].get("restricted", False))


def _released(demonstrations: Sequence[Demonstration]) -> list[Released]:
    return [Released(text=each.text, label=each.label, tokens=each.tokens) for each in demonstrations]


def privacy_of(
    mechanism: Mechanism, release: Release, epsilon: float, delta: float, mode: str, in_earnest: bool = False
) -> Privacy:
    """What a release cost; epsilon and delta are what was asked for."""
    knob = mechanism.knob
    value = release.calibration.knob
    notes = list(_EARNEST) if in_earnest else []
    return Privacy(
        epsilon_target=epsilon,
        epsilon_claimed=release.stated.claimed,
        epsilon_proved=release.bounds.upper,
        delta=delta,
        knob=None if knob is None else KnobValue(name=knob.name, value=value),
        queries=release.sizes.queries,
        epsilon_per_query=release.stated.per_query,
        mode=mode,
        ledger=[LedgerRow(**row) for row in release.ledger.to_json()],
        event=to_json(release.ledger.event()),
        accountants=release.bounds.accountants,
        notes=[*release.bounds.notes, *notes],
    )


def _scores(evaluation: Evaluation, randomness: Streams) -> dict[str, Score]:
    seed = int(randomness.stream("bootstrap").integers(2**31))
    scores = {}
    for metric, value in evaluation.scores.items():
        outcomes = [document.outcome[metric] for document in evaluation.documents]
        low, high = bootstrap_interval(outcomes, seed=seed)
        scores[metric] = Score(value=value, low=low, high=high)
    return scores


def _documents(evaluation: Evaluation) -> dict[str, Documents]:
    return {
        metric: Documents(
            ids=[document.id for document in evaluation.documents],
            outcomes=[document.outcome[metric] for document in evaluation.documents],
        )
        for metric in evaluation.scores
    }


def manifest_of(task: Task, model: LanguageModel, in_earnest: bool = False, plugin: str | None = None) -> Manifest:
    """What a reader needs to run it again. plugin: sha256 of the file that the mechanism came with, if it did."""
    commit, dirty = manifest.commit()
    identity = model.identity
    return Manifest(
        commit=commit,
        dirty=dirty,
        python=manifest.python_version(),
        packages=manifest.package_versions(),
        model=Model(
            name=identity.name, sha256=identity.sha256, revision=identity.revision, parameters=identity.parameters
        ),
        data=Data(
            fingerprint=WITHHELD if in_earnest else task.fingerprint,
            source=task.source,
            dropped={} if in_earnest else dict(task.dropped),
            sizes={label or "": n for label, n in sorted(task.group_sizes.items(), key=lambda own: own[0] or "")},
            public_records=len(task.public),
            test_records=len(task.test),
        ),
        prompts_hash=task.prompts_hash,
        dtype=identity.dtype,
        device=identity.device,
        machine=manifest.machine(),
        plugin_checked=None if plugin is None else checked.has_passed(plugin),
    )
