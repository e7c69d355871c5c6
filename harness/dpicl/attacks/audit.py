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

from dpicl.attacks.audit_runs import AuditRuns
from dpicl.attacks.driver import release_of, result_of
from dpicl.attacks.results import AttackResult, LowerBound
from dpicl.core.cell import large_delta
from dpicl.core.errors import UsageError
from dpicl.data.task import PublicTask
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.outputs import skip_reason
from dpicl.releasing.release import calibrate_mechanism
from dpicl.results.schema import wrap_validation_errors
from dpicl.run.pipeline import Meter, manifest_of


def check(mechanism: Mechanism, task: PublicTask) -> None:
    """Raises UsageError where there is nothing to audit. ``task`` needs no records."""
    if mechanism.knob is None:
        raise UsageError(f"{mechanism.name} adds no noise whatever epsilon is, so an audit has nothing to test.")
    asked_itself = not mechanism.pays_per_query or task.kind == "generation"
    if asked_itself and (reason := skip_reason(mechanism, task)):
        raise UsageError(f"{mechanism.name} cannot do {task.name}: {reason}.")


def audit(runs: AuditRuns, epsilon: float) -> AttackResult:
    """The result at one target epsilon. Raises UsageError where the settings do not fit the task."""
    start, meter = time.perf_counter(), Meter(runs.model)
    job, own = runs.job, runs.job.settings
    calibration = calibrate_mechanism(job.mechanism, runs.sizes, epsilon, own.delta)
    found, ledger, note = runs.bound(calibration)
    with wrap_validation_errors():
        return result_of(
            job.at(epsilon),
            job.mechanism,
            release_of(job.mechanism, calibration, runs.sizes, ledger),
            manifest_of(job.task, runs.model),
            meter.cost({"audit": round(time.perf_counter() - start, 3)}),
            bound=LowerBound(
                epsilon=found.epsilon,
                delta=own.delta,
                confidence=own.confidence,
                method="rates",
                decision=found.decision,
            ),
            notes=[note, *filter(None, [large_delta(own.delta, len(runs.private))])],
        )
