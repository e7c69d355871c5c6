"""The conformance kit: thirteen checks that any mechanism must pass. docs/add-a-mechanism.md says what each can prove.

Each check runs on one small synthetic task of every kind that the mechanism does, with the hostile model, and again,
with less effort, for every other setting of the mechanism (`variants`); a mechanism passes a check when it passes
everywhere. Any exception that it raises is a failed check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

from dpicl.attacks.observers import describe_release
from dpicl.conformance.adversaries import plant_words
from dpicl.conformance.bench import Bench, Run, set_up
from dpicl.conformance.checking import (
    FULL,
    LEAST,
    OTHER_TASKS,
    QUICK,
    CheckEvidence,
    Status,
    Verdict,
    describe_error,
    failed,
    not_applicable,
)
from dpicl.conformance.checks.accounting import budget, ledger
from dpicl.conformance.checks.effects import side_effects
from dpicl.conformance.checks.neighbours import audit, private_reads, sensitivity
from dpicl.conformance.checks.noise import noise
from dpicl.conformance.checks.replay import check_no_crash, post_processing, public_labels
from dpicl.conformance.checks.reproducible import check_non_private, seeds
from dpicl.conformance.checks.sampling import sampling
from dpicl.conformance.guard import RUN_SECONDS, attempt
from dpicl.conformance.imports import find_import_problem
from dpicl.conformance.scales import Scale
from dpicl.conformance.transcript import Transcript
from dpicl.conformance.variants import Variant, variants
from dpicl.conformance.workers import Begin, fork_workers
from dpicl.core.errors import BudgetExceeded, DpiclError, UsageError
from dpicl.data.task import Task
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.options import build, resolve_options
from dpicl.mechanism.outputs import skip_reason

Check = Callable[[CheckEvidence], Verdict]

#: Name -> check, in the order in which they are shown.
CHECKS: Mapping[str, Check] = {
    "budget": budget,
    "ledger": ledger,
    "sampling": sampling,
    "private-reads": private_reads,
    "sensitivity": sensitivity,
    "noise": noise,
    "post-processing": post_processing,
    "public-labels": public_labels,
    "no-crash": check_no_crash,
    "side-effects": side_effects,
    "seeds": seeds,
    "non-private": check_non_private,
    "audit": audit,
}
#: Checks that are repeated for every other setting of the mechanism: all but the one that needs many runs.
OTHER_SETTINGS = tuple(name for name in CHECKS if name != "sampling")
#: Queries of a run at another setting.
FEW_QUERIES = 6
#: One task of each kind.
TASKS = ("agnews", "mit_g", "samsum", "wikimovies")


@dataclass(frozen=True)
class CheckFinding:
    """The result of one check. task: where it was seen ('' where it holds for all)."""

    check: str
    status: Status
    task: str
    why: str


def tasks_of(
    cls: type[Mechanism],
    task: str | None,
    options: Mapping[str, Any],
) -> list[str]:
    """The tasks that a mechanism is checked on. Raises UsageError where it can do none, or not the given one."""
    mechanism = build(cls, resolve_options(cls, task or "", dict(options)))
    names = (task,) if task else TASKS
    reasons = {name: skip_reason(mechanism, Task.read_public(name)) for name in names}
    done = [name for name, reason in reasons.items() if reason is None]
    if not done:
        name, reason = next(iter(reasons.items()))
        raise UsageError(
            f"{cls.name} cannot do {name}: {reason}; name a task that it can do with --task."
        )
    return done


def check_mechanism(
    cls: type[Mechanism],
    task: str | None = None,
    options: Mapping[str, Any] = MappingProxyType({}),
    seed: int = 0,
    report: Callable[[str], None] = lambda task: None,
    report_alive: Callable[[], None] = lambda: None,
    processes: int = 1,
) -> list[CheckFinding]:
    """One finding a check, in the order of `CHECKS`, the same with any number of processes.

    task: None for one of every kind that the mechanism does. options: of the mechanism; the rest get small values.
    report: called with each task before its checks. report_alive: called before each check, in the process that makes
    it. processes: with more than one, forks of this process do the work; they may outlive this call.
    Raises UsageError for a task that the mechanism cannot do and for options that do not fit, and PluginError where the
    mechanism ends a process.
    """
    names, error = attempt(lambda: tasks_of(cls, task, options), RUN_SECONDS)
    if isinstance(error, DpiclError):
        raise error
    if names is None:
        refused = _refuse_broken("before a run", error)
        return [
            CheckFinding(check, verdict.status, "", verdict.why)
            for check, verdict in refused.items()
        ]
    verdicts: dict[str, list[tuple[str, Verdict]]] = {name: [] for name in CHECKS}
    problem = find_import_problem(
        cls, partial(_run_with_planted_words, cls, names[0], options, seed)
    )
    if problem:
        verdicts["side-effects"].append(("", failed(problem)))
    places = {
        name: _Place(cls, name, options, seed, number == 0, report_alive)
        for number, name in enumerate(names)
    }

    def check_part(name: str, setting: Variant | None) -> _Part:
        if setting is None:
            return _Part(places[name].check_ordinary())
        return places[name].check_other(setting)

    with fork_workers(check_part, processes) as begin:
        ordinary = {name: begin(name, None) for name in names}
        checked: set[tuple[object, ...]] = set()
        for name, place in places.items():
            report(name)
            verdicts_here = ordinary[name]().verdicts
            for check, verdict in verdicts_here.items():
                verdicts[check].append((name, verdict))
            if any(verdict.status == "failed" for verdict in verdicts_here.values()):
                continue
            for check, verdict in _check_other_settings(place, checked, begin):
                verdicts[check].append((name, verdict))
    return [_worst(check, by_task) for check, by_task in verdicts.items()]


def _run_with_planted_words(
    cls: type[Mechanism],
    task: str,
    options: Mapping[str, Any],
    seed: int,
) -> Transcript:
    bench = set_up(cls, task, options, seed)
    planted = plant_words(bench.task.train, labels=not bench.task.partitioned)
    return bench.run(Run(records=planted))


@dataclass(frozen=True)
class _Part:
    """Verdicts on one bench, of another setting the failures alone. differs: whether the mechanism runs otherwise there
    than at the ordinary setting."""

    verdicts: Mapping[str, Verdict]
    differs: bool = False


@dataclass
class _Place:
    """What is checked, and on which task. first: whether it is the first task. report_alive: see `check_mechanism`."""

    cls: type[Mechanism]
    task: str
    options: Mapping[str, Any]
    seed: int
    first: bool
    report_alive: Callable[[], None]

    def scale_of(self, setting: Variant) -> Scale:
        """The scale of a setting; on the task that is checked where the mechanism skips the scale's own."""
        scale = setting.scale
        if scale.task is None:
            return scale
        mechanism = build(self.cls, resolve_options(self.cls, scale.task, dict(self.options)))
        reason = skip_reason(mechanism, Task.read_public(scale.task))
        return scale if reason is None else replace(scale, task=None)

    def bench(self, setting: Variant) -> Bench:
        """With fewer queries at another setting: mistakes that begin late show at the ordinary one."""
        options = {**self.options, **setting.changes}
        bench = set_up(self.cls, self.task, options, self.seed, self.scale_of(setting))
        if setting.changes:
            bench.queries = bench.queries[:FEW_QUERIES]
        return bench

    @cached_property
    def plain(self) -> Transcript:
        """An ordinary run at the ordinary setting."""
        return self.bench(Variant({})).run()

    def check_ordinary(self) -> Mapping[str, Verdict]:
        """All checks at the ordinary setting; one is failed where the mechanism does not run at all."""
        bench, error = attempt(lambda: self.bench(Variant({})))
        if isinstance(error, DpiclError):
            raise error
        if bench is None:
            return _refuse_broken("before a run", error)
        evidence = CheckEvidence(bench, FULL if self.first else OTHER_TASKS)
        verdicts = check_on_one_bench(evidence, CHECKS, self.report_alive)
        plain, _ = attempt(lambda: evidence.plain)
        if plain is not None:
            self.plain = plain
        return verdicts

    def check_other(self, setting: Variant) -> _Part:
        """The checks that are repeated at another setting, which the mechanism may refuse."""
        self.report_alive()
        nothing = _Part({})
        bench, error = attempt(lambda: self.bench(setting))
        if bench is None:
            return nothing
        evidence = CheckEvidence(bench, LEAST if setting.brief else QUICK)
        run, error = attempt(lambda: evidence.plain)
        error = error or (run.error if run else None)
        if isinstance(error, DpiclError) and not isinstance(error, BudgetExceeded):
            return nothing
        differs = run is None or not _is_alike(run, self.plain)
        if not differs and not (setting.sure and self.first):
            return nothing
        verdicts = check_on_one_bench(evidence, OTHER_SETTINGS, self.report_alive)
        failures = {
            check: verdict for check, verdict in verdicts.items() if verdict.status == "failed"
        }
        return _Part(failures, differs)


def _check_other_settings(
    place: _Place,
    checked: set[tuple[object, ...]],
    begin: Begin[_Part],
) -> Iterator[tuple[str, Verdict]]:
    """The failures. checked: settings that made a difference on an earlier task, and so need not be checked again."""
    settings, error = attempt(lambda: variants(place.cls, place.task, place.options))
    if error is not None:
        yield (
            "no-crash",
            failed(f"Its options cannot be listed: it raises {describe_error(error)}."),
        )
    left = [setting for setting in settings or () if setting.key not in checked]
    # the last ones take the longest
    begun = [begin(place.task, setting) for setting in reversed(left)]
    for setting, wait in zip(left, reversed(begun), strict=True):
        if setting.key in checked:
            continue
        part = wait()
        if part.differs:
            checked.add(setting.key)
        for check, verdict in part.verdicts.items():
            yield check, failed(f"W{str(setting)[1:]}: {verdict.why}")


def _is_alike(other: Transcript, plain: Transcript) -> bool:
    """Whether a run equals the ordinary one, as far as it goes."""
    first, second = other.released or (), plain.released or ()
    return first == second[: len(first)] and all(
        describe_release(a.release) == describe_release(b.release)
        and a.release.clean.tobytes() == b.release.clean.tobytes()
        for a, b in zip(other.observed_releases, plain.observed_releases, strict=False)
    )


def check_on_one_bench(
    evidence: CheckEvidence,
    checks: Iterable[str],
    report_alive: Callable[[], None] = lambda: None,
) -> dict[str, Verdict]:
    """Verdicts of these checks; of all checks where the mechanism does not run at all."""
    plain, error = attempt(lambda: evidence.plain)
    error = error or (plain.error if plain else None)
    if error is not None:
        return _refuse_broken("on ordinary records", error)
    verdicts = {}
    for name in checks:
        report_alive()
        verdict, error = attempt(lambda name=name: CHECKS[name](evidence))  # type: ignore[misc]
        verdicts[name] = verdict or failed(
            f"While this is checked it raises {describe_error(error or AssertionError())}."
        )
    attempt(evidence.bench.checkpoint.restore)  # the next task and setting begin as this one did
    return verdicts


def _refuse_broken(when: str, error: BaseException | None) -> dict[str, Verdict]:
    """Verdicts on a mechanism that does not run at all."""
    assert error is not None
    culprit = "budget" if isinstance(error, BudgetExceeded) else "no-crash"
    verdicts = {name: not_applicable("it does not run on ordinary records") for name in CHECKS}
    verdicts[culprit] = failed(f"{when.capitalize()} it raises {describe_error(error)}")
    return verdicts


def _worst(check: str, by_task: list[tuple[str, Verdict]]) -> CheckFinding:
    """The first failure; else the first pass; else why the check does not apply."""
    for status in ("failed", "passed", "not applicable"):
        for task, verdict in by_task:
            if verdict.status == status:
                return CheckFinding(check, verdict.status, task, verdict.why)
    raise AssertionError("unreachable: every check was run on a task")
