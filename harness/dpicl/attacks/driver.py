"""Runs one attack on one mechanism at one epsilon, from its settings to its result.

All attacks of a command share the model and the cached answers of slots (dpicl.run.workbench). Members and
others come from the task's train records by a public seed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Final

from dpicl import models
from dpicl.accounting import accountants
from dpicl.accounting.calibration import Calibration
from dpicl.accounting.ledger import Ledger
from dpicl.attacks.base import Attack, AttackSetup
from dpicl.attacks.results import AttackResult, Attempt, Subject
from dpicl.attacks.targets import Target
from dpicl.core.errors import ResultError, UsageError
from dpicl.core.plugins import Registered
from dpicl.core.seeds import streams
from dpicl.core.vocabulary import Partition, Record, Report, Sizes, report_nothing
from dpicl.data.task import Task
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.options import build, fixed_epsilon, sized_options
from dpicl.models.base import LanguageModel
from dpicl.releasing.release import Release, claimed_epsilon, per_query_epsilon
from dpicl.results.schema import Cost, Manifest, wrap_validation_errors
from dpicl.run.pipeline import Meter, manifest_of, now, privacy_of
from dpicl.run.workbench import Workbench

#: Options of an attacked mechanism where the command does not say otherwise: sizes for which some dozens of members
#: suffice and that a processor can run. They stand in every result. T = 15 tokens: PRISM's attacks.
ANSWER_SIZES: Final[Mapping[str, int]] = {"slots": 8, "examples_per_slot": 2, "public_slots": 8, "candidates": 8}
DEMONSTRATION_SIZES: Final[Mapping[str, int]] = {"slots": 8, "examples_per_slot": 1, "prompts": 8, "tokens": 15}
#: Members, and others, where the command does not say otherwise (Bhusal et al. 2025: 50 and 50).
MEMBERS: Final = 50

#: The reference baselines, which an attack is made on for comparison.
BASELINES: Final = ("zero_shot", "real_demonstrations")

#: So far apart are the seeds of the setups of one attack.
_NEXT_SETUP = 100_000


@dataclass(frozen=True)
class AttackJob(Attempt):
    """One attack to be made. made_of: the attack with its options. others: how many records are not members. model:
    the name by which it is loaded."""

    made_of: Attack
    task: Task
    mechanism: Mechanism
    others: int
    model: str

    def __str__(self) -> str:
        own = self.subject
        return f"{self.attack} on {own.mechanism}, {own.task}, epsilon={own.epsilon:g}"


def jobs_of(
    attack: Attack,
    task: Task,
    mechanism: Registered[Mechanism],
    epsilons: Sequence[float],
    given: Mapping[str, Any] = MappingProxyType({}),
    *,
    model: str,
    delta: float = 1e-5,
    seed: int = 0,
    shots: int | None = None,
    members: int = MEMBERS,
    others: int = MEMBERS,
    plugin: str | None = None,
) -> list[AttackJob]:
    """The jobs for one mechanism: one for each epsilon, or one where its epsilon is fixed.

    given: options of the mechanism. shots: None for the attack's own number. plugin: the hash of the attack's file.
    Raises UsageError where an option does not fit, or epsilons are missing.
    """
    cls, made_of = mechanism.cls, asdict(attack)  # type: ignore[call-overload]
    options = sized_options(cls, task.name, DEMONSTRATION_SIZES, ANSWER_SIZES, dict(given))
    built = build(cls, options)
    own = fixed_epsilon(built)
    if own is None and not epsilons:
        raise UsageError(f"{cls.name} needs an epsilon; add --epsilon E ('inf' for the method without noise).")
    settings = {
        **made_of,
        **({"others": others} if attack.membership else {}),
        **({"plugin": plugin} if plugin else {}),
    }
    rest: dict[str, Any] = {"model": model, "delta": delta, "seed": seed, "members": members}
    rest["shots"] = shots or attack.shots
    rest |= {"plugin": mechanism.plugin_hash, "options": options}
    subjects = [
        subject_of(built, task, epsilon=one, **rest) for one in (dict.fromkeys(epsilons) if own is None else [own])
    ]
    return [
        AttackJob(attack.name, attack.access, settings, each, attack, task, built, others, model) for each in subjects
    ]


def subject_of(mechanism: Mechanism, task: Task, *, model: str, **rest: Any) -> Subject:
    """What is attacked; known before the model is read. model: the name by which it is loaded. rest: the other fields
    of a `Subject`."""
    rest["model"] = models.name_in_results(model)
    return Subject(mechanism=mechanism.name, task=task.name, task_version=task.version, source=task.source, **rest)


@wrap_validation_errors()
def run_attack(job: AttackJob, bench: Workbench, report: Report = report_nothing) -> AttackResult:
    """Raises UsageError where the settings do not fit the task, and whatever a release may raise."""
    start = time.perf_counter()
    model = bench.model(job.model)
    loaded = time.perf_counter()
    meter = Meter(model)
    found = vars(job.made_of.run(setup_of(job, model, bench, report))).copy()
    target: Target = found.pop("target")
    if not target.releases:
        raise ResultError(f"The attack {job.attack} made no release; its result would say nothing.")
    cost = meter.cost({"load": round(loaded - start, 3), "attack": round(time.perf_counter() - loaded, 3)})
    return result_of(job, job.mechanism, target.releases[0], manifest_of(target.task, model), cost, **found)


@wrap_validation_errors()
def result_of(
    attempt: Attempt, mechanism: Mechanism, made: Release, manifest: Manifest, cost: Cost, **found: Any
) -> AttackResult:
    """The result of an attack or an audit. made: the release whose privacy it states. found: the other fields."""
    known = {name: getattr(attempt, name) for name in ("id", "attack", "access", "settings", "subject")}
    privacy = privacy_of(mechanism, made, attempt.subject.release)
    return AttackResult(**known, privacy=privacy, manifest=manifest, cost=cost, created=now(), **found)


def release_of(mechanism: Mechanism, calibration: Calibration, sizes: Sizes, ledger: Ledger) -> Release:
    """An audited release, with what its ledger really holds."""
    bounds = accountants.epsilon(ledger.event(), calibration.delta)
    claimed = claimed_epsilon(mechanism, calibration, sizes)
    per_query = per_query_epsilon(mechanism, calibration.knob, sizes, calibration.delta)
    return Release(calibration, sizes, claimed, per_query, ledger, bounds)


def setup_of(
    job: AttackJob, model: LanguageModel, bench: Workbench, report: Report = report_nothing, number: int = 0
) -> AttackSetup:
    """What the attack of a job works with. number: which of its setups, each with randomness of its own."""
    subject = job.subject
    config = subject.release.model_copy(update={"seed": subject.seed + _NEXT_SETUP * number})
    others = job.others if job.made_of.membership else 0
    return AttackSetup(
        task=job.task,
        model=model,
        mechanism=job.mechanism,
        config=config,
        **assign(job.task, subject.members, others, subject.shots, config.seed),
        redraw=lambda at: setup_of(job, model, bench, report, number + at),
        outputs=bench.outputs,
        report=report,
    )


def assign(task: Task, members: int, others: int, shots: int, seed: int) -> dict[str, Any]:
    """Who is in and who is out: about ``members`` records in and ``others`` out, exactly members + others in all.

    Candidates are train records. A canary is in by a fair coin of its own, so that one release already bounds epsilon
    (dpicl.attacks.one_run); with more members than others, or more others than members, the surplus is in, or out,
    for sure. Where records of different labels are disjoint groups, candidates have the labels of the demonstrations
    to be released: no other group is touched.

    Returns `members`, `others`, `canaries` and `sizes` of an `AttackSetup`.
    shots: of the release, whose labels are those of `dpicl.releasing.release` for this seed.
    Raises UsageError when the task has too few records, or there are fewer members than labels.
    """
    randomness = streams(seed)
    labels: list[Partition] = [None]
    if task.partitioned:
        labels = list(dict.fromkeys(task.plan_shots(shots, randomness.stream("shots"))))
    if members < len(labels):
        raise UsageError(f"{members} members do not cover the {len(labels)} labels of the shots; raise --members.")
    sampling = randomness.stream("attack: members")
    inside: list[Record] = []
    outside: list[Record] = []
    canaries: list[Record] = []
    sizes: dict[Partition, int] = {}
    for label, n_in, n_out in zip(labels, _shares(members, len(labels)), _shares(others, len(labels)), strict=True):
        group = [record for record in task.train if label is None or record.label == label]
        if len(group) < n_in + n_out:
            raise UsageError(
                f"{task.name} has {len(group)} train records{'' if label is None else f' of {label!r}'} and"
                f" {n_in + n_out} are needed; lower --members and --others."
            )
        drawn = [group[at] for at in sampling.permutation(len(group))[: n_in + n_out].tolist()]
        by_coin = 2 * min(n_in, n_out)
        for record, heads in zip(drawn[:by_coin], sampling.random(by_coin) < 0.5, strict=True):
            (inside if heads else outside).append(record)
        (inside if n_in > n_out else outside).extend(drawn[by_coin:])
        canaries += drawn[:by_coin]
        sizes[label] = n_in
    return {
        "members": tuple(inside),
        "others": tuple(outside),
        "canaries": frozenset(canaries),
        "sizes": sizes,
    }


def _shares(total: int, parts: int) -> Sequence[int]:
    """``total`` in ``parts`` numbers that differ by at most 1."""
    return [total // parts + (at < total % parts) for at in range(parts)]
