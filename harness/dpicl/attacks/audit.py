"""Sampled audits: how much epsilon can be demonstrated for what a mechanism releases.

A canary is in the private set or not; the mechanism runs many times on both sets; a rule that was chosen on one half of
the runs says on the other half, by the released answer or text alone, which is which. Limits by betting turn that into
a lower bound on epsilon that holds at the stated confidence over samples of records and noise
(dpicl.attacks.lower_bounds). After Xia et al. 2025, whose mistakes docs/attacks-and-audits.md lists; demonstration
mechanisms are beyond them. Who sees the noisy releases inside needs no runs: dpicl.attacks.exact_audit.

Model, question, number of records: the auditor may choose all of them, and the bound is one for what was run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpicl.attacks.audit_runs import AuditRuns, AuditSettings, AuditSetup
from dpicl.attacks.driver import release_of, result_of, subject_of
from dpicl.attacks.results import AttackResult, Attempt, LowerBound
from dpicl.core.cell import large_delta
from dpicl.core.errors import UsageError
from dpicl.core.output_cache import OutputCache
from dpicl.core.seeds import streams
from dpicl.core.vocabulary import LABEL_LOCAL, Record, Report, silent
from dpicl.data.task import PublicTask, Task
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.outputs import skip_reason
from dpicl.models.base import LanguageModel
from dpicl.releasing.release import calibrate_mechanism
from dpicl.results.schema import wrap_validation_errors
from dpicl.run.pipeline import Meter, manifest_of


def check(mechanism: Mechanism, task: PublicTask) -> None:
    """Raises UsageError where there is nothing to audit. ``task`` needs no records."""
    if mechanism.knob is None:
        raise UsageError(f"{mechanism.name} adds no noise whatever epsilon is, so an audit has nothing to test.")
    if mechanism.notion == LABEL_LOCAL:
        raise UsageError(
            f"The epsilon of {mechanism.name} is exact by its formula, ln(P(own label) / P(another one)), so there is"
            " nothing to bound from below; `dpicl check` compares the code with it."
        )
    asked_itself = not mechanism.pays_per_query or task.kind == "generation"
    if asked_itself and (reason := skip_reason(mechanism, task)):
        raise UsageError(f"{mechanism.name} cannot do {task.name}: {reason}.")


@dataclass(frozen=True)
class AuditJob:
    """What is audited and how; known before the model is read: so are the subject and the id of each result.

    model: as the user named it. options: all of the mechanism's. plugin: its hash.
    """

    mechanism: Mechanism
    task: Task
    model: str
    settings: AuditSettings
    options: Mapping[str, Any]
    plugin: str | None = None

    def at(self, epsilon: float) -> Attempt:
        """The audit of one target epsilon."""
        own = self.settings
        rest = {name: getattr(self, name) for name in ("model", "options", "plugin")}
        rest |= {"members": own.size(self.mechanism), "shots": int(self.mechanism.releases_texts)}
        subject = subject_of(self.mechanism, self.task, epsilon=epsilon, delta=own.delta, seed=own.seed, **rest)
        return Attempt("audit", "black-box", own.described(self.mechanism), subject)

    def setup(self, model: LanguageModel, outputs: OutputCache, report: Report) -> AuditSetup:
        """What the audit works with; of a task with groups, records of the one whose demonstration is released."""
        task, own = self.task, self.settings
        grouped = task.partitioned and self.mechanism.by_label and self.mechanism.releases_texts
        candidates = [record for record in task.train if not grouped or record.label == task.labels[0]]
        drawn = held_out(candidates, own.size(self.mechanism), streams(own.seed).stream("audit:records"))
        return AuditSetup(self.mechanism, task, *drawn, model, own, outputs, report)


def audit(
    job: AuditJob,
    model: LanguageModel,
    epsilons: Sequence[float],
    outputs: OutputCache | None = None,
    report: Report = silent,
) -> Iterator[AttackResult]:
    """One result for each epsilon; the model is read for the first one. Raises UsageError where the settings do not fit
    the task."""
    start, meter = time.perf_counter(), Meter(model)
    mechanism, own = job.mechanism, job.settings
    setup = job.setup(model, outputs or OutputCache(None), report)
    runs: AuditRuns | None = None
    for epsilon in epsilons:
        calibration = calibrate_mechanism(mechanism, setup.sizes, epsilon, own.delta)
        runs = runs or AuditRuns(setup, calibration.knob)
        found, ledger = runs.bound(calibration)
        with wrap_validation_errors():
            result = result_of(
                job.at(epsilon),
                mechanism,
                release_of(mechanism, calibration, setup.sizes, ledger),
                manifest_of(job.task, model),
                meter.cost({"audit": round(time.perf_counter() - start, 3)}),
                bound=LowerBound(
                    epsilon=found.epsilon,
                    delta=own.delta,
                    confidence=own.confidence,
                    method="rates",
                    decision=found.decision,
                ),
                notes=[runs.canary.note, *filter(None, [large_delta(own.delta, len(setup.private))])],
            )
        yield result
        start, meter = time.perf_counter(), Meter(model)


def held_out(train: Sequence[Record], count: int, sampling: np.random.Generator) -> tuple[list[Record], Record]:
    """(``count`` private records, one more that is not among them), by public randomness. Raises UsageError for too
    few."""
    if len(train) <= count:
        raise UsageError(f"The task has {len(train)} train records and the audit needs {count + 1}; lower --records.")
    order = sampling.permutation(len(train))
    return [train[at] for at in order[:count].tolist()], train[int(order[count])]
