"""What a program or a notebook calls; the command line is a thin layer over it (docs/python.md)."""

from __future__ import annotations

import dataclasses
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import numpy as np

from dpicl.api.tables import Audits, Findings, Results
from dpicl.api.values import (
    Confidence,
    Count,
    Delta,
    Epsilon,
    Epsilons,
    MaybeCount,
    MaybePath,
    MaybeText,
    Names,
    Options,
    Paths,
    Seed,
    Seeds,
    Shots,
    Text,
    as_it_is,
    as_list,
    as_text,
    check_arguments,
)
from dpicl.attacks import store
from dpicl.attacks.audit import AuditJob
from dpicl.attacks.audit import audit as run_audit
from dpicl.attacks.audit import check as check_audit
from dpicl.attacks.audit_settings import AuditSettings
from dpicl.attacks.results import Access
from dpicl.conformance.kit import check_mechanism
from dpicl.core.cell import Noise, large_delta
from dpicl.core.errors import DpiclError, UsageError, one_line, require_known
from dpicl.core.messages import count, message
from dpicl.core.seeds import accounted_delta
from dpicl.core.vocabulary import silent
from dpicl.data.config import classes
from dpicl.data.task import Task, load_config
from dpicl.engines.local import make_engine
from dpicl.engines.progress import count_progress
from dpicl.engines.session import prepare, run_missing
from dpicl.engines.worker import Job
from dpicl.mechanism.bases import Mechanism, Sizes
from dpicl.mechanism.given import GivenMechanism, entries_of, given_mechanism
from dpicl.mechanism.options import build, resolve_options
from dpicl.mechanism.outputs import named_failure, skip_reason
from dpicl.mechanism.registry import load_mechanisms
from dpicl.plan.presence import describe_stale, find_presence
from dpicl.plan.selection import Selection, selection_of, task_facts
from dpicl.plan.suite import Mode, Source, make_suite
from dpicl.privacy import time_limit
from dpicl.privacy.calibration import Calibration, slack_of
from dpicl.privacy.events import to_json
from dpicl.privacy.slack import loose
from dpicl.reaccounting.settings import Setting
from dpicl.reaccounting.table import reaccount
from dpicl.releasing.release import calibrate_mechanism, per_query_epsilon
from dpicl.results.fingerprints import Fingerprints
from dpicl.run.workbench import Workbench

MODES, NOISES, SOURCES = get_args(Mode), get_args(Noise), get_args(Source)
#: The name of the suite of cells that `evaluate` runs; its folder below `results`.
SUITE = "python"
#: Seconds that `account` and `calibrate` look for an answer.
_SECONDS = 300.0
T = TypeVar("T")


@check_arguments
def evaluate(
    mechanism: Annotated[GivenMechanism | Sequence[GivenMechanism], as_it_is],
    *,
    task: Names,
    model: Names = "embedded",
    epsilon: Epsilons = 1.0,
    seeds: Seeds = 1,
    delta: Delta = 1e-5,
    shots: Shots = 4,
    source: Text = "auto",
    test_records: MaybeCount = None,
    train_records: MaybeCount = None,
    queries: MaybeCount = None,
    options: Options = None,
    plugins: Paths = (),
    results: MaybePath = None,
    engine: Text = "inline",
    workers: MaybeCount = None,
    progress: bool = True,
) -> Results:
    """Every mechanism on every task, at every target epsilon and seed: one finished cell each, at a proved epsilon.

    mechanism: names, classes, instances or files of plug-ins. seeds: their number, or a list of them. options: of every
        mechanism given that has them. queries: Q that the epsilon of an answer mechanism covers; None: the test
        records. test_records, train_records (of a class): None means all.
    plugins: files and folders with further mechanisms, tasks and models.
    results: a folder that keeps finished cells and goes on from there; None keeps nothing. engine, workers: as
        `dpicl run --engine --workers`. progress: whether it shows how far it has come (a bar on a terminal, lines
        elsewhere; on stderr).
    Raises UsageError for what does not fit, and the error of the first cell that fails where none succeeds.
    """
    files = as_list(plugins)
    given = [given_mechanism(each, files) for each in as_list(mechanism)]
    entries = entries_of(given, options or {})
    if engine != "inline" and any(each.here for each in given):
        raise UsageError("A class of this program runs with engine='inline' alone; put it into a file for the others.")
    if results is not None and (here := [each.name for each in given if each.here]):
        raise UsageError(
            f"{here[0]} is defined in no file, so results in a folder could not tell its versions apart; put it into a"
            " file of its own, or leave `results` out."
        )
    files = list(dict.fromkeys([*files, *(each.plugin for each in given if each.plugin is not None)]))
    suite = make_suite(
        {
            "name": SUITE,
            "version": 1,
            "source": source,
            "models": as_list(model),
            "seeds": seeds,
            "epsilons": as_list(epsilon),
            "delta": delta,
            "shots": shots,
            "test_records": test_records,
            "train_records": train_records,
            "queries": queries,
            "tasks": as_list(task),
            "mechanisms": entries,
        }
    )
    with tempfile.TemporaryDirectory() if results is None else nullcontext(results) as folder:
        selection = selection_of(suite, load_mechanisms(files), Path(folder))
        return run_selection(selection, tuple(files), engine, workers, progress)


def run_selection(
    selection: Selection, plugins: tuple[Path, ...], engine: str, workers: int | None, progress: bool
) -> Results:
    made = make_engine(engine, workers)
    known, _ = prepare(selection)
    found = find_presence(selection.cells, known, Fingerprints())
    if found.stale:
        raise UsageError(
            f"{count(len(found.stale), 'result')} in {selection.store.folder} computed on different data (fingerprint"
            f" mismatch: {describe_stale(found.stale)}); give another `results` folder."
        )
    job = Job(selection.reference, selection.store.folder.parent, plugins)
    done = run_missing(selection, found.missing, known, made, job, progress=progress)
    ended = [each for each in done if each.status in ("failed", "skipped")]
    results = [result for cell in selection.cells if (result := selection.store.read(cell)) is not None]
    failed = [each.message for each in ended if each.status == "failed"]
    if failed and not results:
        raise DpiclError(failed[0])
    notes = [f"{each.status}: {each.cell.label} on {each.cell.task}: {each.message}" for each in ended]
    return Results(results, tuple(f"{note} ({n} cells)" if n > 1 else note for note, n in Counter(notes).items()))


@check_arguments
def calibrate(
    mechanism: Annotated[GivenMechanism, as_it_is],
    *,
    task: Text,
    epsilon: Epsilon,
    delta: Delta = 1e-5,
    size: MaybeCount = None,
    shots: Shots = 4,
    queries: MaybeCount = None,
    mode: Text = "proved",
    noise: Text = "seeded",
    source: Text = "auto",
    options: Options = None,
    plugins: Paths = (),
) -> dict[str, Any]:
    """The noise for which a mechanism's events are proved to cost at most epsilon, as `dpicl calibrate --json` says it.

    size: private records a class (answer mechanisms: in all); None counts the task's own. queries: Q that the epsilon
        of an answer mechanism covers (default: 1). mode: "proved", or "paper" for the accounting of the authors.
    Raises UsageError for what does not fit.
    """
    given = given_mechanism(mechanism, as_list(plugins))
    cls = given.cls
    require_known("task", [task], task_facts())
    resolved = resolve_options(cls, task, {**given.options, **(options or {})})
    built = build(cls, resolved)
    for kind, value, choices in (("mode", mode, MODES), ("noise", noise, NOISES), ("source", source, SOURCES)):
        require_known(kind, [value], choices)
    if queries and cls.query_budget(queries) is None:
        raise UsageError(f"The release of {cls.name} is for any number of queries; leave queries out.")
    if reason := skip_reason(built, Task.without_records(task)):
        raise UsageError(f"{cls.name} cannot do {task}: {reason}.")
    if noise == "secure" and size is None:
        raise UsageError(
            "Secure noise needs a declared size, since counts of private records are private; give a size."
        )
    sizes = _sizes(built, task, size, shots, queries, source)

    def solve() -> Calibration:
        with named_failure(built):
            return calibrate_mechanism(built, sizes, epsilon, accounted_delta(delta, noise), mode)

    found = _accounted(solve)
    slack = slack_of(found.event, found.delta, found.bounds.upper) if mode == "proved" else None
    return {
        "mechanism": cls.name,
        "task": task,
        "options": resolved,
        "knob": built.knob.name if built.knob else None,
        "noise": found.knob,
        "noise_by_label": dict(found.by_label),
        "epsilon": epsilon,
        "epsilon_upper": found.bounds.upper,
        "slack": slack,
        "queries": sizes.queries,
        "epsilon_per_query": per_query_epsilon(built, found.knob, sizes, found.delta),
        "delta": delta,
        "accounted_delta": found.delta,
        "neighbours": cls.notion.neighbours,
        "mode": found.mode,
        "sizes": {name or "": n for name, n in sizes.records.items()},
        "shots": {name or "": n for name, n in sizes.shots.items()},
        "events": to_json(found.event),
        "accountants": found.bounds.accountants,
        "notes": [
            *found.bounds.notes,
            *filter(None, [loose(slack), large_delta(delta, sum(sizes.records.values()))]),
        ],
    }


def _sizes(mechanism: Mechanism, task: str, size: int | None, shots: int, queries: int | None, source: str) -> Sizes:
    """Sizes of the task; where a size is given, every group that is used has that many records and no data is read."""
    if size is None:
        loaded = Task.load(task, source, limit_test=1)
    else:
        config = load_config(task)
        groups = classes(config) if mechanism.by_label else ()
        loaded = Task.of_records(config, (), dict.fromkeys(groups or [""], size))
    planned = mechanism.plan_shots(loaded.public_view(), shots, np.random.default_rng(0))
    return mechanism.public_sizes(loaded.sized(), planned, queries or 1)


@check_arguments
def check(
    mechanism: Annotated[GivenMechanism, as_it_is],
    *,
    task: MaybeText = None,
    seed: Seed = 0,
    options: Options = None,
    plugins: Paths = (),
    progress: bool = True,
) -> Findings:
    """The conformance kit on a mechanism: the usual privacy bugs, looked for in runs on small tasks.

    task: None for one of every kind that the mechanism does. It runs in this process: for code that you do not trust,
    `dpicl check` has a process of its own.
    Raises UsageError for a task that the mechanism cannot do and for options that do not fit.
    """
    given = given_mechanism(mechanism, as_list(plugins))

    def report(task: str, check: str) -> None:
        if progress:
            message(f"{given.name} on {task}: {check}")

    return Findings(check_mechanism(given.cls, task, {**given.options, **(options or {})}, seed, report))


@check_arguments
def audit(
    mechanism: Annotated[GivenMechanism, as_it_is],
    *,
    task: Text,
    epsilon: Epsilons,
    access: Annotated[Access, as_text] = "white-box",
    question: Text = "inquiry",
    runs: Count = 200,
    noise_resamples: Count = 50,
    records: MaybeCount = None,
    confidence: Confidence = 0.95,
    delta: Delta = 1e-5,
    model: Text = "embedded",
    source: Text = "auto",
    seed: Seed = 0,
    options: Options = None,
    plugins: Paths = (),
    results: MaybePath = None,
    progress: bool = True,
) -> Audits:
    """A lower bound on the epsilon of a mechanism from runs with and without a canary, for every target epsilon.

    access: "white-box" sees the noisy releases inside, "black-box" what is released. question: "inquiry" or "lookup",
        for answer mechanisms. runs: on each side. noise_resamples: of a run that has no formula. records: of
        the private set; None: as many as a sample expects. confidence: of the bound. results: a folder that keeps
        finished audits; None keeps nothing.
    Raises UsageError for what does not fit, and for audits of other records in the folder.
    """
    given = given_mechanism(mechanism, as_list(plugins))
    settings = AuditSettings(access, question, runs, noise_resamples, records, confidence, delta, seed)
    resolved = settings.options(given.cls, task, {**given.options, **(options or {})})
    built = build(given.cls, resolved)
    check_audit(built, Task.without_records(task))
    loaded = Task.load(task, source, limit_test=1)
    job = AuditJob(built, loaded, model, settings, resolved, given.registered.plugin_hash)
    tell = message if progress else lambda text: None
    wanted = list(dict.fromkeys(as_list(epsilon)))
    there = {}
    for target in wanted if results is not None else ():
        if found := store.stored(Path(results), job.at(target), tell, loaded):  # type: ignore[arg-type]
            there[target] = found
    if missing := [target for target in wanted if target not in there]:
        bench = Workbench({given.name: given.registered})
        report = count_progress() if progress else silent
        made = run_audit(job, bench.model(model), missing, bench.outputs(), report)
        there |= dict(zip(missing, made, strict=True))
        for target in missing if results is not None else ():
            tell(f"dpicl: {store.write(Path(results), there[target])}")  # type: ignore[arg-type]
    return Audits([there[target] for target in wanted])


def account(*, delta: float, family: str = "gaussian", **setting: Any) -> dict[str, Any]:
    """The epsilon of a published setting: what is proved, and what its authors compute, as `dpicl account --json` says.

    family, setting: fields of `dpicl.reaccounting.settings.Setting` (noise, rate, steps, epsilon0, ...).
    Raises UsageError for fields that do not fit together.
    """
    require_known("field of a setting", setting, [each.name for each in dataclasses.fields(Setting)])
    made = Setting(family=family, delta=delta, **setting)
    return {"setting": {"family": family, "delta": delta, **setting}, **_accounted(lambda: reaccount(made))}


def _accounted(compute: Callable[[], T]) -> T:
    """``compute()``. Raises UsageError where the accountants have no answer for such numbers, or none in time."""
    try:
        return time_limit.within(_SECONDS, compute)
    except (time_limit.TookTooLong, ArithmeticError, MemoryError) as error:
        raise UsageError(
            f"The accountants cannot answer for these numbers ({one_line(error, 100) or 'out of memory'}); ask for"
            " fewer releases, or for noise and epsilon nearer to 1."
        ) from error
