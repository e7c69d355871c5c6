"""The conformance kit: twelve checks that any mechanism must pass. docs/conformance.md says what each can prove.

Each check runs on one small synthetic task of every kind that the mechanism does, with the hostile model; a mechanism
passes a check when it passes on all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from harness.cells import build, resolve_options
from harness.conformance.bench import set_up
from harness.conformance.checks.accounting import budget, ledger
from harness.conformance.checks.audit import audit
from harness.conformance.checks.neighbours import private_reads, sensitivity
from harness.conformance.checks.noise import noise
from harness.conformance.checks.replay import no_crash, post_processing, public_labels
from harness.conformance.checks.reproducible import non_private, seeds
from harness.conformance.checks.sampling import sampling
from harness.conformance.evidence import Evidence
from harness.conformance.verdicts import Status, Verdict, failed, not_applicable
from harness.errors import BudgetExceeded, UsageError
from harness.mechanism import Mechanism
from harness.task import Task

Check = Callable[[Evidence], Verdict]

#: Name -> check, in the order in which they are shown.
CHECKS: Final[Mapping[str, Check]] = {
    "budget": budget,
    "ledger": ledger,
    "sampling": sampling,
    "private-reads": private_reads,
    "sensitivity": sensitivity,
    "noise": noise,
    "post-processing": post_processing,
    "public-labels": public_labels,
    "no-crash": no_crash,
    "seeds": seeds,
    "non-private": non_private,
    "audit": audit,
}
#: One task of each kind.
TASKS: Final = ("agnews", "mit_g", "samsum", "wikimovies")


@dataclass(frozen=True)
class Finding:
    """What one check says. task: where it was seen ('' where all tasks say it)."""

    check: str
    status: Status
    task: str
    why: str


def tasks_of(cls: type[Mechanism], task: str | None, options: Mapping[str, Any]) -> list[str]:
    """The tasks that a mechanism is checked on. Raises UsageError where it does none, or not the given one."""
    mechanism = build(cls, resolve_options(cls, task or "", dict(options)))
    reasons = {name: mechanism.skip(Task.without_records(name)) for name in ((task,) if task else TASKS)}
    done = [name for name, reason in reasons.items() if reason is None]
    if not done:
        name, reason = next(iter(reasons.items()))
        raise UsageError(f"{cls.name} cannot do {name}: {reason}; name a task that it can do with --task.")
    return done


def check_mechanism(
    cls: type[Mechanism],
    task: str | None = None,
    options: Mapping[str, Any] = MappingProxyType({}),
    seed: int = 0,
    report: Callable[[str, str], None] = lambda task, check: None,
) -> list[Finding]:
    """One finding a check, in the order of `CHECKS`.

    task: None for one of every kind that the mechanism does. options: of the mechanism; others are small ones.
    report: called with (task, check) before each check.
    Raises UsageError for a task that the mechanism cannot do and for options that do not fit.
    """
    verdicts: dict[str, list[tuple[str, Verdict]]] = {name: [] for name in CHECKS}
    for name in tasks_of(cls, task, options):
        evidence = Evidence(set_up(cls, name, options, seed))
        for check, verdict in _on_one_task(evidence, lambda check, name=name: report(name, check)).items():  # type: ignore[misc]
            verdicts[check].append((name, verdict))
    return [_worst(check, seen) for check, seen in verdicts.items()]


def _on_one_task(evidence: Evidence, report: Callable[[str], None]) -> dict[str, Verdict]:
    error = evidence.plain.error
    if error is None:
        verdicts = {}
        for name, check in CHECKS.items():
            report(name)
            verdicts[name] = check(evidence)
        return verdicts
    culprit = "budget" if isinstance(error, BudgetExceeded) else "no-crash"
    sentence = " ".join(str(error).split())[:200]
    verdicts = {name: not_applicable("it does not run on ordinary records") for name in CHECKS}
    verdicts[culprit] = failed(f"On ordinary records it raises {type(error).__name__}: {sentence}")
    return verdicts


def _worst(check: str, seen: list[tuple[str, Verdict]]) -> Finding:
    """The first failure; else the first pass; else why the check does not apply."""
    for status in ("failed", "passed", "not applicable"):
        for task, verdict in seen:
            if verdict.status == status:
                return Finding(check, verdict.status, task, verdict.why)
    raise AssertionError("unreachable: every check was run on a task")
