"""`dpicl audit`: how much epsilon an auditor can demonstrate, beside what is claimed and proved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from dpicl.api import parameters as p
from dpicl.api.tables import Audits, failure
from dpicl.attacks import store
from dpicl.attacks.audit import audit as run_audit
from dpicl.attacks.audit import check as check_audit
from dpicl.attacks.audit_runs import AuditJob, AuditRuns, AuditSettings, Question
from dpicl.attacks.exact_audit import exact_audit, reason_against
from dpicl.attacks.exact_runs import Asked, Deal, ExactJob
from dpicl.attacks.results import AttackResult, Attempt
from dpicl.attacks.table import attacks_table, of_results
from dpicl.cli import call
from dpicl.cli.output import Answer
from dpicl.core.cell import Cell
from dpicl.core.errors import UsageError, require_known
from dpicl.core.field_types import Number
from dpicl.core.messages import count, epsilon_text, message
from dpicl.core.paths import DEFAULT_RESULTS, find_suite
from dpicl.core.vocabulary import Report
from dpicl.data.task import Task
from dpicl.engines.progress import count_progress
from dpicl.mechanism.given import GivenMechanism, given_mechanism
from dpicl.mechanism.options import build
from dpicl.mechanism.registry import load_mechanisms
from dpicl.plan.selection import Selection, select, selection_of
from dpicl.plan.suite import Changes, load_suite, make_suite
from dpicl.run.workbench import Workbench
from dpicl.tables.document import notes

#: The suite of cells that one mechanism makes up.
_SUITE = "python"
#: Parameters of exact audits alone, of sampled ones alone, and those that a row of a suite has itself.
_EXACT = ("suite", "other_records", "queries", "copies", "test_records")
_SAMPLED = ("question", "runs", "records", "confidence")
_OF_ROW = ("delta", "model", "source", "seed", "test_records", "options")
#: What they are called where the flag has another name.
_FLAGS = {"test_records": "limit", "options": "option"}


def _answer(found: Audits, given: Mapping[str, Any]) -> Answer:
    """A row an audit, what the columns mean, and which proved epsilon is refuted."""
    documents = [result.model_dump(mode="json") for result in found]
    refuted = [
        f"FAILED: {own.mechanism} on {own.task} at epsilon = {own.epsilon:g}: {reason}; the mechanism does not do what"
        f" its events say. `dpicl check {own.mechanism}` looks for the reason."
        for own, reason in ((result.subject, failure(result)) for result in found)
        if reason
    ]
    table = attacks_table("exact audit" if given.get("exact") else "sampled audit", of_results(found.items, {}))
    return Answer(documents, [table, *notes(found.notes), *notes(refuted, "flag")], found.code)


@p.verb("dpicl audit voting --task agnews --epsilon 1 --question lookup", answer=_answer)
def audit(
    mechanism: Annotated[GivenMechanism | None, p.OneMechanism] = None,
    *,
    task: p.Task | None = None,
    epsilon: p.SomeEpsilons = (),
    exact: bool = False,
    suite: p.SuiteName | None = None,
    other_records: Deal | None = None,
    queries: Asked | None = None,
    copies: Annotated[p.Count, Field(le=100), p.Flag(metavar="K")] | None = None,
    test_records: p.Limit | None = None,
    question: Question | None = None,
    runs: Annotated[p.Count, Field(ge=8)] | None = None,
    records: Annotated[p.Count, Field(ge=2)] | None = None,
    confidence: Annotated[Number, Field(ge=0.5, lt=1), p.Flag(metavar="C")] | None = None,
    delta: p.Delta | None = None,
    model: p.Model | None = None,
    source: p.SourceName | None = None,
    seed: p.Seed | None = None,
    results: p.Results | None = None,
    options: p.Options | None = None,
    plugins: p.Plugins = (),
    progress: Annotated[bool, p.HIDDEN] = True,
) -> Audits:
    """A lower bound on the epsilon of a mechanism, for every target epsilon.

    By what runs with and without a canary release, at a confidence; or, where it is exact, what one canary demonstrates
    for the noisy releases of a row of a board, or of every row of a suite that has noise: no sampling error, no
    confidence.

    Raises UsageError for what does not fit, and for audits of other records in the folder.

    mechanism: see `dpicl list mechanisms`; a row of SUITE.
    task: where records and prompts come from.
    exact: the noisy releases and one canary, no sampling error: see the page on audits.
    suite: with --exact: the rows of a suite, with their own options.
    other_records: with --exact: the canary alone (default), or beside the row's records, whose sampling is known.
    queries: with --exact: the row's queries (default), or the one that the canary moves most, every time.
    copies: with --exact: of the canary at once, for group privacy (default: 1).
    test_records: with --exact: test records, asked as queries (default: 100).
    question: 'is this text in your examples?' (default), or the canary's own input; for answer mechanisms.
    runs: runs on each side (default: 200).
    records: private records (default: as many as a sample expects, so q = 1).
    confidence: of the bound (default: 0.95).
    """
    given = {name: value for name, value in locals().items() if value is not None and value != {}}
    if not exact:
        _refuse(given, _EXACT, "{} goes with --exact; add --exact, or leave it out.")
    else:
        _refuse(given, _SAMPLED, "An exact audit has no runs, and the row's own records and queries; leave {} out.")
    if results is None and call.COMMAND.get():  # a program may keep nothing
        results = DEFAULT_RESULTS
    kept = _Kept(None if results is None else Path(results), progress)
    folder, files = Path(results or DEFAULT_RESULTS), p.as_list(plugins)
    epsilons = list(dict.fromkeys(p.as_list(epsilon)))
    adversary = (other_records or "alone", queries or "own", copies or 1)
    if suite is not None:
        _refuse(given, _OF_ROW, "Rows of a suite are audited with their own settings; leave {} out, or --suite.")
        rows = [] if mechanism is None else [str(mechanism)]
        return _exact(_rows_of(str(suite), rows, task, epsilons, folder, files), adversary, kept)
    owner = None if mechanism is None else given_mechanism(mechanism, files)
    wanted = {"MECHANISM": owner, "--task T": task, "--epsilon E": epsilons}
    if missing := [name for name, value in wanted.items() if not value]:
        raise UsageError(f"An audit needs {' and '.join(missing)}; or --exact --suite SUITE, for the rows of a suite.")
    assert owner is not None and task is not None
    own = {**owner.options, **p.options_of(owner.name, options)}
    delta, model, source, seed = delta or 1e-5, model or "embedded", source or "auto", seed or 0
    if exact:
        row = {
            "name": _SUITE,
            "version": 1,
            "source": source,
            "models": [model],
            "seeds": [seed],
            "epsilons": epsilons,
            "delta": delta,
            "test_records": test_records or 100,
            "tasks": [task],
            "mechanisms": [{"name": owner.name, "options": own}],
        }
        files += [owner.plugin] if owner.plugin is not None and owner.plugin not in files else []
        return _exact(selection_of(make_suite(row), load_mechanisms(files), folder), adversary, kept)
    settings = AuditSettings(question or "inquiry", runs or 200, records, confidence or 0.95, delta, seed)
    every = settings.options(owner.cls, task, own)
    audited = build(owner.cls, every)
    check_audit(audited, Task.without_records(task))
    job = AuditJob(audited, Task.load(task, source, limit_test=1), model, settings, every, owner.registered.plugin_hash)
    return _sampled(job, epsilons, Workbench({owner.name: owner.registered}), kept)


def _rows_of(
    suite: str, rows: list[str], task: str | None, epsilons: list[float], folder: Path, files: list[Any]
) -> Selection:
    """These rows of a suite (none named: all). Raises UsageError for a row or an epsilon that it lacks."""
    known = load_suite(find_suite(suite))
    require_known(f"row of {suite}", rows, {name for entry in known.mechanisms for name in (entry.row, entry.name)})
    require_known(f"epsilon of {suite}", map(epsilon_text, epsilons), [epsilon_text(one) for one in known.epsilons])
    changes = Changes(tasks=[task] if task else [], mechanisms=rows, epsilons=epsilons)
    return select(suite, folder, files, changes)


def _refuse(given: Mapping[str, object], names: Iterable[str], sentence: str) -> None:
    """Raises UsageError with the sentence about the first of these that is given, if one is."""
    if found := next((name for name in names if name in given), None):
        raise UsageError(sentence.format(f"--{_FLAGS.get(found, found).replace('_', '-')}"))


@dataclass(frozen=True)
class _Kept:
    """Where audits are kept (None: nowhere), and whether it is said how far they are."""

    folder: Path | None
    progress: bool

    def say(self, text: str) -> None:
        if self.progress:
            message(f"dpicl: {text}")

    def find(self, wanted: Attempt, task: Task, make: Callable[[], AttackResult]) -> AttackResult:
        """The audit that is there; else it is made, and written as soon as it is. Raises UsageError for one of other
        records."""
        if self.folder is None:
            return make()
        found = store.stored(self.folder, wanted, self.say, task)
        if found is None:
            found = make()
            self.say(str(store.write(self.folder, found)))
        return found

    def report(self, job: object) -> Report:
        """Says what an audit is to do, before the first run, and then how far it is."""
        counted = count_progress()

        def report(done: int, total: int, unit: str) -> None:
            if done and self.progress:
                counted(done, total, unit)
            elif not done:
                self.say(f"{job}: {total:,} {unit}")

        return report


def _sampled(job: AuditJob, epsilons: Iterable[float], bench: Workbench, kept: _Kept) -> Audits:
    """With one canary for all target epsilons; the model is read where an audit is not there."""

    @cache
    def runs() -> AuditRuns:
        return AuditRuns(job, bench.model(job.model), bench.outputs(), kept.report(job))

    def make(epsilon: float) -> AttackResult:
        return run_audit(runs(), epsilon)

    return Audits([kept.find(job.at(epsilon), job.task, partial(make, epsilon)) for epsilon in epsilons])


def _exact(selection: Selection, adversary: tuple[Deal, Asked, int], kept: _Kept) -> Audits:
    """Raises UsageError where no row can be audited."""
    bench, made, failed = Workbench(selection.mechanisms), list[AttackResult](), list[str]()
    cells, skipped = _auditable(selection, bench, adversary[1])
    kept.say(f"{count(len(cells), 'exact audit')} to make.")
    for cell in cells:
        job = ExactJob(cell, bench.mechanism(cell), bench.task(cell), *adversary)
        try:
            made.append(kept.find(job.attempt, job.task, partial(_made, job, bench, kept)))
        except UsageError as error:
            failed.append(f"{job}: {error}")
            kept.say(failed[-1])
    left_out = [f"left out: {name}: {reason}" for name, reason in skipped.items()]
    if not made:
        raise UsageError("; ".join([*failed, *left_out]) or f"No row of {selection.asked} has noise to be audited.")
    return Audits(made, (*(f"failed: {each}" for each in failed), *left_out))


def _made(job: ExactJob, bench: Workbench, kept: _Kept) -> AttackResult:
    return exact_audit(job, bench.model(job.cell.model), bench.outputs(), kept.report(job))


def _auditable(selection: Selection, bench: Workbench, asked: Asked) -> tuple[list[Cell], dict[str, str]]:
    """(the first cell of every row that an exact audit says something about, rows left out with their reasons)."""
    first, skipped = dict[tuple[object, ...], Cell](), dict[str, str]()
    for cell in selection.cells:
        reason = reason_against(bench.mechanism(cell), Task.without_records(cell.task), cell.epsilon, asked)
        if reason is not None:
            skipped[f"{cell.label} on {cell.task}" if cell.epsilon else cell.label] = reason
            continue
        key = (cell.label, cell.task, cell.model, cell.epsilon)
        if key not in first or cell.seed < first[key].seed:
            first[key] = cell
    return list(first.values()), skipped
