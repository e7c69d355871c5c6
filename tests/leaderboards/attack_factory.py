"""Attack results as files would hold them, with the numbers that a test asks for.

By default an attack fits the row that `make_result` makes: same mechanism, task, model, weights, ε and δ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpicl.attacks.results import AttackResult, Attempt, Decision, Estimate, LowerBound, Subject
from dpicl.results.schema import Cost, Privacy
from tests.leaderboards.factory import FIXED, make_result


def make_attack(
    mechanism: str = "tang",
    epsilon: float = 1.0,
    audited: float | None = 0.4,
    *,
    attack: str = "audit",
    access: str = "white-box",
    task: str = "agnews",
    task_version: int = 1,
    source: str = "synthetic",
    model: str = "embedded",
    weights: str = "c" * 64,
    plugin: str | None = None,
    delta: float = 1e-5,
    proved: float | None = None,
    confidence: float = 0.95,
    method: str = "gaussian",
    decision: Decision | None = None,
    options: Mapping[str, Any] | None = None,
    members: int = 16,
    queries: int | None = None,
    seed: int = 0,
    measures: Mapping[str, Estimate] | None = None,
    counts: Mapping[str, int] | None = None,
    notes: Sequence[str] = (),
    details: Mapping[str, Any] | None = None,
) -> AttackResult:
    """One attack. audited: its lower bound, None for an attack that gives none. proved: of the audited run."""
    epsilon = FIXED.get(mechanism, epsilon)
    proved = epsilon * 0.99 if proved is None else proved
    subject = Subject(
        mechanism=mechanism,
        options=dict(options or {}),
        plugin=plugin,
        task=task,
        task_version=task_version,
        source=source,
        model=model,
        epsilon=epsilon,
        delta=delta,
        seed=seed,
        shots=1,
        members=members,
    )
    settings = {"runs": 100}
    bound = None
    if audited is not None:
        bound = LowerBound(
            epsilon=audited, delta=delta, confidence=confidence, method=method, decision=decision
        )
    manifest = make_result(source=source).manifest
    return AttackResult(
        id=Attempt(attack, access, settings, subject).id,
        attack=attack,
        access=access,
        settings=settings,
        subject=subject,
        privacy=Privacy(
            epsilon_target=epsilon,
            epsilon_claimed=None,
            epsilon_proved=proved,
            delta=delta,
            knob=None,
            queries=queries,
            ledger=[],
            event={"event": "none"},
            accountants={},
        ),
        bound=bound,
        measures=dict(measures or {}),
        counts=dict(counts or {}),
        notes=list(notes),
        details=dict(details or {}),
        manifest=manifest.model_copy(
            update={"model": manifest.model.model_copy(update={"sha256": weights})}
        ),
        cost=Cost(seconds={"audit": 1.0}, tokens_read=1, peak_memory_mb=1.0),
        created="2026-01-02T03:04:05+00:00",
    )


def rule(tpr: float, fpr: float, trials: int = 50) -> Decision:
    """A decision rule with these rates on this many runs a side; its stored limits are the rates themselves."""
    return Decision(
        threshold=0.5,
        tpr=tpr,
        tpr_lower=tpr,
        fpr=fpr,
        fpr_upper=fpr,
        trials_in=trials,
        trials_out=trials,
    )


AUC = {
    "auc": Estimate(value=0.61, low=0.48, high=0.73),
    "advantage": Estimate(value=0.2, low=0.0, high=0.4),
}
