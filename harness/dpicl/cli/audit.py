"""`dpicl audit`: demonstrates a lower bound on epsilon, to compare with the claimed and proved ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from dpicl.api import parameters as p
from dpicl.api.tables import Audits, failure
from dpicl.attacks import store
from dpicl.attacks.audit_runs import DEMONSTRATION_SIZES, SIZES, AuditJob, AuditRuns, Question
from dpicl.attacks.exact_audit import Asked, Deal, ExactJob, exact_audit, reason_against
from dpicl.attacks.results import Access, AttackResult, Attempt
from dpicl.attacks.table import attacks_table, pair_with_settings
from dpicl.cli import call
from dpicl.cli.output import Answer
from dpicl.core.cell import Cell
from dpicl.core.errors import UsageError, require_known
from dpicl.core.field_types import Number
from dpicl.core.messages import count, epsilon_text, message
from dpicl.core.paths import DEFAULT_RESULTS, find_suite
from dpicl.core.vocabulary import Report, report_nothing
from dpicl.data.task import Task
from dpicl.engines.progress import count_progress
from dpicl.mechanism.given import GivenMechanism, given_mechanism
from dpicl.mechanism.options import build, sized_options
from dpicl.plan.selection import Selection, select, selection_of
from dpicl.plan.suite import Changes, load_suite, suite_of_program
from dpicl.run.workbench import Workbench
from dpicl.tables.document import notes


def _answer(found: Audits, given: Mapping[str, Any]) -> Answer:
    """A row an audit, what the columns mean, and which proved epsilon is refuted."""
    documents = [result.model_dump(mode="json") for result in found]
    refuted = [
        f"FAILED: {own.mechanism} on {own.task} at epsilon = {own.epsilon:g}: {reason}; the mechanism does not do what"
        f" its events say. `dpicl check {own.mechanism}` looks for the reason."
        for own, reason in ((result.subject, failure(result)) for result in found)
        if reason
    ]
    table = attacks_table("exact audit" if given.get("exact") else "sampled audit", pair_with_settings(found.items, {}))
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
    access: Access | None = None,
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
    access: what is released (black-box, the default), or the noisy sum behind every answer.
    runs: runs on each side (default: 200).
    records: private records (default: as many as a sample expects, so q = 1).
    confidence: of the bound (default: 0.95).
    """
    of_suite = {"suite": suite, "other-records": other_records, "queries": queries, "copies": copies}
    sampled: dict[str, Any] = {"question": question, "access": access, "runs": runs}
    sampled |= {"records": records, "confidence": confidence}
    of_row = {"delta": delta, "model": model, "source": source, "seed": seed, "option": options or None}
    if exact:
        _refuse(sampled, "An exact audit has no runs, and the row's own records and queries; leave {} out.")
    else:
        _refuse({**of_suite, "limit": test_records}, "{} goes with --exact; add --exact, or leave it out.")
    if results is None and call.COMMAND.get():  # a program may keep nothing
        results = DEFAULT_RESULTS
    kept = _Kept(None if results is None else Path(results), progress)
    folder = Path(results or DEFAULT_RESULTS)
    files, epsilons = p.as_list(plugins), list(dict.fromkeys(p.as_list(epsilon)))
    adversary = (other_records or "alone", queries or "own", copies or 1)
    if suite is not None:
        said = "Rows of a suite are audited with their own settings; leave {} out, or --suite."
        _refuse({**of_row, "limit": test_records}, said)
        rows = [] if mechanism is None else [str(mechanism)]
        return _audit_exactly(_rows_of(str(suite), rows, task, epsilons, folder, files), adversary, kept)
    owner = None if mechanism is None else given_mechanism(mechanism, files)
    wanted = {"MECHANISM": owner, "--task T": task, "--epsilon E": epsilons}
    if missing := [name for name, value in wanted.items() if not value]:
        raise UsageError(f"An audit needs {' and '.join(missing)}; or --exact --suite SUITE, for the rows of a suite.")
    assert owner is not None and task is not None
    own = {**owner.options, **p.options_of(owner.name, options)}
    delta, model, source, seed = delta or 1e-5, model or "embedded", source or "auto", seed or 0
    if exact:
        row = suite_of_program(
            source=source,
            models=[model],
            seeds=[seed],
            epsilons=epsilons,
            delta=delta,
            test_records=test_records or 100,
            tasks=[task],
            mechanisms=[{"name": owner.name, "options": own}],
        )
        files += [owner.plugin] if owner.plugin is not None and owner.plugin not in files else []
        return _audit_exactly(selection_of(row, folder, files), adversary, kept)
    every = sized_options(owner.cls, task, DEMONSTRATION_SIZES, SIZES, own)
    sampled = {name: value for name, value in sampled.items() if value is not None} | {"delta": delta, "seed": seed}
    whole = Task.load(task, source, limit_test=1)
    job = AuditJob(build(owner.cls, every), whole, model, every, owner.registered.plugin_hash, **sampled)
    return _audit_by_sampling(job, epsilons, Workbench({owner.name: owner.registered}), kept)


def _rows_of(
    suite: str, rows: list[str], task: str | None, epsilons: list[float], folder: Path, files: list[Any]
) -> Selection:
    """These rows of a suite (none named: all). Raises UsageError for a row or an epsilon that it lacks."""
    known = load_suite(find_suite(suite))
    require_known(f"row of {suite}", rows, {name for entry in known.mechanisms for name in (entry.row, entry.name)})
    require_known(f"epsilon of {suite}", map(epsilon_text, epsilons), [epsilon_text(one) for one in known.epsilons])
    changes = Changes(tasks=[task] if task else [], mechanisms=rows, epsilons=epsilons)
    return select(suite, folder, files, changes)


def _refuse(given: Mapping[str, object], sentence: str) -> None:
    """Raises UsageError with the sentence about the first of these flags that is given, if one is."""
    if found := next((flag for flag, value in given.items() if value is not None), None):
        raise UsageError(sentence.format(f"--{found}"))


@dataclass(frozen=True)
class _Kept:
    """Where audits are kept (None: nowhere), and whether it is said how far they are."""

    folder: Path | None
    progress: bool

    def say(self, text: str) -> None:
        if self.progress:
            message(f"dpicl: {text}")

    def find(self, wanted: Attempt, task: Task, title: str, make: Callable[[Report], AttackResult]) -> AttackResult:
        """The audit that is there; else it is made, and written as soon as it is. Raises UsageError for one of other
        records."""
        counted = count_progress() if self.progress else report_nothing

        def report(done: int, total: int, unit: str) -> None:
            if done:
                counted(done, total, unit)
            else:  # before the first run
                self.say(f"{title}: {total:,} {unit}")

        found = None if self.folder is None else store.find_stored(self.folder, wanted, self.say, task)
        if found is not None:
            self.say(f"{title}: from {self.folder}, of {found.created[:10]}; --results FOLDER makes it again there.")
        else:
            found = make(report)
            if self.folder is not None:
                self.say(str(store.write(self.folder, found)))
        return found


def _audit_by_sampling(job: AuditJob, epsilons: list[float], bench: Workbench, kept: _Kept) -> Audits:
    """With one canary for all target epsilons; the model is read where an audit is not there."""
    job.check()

    @cache
    def runs() -> AuditRuns:
        return AuditRuns(job, bench.model(job.model), bench.outputs())

    def find_audit(epsilon: float) -> AttackResult:
        return kept.find(job.attempt_at(epsilon), job.task, "audit", lambda report: runs().audit(epsilon, report))

    return Audits([find_audit(epsilon) for epsilon in epsilons])


def _audit_exactly(selection: Selection, adversary: tuple[Deal, Asked, int], kept: _Kept) -> Audits:
    """Of the first cell of every row. Raises UsageError where no row can be audited."""
    bench, made, failed = Workbench(selection.mechanisms), list[AttackResult](), list[str]()
    cells, skipped = _find_auditable(selection, bench, adversary[1])
    kept.say(f"Exact audits of {count(len(cells), 'row')}.")
    for cell in cells:
        job = ExactJob(cell, bench.mechanism(cell), bench.task(cell), *adversary)

        def make(report: Report, job: ExactJob = job) -> AttackResult:
            return exact_audit(job, bench.model(job.cell.address), bench.outputs(), report)

        try:
            made.append(kept.find(job.attempt, job.task, str(job), make))
        except UsageError as error:
            failed.append(f"{job}: {error}")
            kept.say(failed[-1])
    left_out = [f"left out: {name}: {reason}" for name, reason in skipped.items()]
    if not made:
        raise UsageError("; ".join([*failed, *left_out]) or f"No row of {selection.asked} has noise to be audited.")
    return Audits(made, (*(f"failed: {each}" for each in failed), *left_out))


def _find_auditable(selection: Selection, bench: Workbench, asked: Asked) -> tuple[list[Cell], dict[str, str]]:
    """(the first cell of every row that an exact audit says something about, rows left out with their reasons)."""
    first, skipped = dict[tuple[object, ...], Cell](), dict[str, str]()
    for cell in selection.cells:
        reason = reason_against(bench.mechanism(cell), Task.read_public(cell.task), cell.epsilon, asked)
        if reason is not None:
            skipped[f"{cell.label} on {cell.task}" if cell.epsilon else cell.label] = reason
            continue
        key = (cell.label, cell.task, cell.model, cell.epsilon)
        if key not in first or cell.seed < first[key].seed:
            first[key] = cell
    return list(first.values()), skipped
