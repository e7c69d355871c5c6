"""Makes the results of attacks and audits: one loop for all of them, and how one attack becomes a result.

All jobs of a command share the model and the cached answers of slots (dpicl.run.workbench). Members and others of an
attack come from the task's train records by a public seed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from dpicl import models
from dpicl.accounting import accountants
from dpicl.accounting.calibration import Calibration
from dpicl.accounting.ledger import Ledger
from dpicl.attacks import store
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

#: Default options of an attacked mechanism: sizes for which some dozens of members suffice and that a CPU can run.
#: Every result states them. T = 15 tokens: PRISM's attacks.
ANSWER_SIZES: Mapping[str, int] = {
    "slots": 8,
    "examples_per_slot": 2,
    "public_slots": 8,
    "candidates": 8,
}
DEMONSTRATION_SIZES: Mapping[str, int] = {
    "slots": 8,
    "examples_per_slot": 1,
    "prompts": 8,
    "tokens": 15,
}
#: Default number of members, and of others (Bhusal et al. 2025: 50 and 50).
MEMBERS = 50

#: The reference baselines, which are attacked for comparison.
BASELINES = ("zero_shot", "real_demonstrations")

#: Distance between the seeds of the setups of one attack.
_NEXT_SETUP = 100_000


class Job(Protocol):
    """An attack or an audit to be made. fingerprint: of the records that an earlier result must have; None for any."""

    @property
    def attempt(self) -> Attempt:
        """What determines its numbers; known before the model is read."""

    @property
    def fingerprint(self) -> str | None: ...

    def run(self, bench: Workbench, report: Report) -> AttackResult:
        """Raises UsageError where it does not fit the task or the mechanism."""


@dataclass(frozen=True)
class Outcome:
    """What became of a job: its result, or the error that a user can fix. path: where a new result was written; None
    for an earlier one, and without a folder."""

    job: Job
    result: AttackResult | None = None
    error: UsageError | None = None
    earlier: bool = False
    path: Path | None = None


def run_jobs(
    jobs: Iterable[Job],
    bench: Workbench,
    folder: Path | None,
    say: Callable[[str], None],
    report_for: Callable[[Job], Report],
) -> Iterator[Outcome]:
    """The outcome of every job, in order: a result that is in the folder stays, and a new one is written as soon as it
    is made. folder: None to keep nothing. say: called with a sentence about a damaged file."""
    for job in jobs:
        try:
            earlier = (
                None
                if folder is None
                else store.find_stored(folder, job.attempt, say, job.fingerprint)
            )
            result = earlier or job.run(bench, report_for(job))
        except UsageError as error:
            yield Outcome(job, error=error)
            continue
        path = None
        if folder is not None and earlier is None:
            path = store.write(folder, result)
        yield Outcome(job, result, earlier=earlier is not None, path=path)


@dataclass(frozen=True)
class AttackJob:
    """One attack to be made. others: how many records are not members. model: the name by which it is loaded."""

    attempt: Attempt
    attack: Attack
    task: Task
    mechanism: Mechanism
    others: int
    model: str
    #: The members, and with them the records, follow from the attempt.
    fingerprint: None = None

    def __str__(self) -> str:
        subject = self.attempt.subject
        return f"{self.attempt.attack} on {subject.mechanism}, {subject.task}, epsilon={subject.epsilon:g}"

    @wrap_validation_errors()
    def run(self, bench: Workbench, report: Report = report_nothing) -> AttackResult:
        """Raises UsageError where the settings do not fit the task, and whatever a release may raise."""
        start = time.perf_counter()
        model = bench.model(self.model)
        loaded = time.perf_counter()
        meter = Meter(model)
        finding = self.attack.run(self.setup(model, bench, report))
        target: Target = finding.target
        if not target.releases:
            raise ResultError(
                f"The attack {self.attempt.attack} made no release; its result would say nothing."
            )
        attacked = time.perf_counter() - loaded
        seconds = {"load": round(loaded - start, 3), "attack": round(attacked, 3)}
        fields = {name: value for name, value in vars(finding).items() if name != "target"}
        manifest = manifest_of(target.task, model)
        return result_of(
            self.attempt,
            self.mechanism,
            target.releases[0],
            manifest,
            meter.cost(seconds),
            **fields,
        )

    def setup(
        self,
        model: LanguageModel,
        bench: Workbench,
        report: Report = report_nothing,
        number: int = 0,
    ) -> AttackSetup:
        """What the attack works with. number: which of its setups, each with randomness of its own."""
        subject = self.attempt.subject
        config = subject.release.model_copy(update={"seed": subject.seed + _NEXT_SETUP * number})
        others = self.others if self.attack.membership else 0
        return AttackSetup(
            task=self.task,
            model=model,
            mechanism=self.mechanism,
            config=config,
            **assign(self.task, subject.members, others, subject.shots, config.seed),
            redraw=lambda later: self.setup(model, bench, report, number + later),
            outputs=bench.outputs,
            report=report,
        )


def jobs_of(
    attack: Attack,
    task: Task,
    mechanism: Registered[Mechanism],
    epsilons: Sequence[float],
    options: Mapping[str, Any] = MappingProxyType({}),
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

    options: of the mechanism. shots: None for the attack's own number. plugin: the hash of the attack's file.
    Raises UsageError where an option does not fit, or epsilons are missing.
    """
    cls = mechanism.cls
    sized = sized_options(cls, task.name, DEMONSTRATION_SIZES, ANSWER_SIZES, dict(options))
    built = build(cls, sized)
    fixed = fixed_epsilon(built)
    if fixed is None and not epsilons:
        raise UsageError(
            f"{cls.name} needs an epsilon; add --epsilon E ('inf' for the method without noise)."
        )
    settings: dict[str, Any] = asdict(attack)  # type: ignore[call-overload]
    if attack.membership:
        settings["others"] = others
    if plugin:
        settings["plugin"] = plugin
    jobs = []
    for epsilon in dict.fromkeys(epsilons) if fixed is None else [fixed]:
        subject = subject_of(
            built,
            task,
            model=model,
            options=sized,
            plugin=mechanism.plugin_hash,
            epsilon=epsilon,
            delta=delta,
            seed=seed,
            members=members,
            shots=shots or attack.shots,
        )
        attempt = Attempt(attack.name, attack.access, settings, subject)
        jobs.append(AttackJob(attempt, attack, task, built, others, model))
    return jobs


def subject_of(
    mechanism: Mechanism,
    task: Task,
    *,
    model: str,
    **fields: Any,
) -> Subject:
    """What is attacked; known before the model is read. model: the name by which it is loaded. fields: the others of a
    `Subject`."""
    return Subject(
        mechanism=mechanism.name,
        task=task.name,
        task_version=task.version,
        source=task.source,
        model=models.name_in_results(model),
        **fields,
    )


@wrap_validation_errors()
def result_of(
    attempt: Attempt,
    mechanism: Mechanism,
    release: Release,
    manifest: Manifest,
    cost: Cost,
    **fields: Any,
) -> AttackResult:
    """The result of an attack or an audit. release: the one whose privacy it states. fields: of what was found."""
    return AttackResult(
        id=attempt.id,
        **vars(attempt),
        privacy=privacy_of(mechanism, release, attempt.subject.release),
        manifest=manifest,
        cost=cost,
        created=now(),
        **fields,
    )


def release_of(
    mechanism: Mechanism, calibration: Calibration, sizes: Sizes, ledger: Ledger
) -> Release:
    """An audited release, with what its ledger really holds."""
    bounds = accountants.epsilon(ledger.event(), calibration.delta)
    claimed = claimed_epsilon(mechanism, calibration, sizes)
    per_query = per_query_epsilon(mechanism, calibration.knob, sizes, calibration.delta)
    return Release(calibration, sizes, claimed, per_query, ledger, bounds)


def assign(
    task: Task,
    members: int,
    others: int,
    shots: int,
    seed: int,
) -> dict[str, Any]:
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
        raise UsageError(
            f"{members} members do not cover the {len(labels)} labels of the shots; raise --members."
        )
    sampling = randomness.stream("attack: members")
    inside: list[Record] = []
    outside: list[Record] = []
    canaries: list[Record] = []
    sizes = dict(zip(labels, _shares(members, len(labels)), strict=True))
    outside_sizes = dict(zip(labels, _shares(others, len(labels)), strict=True))
    for label, n_in in sizes.items():
        n_out = outside_sizes[label]
        candidates = _draw_candidates(task, label, n_in + n_out, sampling)
        by_coin = candidates[: 2 * min(n_in, n_out)]
        for record, heads in zip(by_coin, sampling.random(len(by_coin)) < 0.5, strict=True):
            side = inside if heads else outside
            side.append(record)
        surplus = inside if n_in > n_out else outside
        surplus.extend(candidates[len(by_coin) :])
        canaries += by_coin
    return {
        "members": tuple(inside),
        "others": tuple(outside),
        "canaries": frozenset(canaries),
        "sizes": sizes,
    }


def _draw_candidates(
    task: Task,
    label: Partition,
    number: int,
    sampling: np.random.Generator,
) -> list[Record]:
    """So many train records of a group, in random order. Raises UsageError where it has too few."""
    group = [record for record in task.train if label is None or record.label == label]
    if len(group) < number:
        of_label = "" if label is None else f" of {label!r}"
        raise UsageError(
            f"{task.name} has {len(group)} train records{of_label} and {number} are needed; lower --members and"
            " --others."
        )
    order = sampling.permutation(len(group)).tolist()
    return [group[place] for place in order[:number]]


def _shares(total: int, parts: int) -> list[int]:
    """``total`` in ``parts`` numbers that differ by at most 1."""
    whole, rest = divmod(total, parts)
    return [whole + (part < rest) for part in range(parts)]
