"""Audits: how much epsilon can be demonstrated for the code that runs.

A canary is in the private set or not; the mechanism runs many times on both sets; a rule that was chosen on one half of
the runs says on the other half which is which. Clopper-Pearson limits, or limits by betting where the noise of a run is
known, turn its rates into a lower bound on epsilon that holds at the stated confidence over deals of records and noise.

White-box sees what leaves the doors: noisy sums and choices. A sum's clean value is known to the auditor and its noise
is Gaussian, so the rates given the clean values are exact, and only the deals are random. Black-box sees the released
answer or text. After Xia et al. 2025, whose mistakes docs/attacks.md lists; demonstration mechanisms are beyond them.

Model, question, number of records: the auditor may choose all of them, and the bound is one for what was run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dpicl.harness.attacks.answer_evidence import AnswerEvidence
from dpicl.harness.attacks.audit_rules import Evidence
from dpicl.harness.attacks.canaries import held_out
from dpicl.harness.attacks.demonstration_evidence import DemonstrationEvidence
from dpicl.harness.attacks.lower_bounds import Bound, split_bounds
from dpicl.harness.attacks.mixtures import bootstrap_bound, clean_share, exact_bound
from dpicl.harness.attacks.paired import PairedBound, paired_bounds
from dpicl.harness.attacks.results import Access, AttackResult, Decision, LowerBound, Subject, attack_id
from dpicl.harness.core.errors import UsageError
from dpicl.harness.core.seeds import streams
from dpicl.harness.mechanism.bases import AnswerMechanism, DemonstrationMechanism, Mechanism, Sizes
from dpicl.harness.privacy import accountants
from dpicl.harness.privacy.calibration import Calibration, calibrate
from dpicl.harness.run import manifest
from dpicl.harness.run.expand import sized_options
from dpicl.harness.run.output_cache import OutputCache
from dpicl.harness.run.releasing import Release, Report, Stated
from dpicl.harness.run.results import Cost, storable
from dpicl.harness.run.write_up import manifest_of, privacy_of

if TYPE_CHECKING:
    from dpicl.harness.data.task import PublicTask, Task
    from dpicl.harness.models.base import LanguageModel


#: Draws of the noise of the published bootstrap.
TRIALS: Final = 400_000
REPEATS: Final = 5

#: Options of an audit where the command does not say otherwise: sizes that a processor can run a hundred times.
#: T = 4 partitions of 2 examples are the published audit's.
SIZES: Final[Mapping[str, int]] = {
    "slots": 4,
    "examples_per_slot": 2,
    "record_tokens": 110,
    "public_slots": 8,
}
DEMONSTRATION_SIZES: Final[Mapping[str, int]] = {
    "slots": 8,
    "examples_per_slot": 1,
    "prompts": 8,
    "tokens": 6,
    "top_k": 10,
    "record_tokens": 32,
}


@dataclass(frozen=True)
class Audit:
    """How to audit. runs: on each side, one deal of records each. redraws: noise draws of a run without a formula.

    records: private records (None: as many as a sample expects, so that every record is in it: q = 1). words: of the
    canary that are asked about. repeats: how often a canary to be copied spells out its example. rank: of the canary's
    tokens among those that could be released.
    """

    access: Access = "white-box"
    question: str = "inquiry"
    runs: int = 200
    redraws: int = 50
    records: int | None = None
    confidence: float = 0.95
    delta: float = 1e-5
    seed: int = 0
    words: int = 12
    repeats: int = 3
    rank: int = 9

    def options(self, cls: type[Mechanism], task: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Every option of the mechanism: audit sizes where nothing was given."""
        sizes = SIZES if issubclass(cls, AnswerMechanism) else DEMONSTRATION_SIZES
        return sized_options(cls, task, sizes, given)

    def described(self, mechanism: Mechanism) -> dict[str, Any]:
        """What a result file says of these."""
        own = asdict(self)
        for name in ("access", "seed", "delta", "records"):
            del own[name]
        unused = ("rank",) if isinstance(mechanism, AnswerMechanism) else ("question", "words", "repeats")
        return {name: value for name, value in own.items() if name not in unused}

    def id_of(self, mechanism: Mechanism, subject: Subject) -> str:
        """The id of the result."""
        return attack_id("audit", self.access, self.described(mechanism), subject)


def check(mechanism: Mechanism, task: PublicTask) -> None:
    """Raises UsageError where there is nothing to audit. ``task`` needs no records."""
    if mechanism.knob is None:
        raise UsageError(f"{mechanism.name} adds no noise whatever epsilon is, so an audit has nothing to test.")
    asked_itself = not isinstance(mechanism, AnswerMechanism) or task.kind == "generation"
    if asked_itself and (reason := mechanism.skip(task)):
        raise UsageError(f"{mechanism.name} cannot do {task.name}: {reason}.")


def subject_of(
    mechanism: Mechanism,
    task: Task,
    model: str,
    epsilon: float,
    settings: Audit,
    options: Mapping[str, Any],
    plugin: str | None,
) -> Subject:
    """What is audited; known before the model is read."""
    return Subject(
        mechanism=mechanism.name,
        options=dict(options),
        plugin=plugin,
        task=task.name,
        task_version=task.version,
        source=task.source,
        model=model,
        epsilon=epsilon,
        delta=settings.delta,
        seed=settings.seed,
        shots=0 if isinstance(mechanism, AnswerMechanism) else 1,
        members=settings.records or sample_size(mechanism),
    )


def sample_size(mechanism: Mechanism) -> int:
    """The expected sample, by the mechanism's options. Raises UsageError where they do not say."""
    size = getattr(mechanism, "prompts", None)
    if size is None:
        size = getattr(mechanism, "slots", 0) * getattr(mechanism, "examples_per_slot", 1)
    if not size:
        raise UsageError(f"{mechanism.name} has no option that says how many records a sample has; give --records.")
    return int(size)


def audit(
    mechanism: Mechanism,
    task: Task,
    model: LanguageModel,
    epsilons: Sequence[float],
    settings: Audit,
    options: Mapping[str, Any],
    outputs: OutputCache | None = None,
    plugin: str | None = None,
    report: Report = lambda *_: None,
    asked: str | None = None,
) -> Iterator[AttackResult]:
    """One result for each epsilon; the model is read for the first one.

    options: all of the mechanism's, for the result. asked: the model as the user named it. Raises UsageError where the
    settings do not fit the task.
    """
    start, tokens = time.perf_counter(), model.usage.tokens_read
    runs = _runs(mechanism, task, model, settings, outputs or OutputCache(None), report)
    for epsilon in epsilons:
        calibration = calibrate(mechanism, runs.sizes, epsilon, settings.delta)
        evidence = runs.evidence(calibration)
        bound, separate = bounds_of(evidence, settings)
        subject = subject_of(mechanism, task, asked or model.identity.name, epsilon, settings, options, plugin)
        own = settings.described(mechanism)
        release = release_of(mechanism, calibration, runs.sizes, evidence)
        with storable():
            result = AttackResult(
                id=settings.id_of(mechanism, subject),
                attack="audit",
                access=settings.access,
                settings=own,
                subject=subject,
                privacy=privacy_of(mechanism, release, epsilon, settings.delta, "proved"),
                bound=bound,
                details={**separate, **_as_they_are(evidence, bound, settings)},
                notes=runs.notes,
                manifest=manifest_of(task, model),
                cost=Cost(
                    seconds={"audit": round(time.perf_counter() - start, 3)},
                    tokens_read=model.usage.tokens_read - tokens,
                    peak_memory_mb=manifest.peak_memory_mb(),
                ),
                created=datetime.now(UTC).isoformat(timespec="seconds"),
            )
        yield result
        start, tokens = time.perf_counter(), model.usage.tokens_read


def _runs(
    mechanism: Mechanism, task: Task, model: LanguageModel, settings: Audit, outputs: OutputCache, report: Report
) -> AnswerEvidence | DemonstrationEvidence:
    count = settings.records or sample_size(mechanism)
    if isinstance(mechanism, AnswerMechanism):
        private, other = held_out(task.train, count, streams(settings.seed).stream("audit:records"))
        return AnswerEvidence(mechanism, task, private, other, model, settings, outputs, report)
    if isinstance(mechanism, DemonstrationMechanism):
        return DemonstrationEvidence(mechanism, task, count, model, settings, report)
    raise UsageError(f"{mechanism.name} is neither a demonstration mechanism nor an answer mechanism.")


def release_of(mechanism: Mechanism, calibration: Calibration, sizes: Sizes, evidence: Evidence) -> Release:
    """The audited release, with what its ledger really holds."""
    bounds = accountants.epsilon(evidence.ledger.event(), calibration.delta)
    return Release(calibration, sizes, Stated.of(mechanism, calibration, sizes), [], None, evidence.ledger, bounds)


def bounds_of(evidence: Evidence, settings: Audit) -> tuple[LowerBound, dict[str, Any]]:
    """The bound, and those of both methods from limits of TPR and FPR on their own.

    Decisions get Clopper-Pearson limits. Where the decision of a run is a probability, or a share of redraws of the
    noise, pairs of runs say more (dpicl.harness.attacks.paired).
    """
    rule, gaussian = evidence.rule, evidence.gaussian
    if any(np.isnan(runs).any() for runs in (evidence.members, evidence.others)):
        raise UsageError("A run gave NaN, and a run cannot be left out afterwards; `dpicl check` looks for the reason.")
    terms = (evidence.members, evidence.others, rule.decide, rule.candidates, settings.delta, settings.confidence)
    separate = split_bounds(*terms, settings.seed)
    found: Bound | PairedBound = separate.valid(gaussian)
    trials = separate.gdp.trials_in, separate.gdp.trials_out
    if evidence.probabilities:
        found = paired_bounds(*terms, settings.seed).valid(gaussian)
    bound = LowerBound(
        epsilon=found.epsilon,
        delta=settings.delta,
        confidence=settings.confidence,
        method="gaussian" if gaussian else "rates",
        mu=found.mu if gaussian else None,
        decision=Decision(
            threshold=found.threshold,
            side="above" if found.above else "below",
            tpr=found.tpr,
            tpr_lower=found.tpr_lower,
            fpr=found.fpr,
            fpr_upper=found.fpr_upper,
            trials_in=trials[0],
            trials_out=trials[1],
        ),
    )
    return bound, {
        "score": rule.chosen,
        "noise_std": rule.sd,
        "limits": "pairs of runs" if evidence.probabilities else "Clopper-Pearson",
        "noise_p_value": evidence.noise_p,
        "separate_limits": {"gaussian": separate.gdp.epsilon, "rates": separate.pure.epsilon},
    }


def _as_they_are(evidence: Evidence, bound: LowerBound, settings: Audit) -> dict[str, Any]:
    """What the collected runs say if they are all that there is: no confidence over further deals.

    exact: by the Gaussian mixture. bootstrap: the published method. clean_share: how much of the variance of mu comes
    from the few runs, against 400,000 draws of the noise. Nothing where the clean values are not known.
    """
    rule = evidence.rule
    if rule.sd is None:
        return {}
    members, others = rule.score(evidence.members), rule.score(evidence.others)
    terms = (members, others, rule.sd, settings.delta)
    exact = exact_bound(*terms, settings.confidence, settings.seed).conditional.valid(evidence.gaussian)
    boot = bootstrap_bound(*terms, TRIALS, settings.confidence, REPEATS, settings.seed)
    found: dict[str, Any] = {
        "exact": {"epsilon": exact.epsilon, "mu": exact.mu, "tpr": exact.tpr, "fpr": exact.fpr},
        "bootstrap": {
            "trials": boot.trials,
            "mean_epsilon": boot.mean_epsilon,
            "epsilons": [one.gdp.epsilon for one in boot.repeats],
            "split_epsilon": boot.split.valid(evidence.gaussian).epsilon,
        },
    }
    if rule.sd > 0 and bound.decision is not None and 0 < bound.decision.tpr < 1 and 0 < bound.decision.fpr < 1:
        share = clean_share(members, others, rule.sd, bound.decision.threshold, TRIALS)
        found["clean_share"] = {"share": share.share, "clean_std": share.clean_std, "noise_std": share.noise_std}
    return found
