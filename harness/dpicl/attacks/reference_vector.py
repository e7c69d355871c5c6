"""The reference vector: releases with the canary and without it differ by a direction that can be learned; a release is
projected on it.

Choi et al. 2025 (ContextLeak, arXiv 2512.16059) do so with the noisy mean embeddings of ESA. Here the attack projects
any noisy releases of an answer mechanism: sums of ballots or of embeddings, marked words, clusters. Half of the runs
teach the direction, and it tells the others apart. Unlike theirs, the bound does not come from an accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpicl.attacks import rates
from dpicl.attacks.audit import bound_of
from dpicl.attacks.audit_rules import AuditEvidence, reference_vector
from dpicl.attacks.audit_runs import AnswerRuns
from dpicl.attacks.audit_settings import AuditSettings, AuditSetup
from dpicl.attacks.base import Attack, AttackFinding, AttackSetup
from dpicl.attacks.driver import release_of
from dpicl.attacks.lower_bounds import halves
from dpicl.core.errors import UsageError
from dpicl.core.seeds import streams
from dpicl.data.task import Task
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.outputs import skip_reason
from dpicl.releasing.release import calibrate_mechanism


@dataclass(frozen=True)
class ReferenceVector(Attack):
    """runs: with the canary, and as many without; each draws a new sample of the members. question: what is asked, see
    dpicl.attacks.canaries. words: of the canary that are asked about."""

    name = "reference_vector"
    access = "white-box"
    source = "Choi et al. 2025, arXiv 2512.16059"
    summary = "noisy releases, projected on the learned difference that one record makes"

    runs: int = 100
    question: str = "lookup"
    words: int = 12

    def __post_init__(self) -> None:
        self.require_at_least(runs=16)

    def skip(self, mechanism: Mechanism, task: Task) -> str | None:
        if not mechanism.pays_per_query:
            return "it looks at the noisy sums of single answers; `dpicl audit` looks at those of other mechanisms"
        return skip_reason(mechanism, task)

    def run(self, setup: AttackSetup) -> AttackFinding:
        # Members are not of interest one by one: the private set has the published size, and one more is the canary.
        config, pool = setup.config, [*setup.members, *setup.others]
        size = sum(setup.sizes.values()) if setup.sizes else len(setup.members)
        if len(pool) <= size:
            raise UsageError("The reference vector needs one record beside the private set; raise --others.")
        target = setup.make_target(pool[:size])
        shared = {"question": self.question, "runs": self.runs, "words": self.words}
        settings = AuditSettings(redraws=1, delta=config.delta, seed=config.seed, **shared)  # type: ignore[arg-type]
        drawn, outputs = (pool[:size], pool[size]), target.outputs()
        audited = AuditSetup(setup.mechanism, setup.task, *drawn, setup.model, settings, outputs, setup.report)
        runs = AnswerRuns(audited)
        calibration = calibrate_mechanism(setup.mechanism, audited.sizes, config.epsilon, config.delta)
        evidence = runs.evidence(calibration)
        evidence.rule.fits = {"reference vector": reference_vector}
        bound, _ = bound_of(evidence, settings)
        target.releases.append(release_of(target.mechanism, calibration, audited.sizes, evidence.ledger))
        inside, outside = _projected(evidence, config.seed)
        return AttackFinding(
            target=target,
            bound=bound,
            measures=rates.membership(inside, outside, config.seed),
            counts={"runs with the canary": len(inside), "runs without it": len(outside)},
            notes=(*runs.notes, "one canary in many samples of the members, not many members of one release"),
        )


def _projected(evidence: AuditEvidence, seed: int) -> list[np.ndarray]:
    """Noisy scores [n] of the runs that did not teach the direction, with the canary and without."""
    (teach_in, judge_in), (teach_out, judge_out) = (halves(runs, seed) for runs in (evidence.members, evidence.others))
    score = reference_vector(teach_in, teach_out)
    noise, sd = streams(seed).stream("reference vector"), evidence.rule.sd or 0.0
    found = (score(runs) for runs in (judge_in, judge_out))
    return [own[:, 0] if own.ndim > 1 else own + sd * noise.normal(size=len(own)) for own in found]
