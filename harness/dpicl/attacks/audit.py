"""Audits: how much epsilon can be demonstrated for the code that runs.

A canary is in the private set or not; the mechanism runs many times on both sets; a rule that was chosen on one half of
the runs says on the other half which is which. Clopper-Pearson limits, or limits by betting where the noise of a run is
known, turn its rates into a lower bound on epsilon that holds at the stated confidence over samples of records and
noise.

A white-box auditor sees every noisy release: noisy sums and choices. The auditor knows a sum's clean value, and its
noise is Gaussian, so the rates given the clean values are exact, and only the samples are random. A black-box auditor
sees the released answer or text. After Xia et al. 2025, whose mistakes docs/attacks-and-audits.md lists; demonstration
mechanisms are beyond them.

Model, question, number of records: the auditor may choose all of them, and the bound is one for what was run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from dpicl.attacks.answer_evidence import AnswerEvidence
from dpicl.attacks.audit_rules import AuditEvidence
from dpicl.attacks.audit_settings import AuditSettings, AuditSetup, sample_size
from dpicl.attacks.canaries import held_out
from dpicl.attacks.demonstration_evidence import DemonstrationEvidence
from dpicl.attacks.driver import result_of, subject_of
from dpicl.attacks.lower_bounds import split_bounds
from dpicl.attacks.mixtures import bootstrap_bound, clean_share, exact_bound
from dpicl.attacks.paired import paired_bounds
from dpicl.attacks.prepared_evidence import PreparedEvidence
from dpicl.attacks.results import AttackResult, Attempt, LowerBound
from dpicl.core.cell import large_delta
from dpicl.core.errors import UsageError
from dpicl.core.seeds import streams
from dpicl.core.vocabulary import LABEL_LOCAL, Report, Sizes, silent
from dpicl.data.task import PublicTask, Task
from dpicl.mechanism.bases import Kind, Mechanism
from dpicl.mechanism.outputs import skip_reason
from dpicl.models.base import LanguageModel
from dpicl.privacy import accountants
from dpicl.privacy.calibration import Calibration
from dpicl.releasing.output_cache import OutputCache
from dpicl.releasing.release import Release, Stated, calibrate_mechanism
from dpicl.results.schema import wrap_validation_errors
from dpicl.run.pipeline import Meter, manifest_of

#: What runs of a mechanism show, by its kind.
EVIDENCE: Final[Mapping[Kind | None, Callable[[Any, AuditSetup], Any]]] = {
    "answers": AnswerEvidence,
    "demonstrations": DemonstrationEvidence,
    "prepared": PreparedEvidence,
}

#: Draws of the noise of the published bootstrap.
TRIALS: Final = 400_000
REPEATS: Final = 5


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
        rest |= {"members": self.records, "shots": int(not self._answers), "delta": own.delta, "seed": own.seed}
        subject = subject_of(self.mechanism, self.task, epsilon=epsilon, **rest)
        return Attempt("audit", own.access, own.described(self.mechanism), subject)

    @property
    def records(self) -> int:
        """How many private records there are."""
        return self.settings.records or sample_size(self.mechanism)

    @property
    def _answers(self) -> bool:
        return not self.mechanism.releases_texts

    def setup(self, model: LanguageModel, outputs: OutputCache, report: Report) -> AuditSetup:
        """What the audit works with; of a task with groups, records of the one whose demonstration is released."""
        task = self.task
        grouped = task.partitioned and self.mechanism.by_label and not self._answers
        candidates = [record for record in task.train if not grouped or record.label == task.labels[0]]
        drawn = held_out(candidates, self.records, streams(self.settings.seed).stream("audit:records"))
        return AuditSetup(self.mechanism, task, *drawn, model, self.settings, outputs, report)


def audit(
    job: AuditJob,
    model: LanguageModel,
    epsilons: Sequence[float],
    outputs: OutputCache | None = None,
    report: Report = silent,
) -> Iterator[AttackResult]:
    """One result for each epsilon; the model is read for the first one. Raises UsageError where the settings do not fit
    the task."""
    start, meter = time.perf_counter(), Meter()
    mechanism, settings = job.mechanism, job.settings
    setup = job.setup(model, outputs or OutputCache(None), report)
    runs = EVIDENCE[mechanism.kind](mechanism, setup)
    for epsilon in epsilons:
        calibration = calibrate_mechanism(mechanism, setup.sizes, epsilon, settings.delta)
        evidence = runs.evidence(calibration)
        bound, separate = bounds_of(evidence, settings)
        with wrap_validation_errors():
            result = result_of(
                job.at(epsilon),
                mechanism,
                release_of(mechanism, calibration, setup.sizes, evidence),
                manifest_of(job.task, model),
                meter.cost({"audit": round(time.perf_counter() - start, 3)}),
                bound=bound,
                details={**separate, **_as_they_are(evidence, bound, settings), **_ceiling(evidence)},
                notes=[
                    *runs.notes,
                    *_ceiling_note(evidence),
                    *filter(None, [large_delta(settings.delta, job.records)]),
                ],
            )
        yield result
        start, meter = time.perf_counter(), Meter()


def release_of(mechanism: Mechanism, calibration: Calibration, sizes: Sizes, evidence: AuditEvidence) -> Release:
    """The audited release, with what its ledger really holds."""
    bounds = accountants.epsilon(evidence.ledger.event(), calibration.delta)
    return Release(calibration, sizes, Stated.of(mechanism, calibration, sizes), evidence.ledger, bounds)


def bounds_of(evidence: AuditEvidence, settings: AuditSettings) -> tuple[LowerBound, dict[str, Any]]:
    """The bound, and those of both methods from limits of TPR and FPR on their own.

    Decisions get Clopper-Pearson limits. Where the decision of a run is a probability, or a share of noise
    resamples, pairs of runs say more (dpicl.attacks.paired).
    """
    rule, gaussian = evidence.rule, evidence.gaussian
    if any(np.isnan(runs).any() for runs in (evidence.members, evidence.others)):
        raise UsageError("A trial returned NaN; dropping it would bias the bound. `dpicl check` looks for the reason.")
    seen = (evidence.members, evidence.others, rule.decide, rule.candidates, settings.delta, settings.confidence)
    separate = split_bounds(*seen, settings.seed)
    found = (paired_bounds(*seen, settings.seed) if evidence.probabilities else separate).valid(gaussian)
    bound = LowerBound(
        epsilon=found.epsilon,
        delta=settings.delta,
        confidence=settings.confidence,
        method="gaussian" if gaussian else "rates",
        mu=found.mu if gaussian else None,
        decision=found.decision,
    )
    return bound, {
        "score": rule.chosen,
        "noise_std": rule.sd,
        "limits": "pairs of runs" if evidence.probabilities else "Clopper-Pearson",
        "noise_p_value": evidence.noise_p,
        "separate_limits": {"gaussian": separate.gdp.epsilon, "rates": separate.approximate.epsilon},
    }


def _ceiling(evidence: AuditEvidence) -> dict[str, Any]:
    """What a black-box bound on votes is a share of."""
    if evidence.ceiling is None:
        return {}
    even, most = evidence.ceiling
    return {"label_only_ceiling": {"even": even, "most": most}}


def _ceiling_note(evidence: AuditEvidence) -> list[str]:
    if evidence.ceiling is None:
        return []
    even, most = evidence.ceiling
    return [
        f"label-only ceiling: who sees the winner alone can show epsilon = {even:.2f} where votes are split evenly, and"
        f" {most:.2f} on the clearest vote; a black-box bound is a share of that"
    ]


def _as_they_are(evidence: AuditEvidence, bound: LowerBound, settings: AuditSettings) -> dict[str, Any]:
    """What the collected runs say if they are all that there is: no confidence over further samples.

    exact: by the Gaussian mixture. bootstrap: the published method. clean_share: how much of the variance of mu comes
    from the few runs, against 400,000 draws of the noise. Nothing where the clean values are not known.
    """
    rule = evidence.rule
    if rule.sd is None:
        return {}
    members, others = rule.score(evidence.members), rule.score(evidence.others)
    seen = (members, others, rule.sd, settings.delta)
    exact = exact_bound(*seen).valid(evidence.gaussian)
    boot = bootstrap_bound(*seen, TRIALS, settings.confidence, REPEATS, settings.seed)
    found: dict[str, Any] = {
        "exact": {"epsilon": exact.epsilon, "mu": exact.mu, "tpr": exact.decision.tpr, "fpr": exact.decision.fpr},
        "bootstrap": {
            "trials": TRIALS,
            "mean_epsilon": boot.mean_epsilon,
            "epsilons": [one.gdp.epsilon for one in boot.repeats],
            "split_epsilon": boot.split.valid(evidence.gaussian).epsilon,
        },
    }
    if rule.sd > 0 and bound.decision is not None and 0 < bound.decision.tpr < 1 and 0 < bound.decision.fpr < 1:
        found["clean_share"] = asdict(clean_share(members, others, rule.sd, bound.decision.threshold, TRIALS))
    return found
