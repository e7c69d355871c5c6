"""`dpicl audit`: demonstrates a lower bound on epsilon, to compare with the claimed and proved ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from dpicl.api import parameters as p
from dpicl.api.tables import Audits, failure
from dpicl.attacks.audit_runs import DEMONSTRATION_SIZES, SIZES, AuditJob, Question, sampled_audits
from dpicl.attacks.driver import Job, Outcome, run_jobs
from dpicl.attacks.exact_audit import ExactJob, QueryChoice, reason_against
from dpicl.attacks.results import Access, AttackResult
from dpicl.attacks.table import attacks_table, pair_with_settings
from dpicl.cli import call
from dpicl.cli.output import Answer
from dpicl.core.cell import Cell
from dpicl.core.errors import UsageError, refuse, require_known
from dpicl.core.field_types import Number
from dpicl.core.messages import count, epsilon_text, message
from dpicl.core.paths import DEFAULT_RESULTS, find_suite
from dpicl.core.vocabulary import Report, report_nothing
from dpicl.data.task import Task
from dpicl.engines.progress import count_progress
from dpicl.mechanism.given import GivenMechanism, given_mechanism
from dpicl.mechanism.options import build, sized_options
from dpicl.plan.selection import Selection, select, selection_of
from dpicl.plan.suite_files import Changes, load_suite, suite_of_program
from dpicl.run.workbench import Workbench
from dpicl.tables.document import notes


def _answer(audits: Audits, arguments: Mapping[str, Any]) -> Answer:
    """A table with a line for each audit, notes, and which proved epsilons are refuted."""
    documents = [result.model_dump(mode="json") for result in audits]
    refuted = []
    for result in audits:
        subject, reason = result.subject, failure(result)
        if reason:
            refuted.append(
                f"FAILED: {subject.mechanism} on {subject.task} at epsilon = {subject.epsilon:g}: {reason}; the"
                f" mechanism does not do what its events say. `dpicl check {subject.mechanism}` looks for the reason."
            )
    title = "exact audit" if arguments.get("exact") else "sampled audit"
    table = attacks_table(title, pair_with_settings(audits.items, {}))
    return Answer(
        documents,
        [table, *notes(audits.notes), *notes(refuted, "flag")],
        audits.code,
    )


@p.verb("dpicl audit voting --task agnews --epsilon 1 --question lookup", answer=_answer)
def audit(
    mechanism: Annotated[GivenMechanism | None, p.OneMechanism] = None,
    *,
    task: p.Task | None = None,
    epsilon: p.SomeEpsilons = (),
    exact: bool = False,
    suite: p.SuiteName | None = None,
    queries: QueryChoice | None = None,
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

    A sampled audit compares what is released by runs with and without a canary, and holds at a confidence. An exact one
    computes what one canary demonstrates for the noisy releases of a row of a board, or of every row of a suite that
    has noise: there is no sampling error, and no confidence.

    Raises UsageError for what does not fit, and where the folder has audits of other records.

    mechanism: see `dpicl list mechanisms`; a row of SUITE.
    task: where records and prompts come from.
    exact: the noisy releases and one canary, no sampling error: see the page on audits.
    suite: with --exact: the rows of a suite, with their own options.
    queries: with --exact: the row's queries (default), or the one that the canary moves most, every time.
    copies: with --exact: of the canary at once, for group privacy (default: 1).
    test_records: with --exact: test records, asked as queries (default: 100).
    question: 'is this text in your examples?' (default), or the canary's own input; for answer mechanisms.
    access: what is released (black-box, the default), or the noisy sum behind every answer.
    runs: runs on each side (default: 200).
    records: private records (default: as many as a sample expects, so q = 1).
    confidence: of the bound (default: 0.95).
    """
    sampled: dict[str, Any] = {
        "question": question,
        "access": access,
        "runs": runs,
        "records": records,
        "confidence": confidence,
    }
    exact_only = {
        "suite": suite,
        "queries": queries,
        "copies": copies,
        "limit": test_records,
    }
    if exact:
        sentence = (
            "An exact audit has no runs, and the row's own records and queries; leave {} out."
        )
        refuse(sampled, sentence)
    else:
        refuse(exact_only, "{} goes with --exact; add --exact, or leave it out.")
    if results is None and call.COMMAND.get():  # a program may keep nothing
        results = DEFAULT_RESULTS
    auditor = _Auditor(None if results is None else Path(results), progress)
    folder = Path(results or DEFAULT_RESULTS)
    files = p.as_list(plugins)
    epsilons = list(dict.fromkeys(p.as_list(epsilon)))
    adversary: dict[str, Any] = {"query_choice": queries or "own", "copies": copies or 1}
    if suite is not None:
        of_row = {
            "delta": delta,
            "model": model,
            "source": source,
            "seed": seed is not None,
            "option": options,
            "limit": test_records,
        }
        sentence = "Rows of a suite are audited with their own settings; leave {} out, or --suite."
        refuse(of_row, sentence)
        rows = [] if mechanism is None else [str(mechanism)]
        selection = _rows_of(str(suite), rows, task, epsilons, folder, files)
        return _audit_exactly(selection, adversary, auditor)
    owner = None if mechanism is None else given_mechanism(mechanism, files)
    required = {"MECHANISM": owner, "--task T": task, "--epsilon E": epsilons}
    missing = [name for name, value in required.items() if not value]
    if owner is None or task is None or missing:
        raise UsageError(
            f"An audit needs {' and '.join(missing)}; or --exact --suite SUITE, for the rows of a suite."
        )
    set_options = {**owner.options, **p.options_of(owner.name, options)}
    delta, model, seed = delta or 1e-5, model or "embedded", seed or 0
    source = source or "auto"
    if exact:
        row = suite_of_program(
            source=source,
            models=[model],
            seeds=[seed],
            epsilons=epsilons,
            delta=delta,
            test_records=test_records or 100,
            tasks=[task],
            mechanisms=[{"name": owner.name, "options": set_options}],
        )
        if owner.plugin is not None and owner.plugin not in files:
            files = [*files, owner.plugin]
        return _audit_exactly(selection_of(row, folder, files), adversary, auditor)
    all_options = sized_options(owner.cls, task, DEMONSTRATION_SIZES, SIZES, set_options)
    job = AuditJob(
        build(owner.cls, all_options),
        Task.load(task, source, limit_test=1),
        model,
        all_options,
        owner.registered.plugin_hash,
        delta=delta,
        seed=seed,
        **{name: value for name, value in sampled.items() if value is not None},
    )
    bench = Workbench({owner.name: owner.registered})
    return _audit_by_sampling(job, epsilons, bench, auditor)


def _rows_of(
    suite: str,
    rows: list[str],
    task: str | None,
    epsilons: list[float],
    folder: Path,
    files: list[Any],
) -> Selection:
    """These rows of a suite (none named: all). Raises UsageError for a row or an epsilon that it lacks."""
    known = load_suite(find_suite(suite))
    require_known(
        f"row of {suite}",
        rows,
        {name for entry in known.mechanisms for name in (entry.row, entry.name)},
    )
    require_known(
        f"epsilon of {suite}",
        map(epsilon_text, epsilons),
        [epsilon_text(one) for one in known.epsilons],
    )
    changes = Changes(tasks=[task] if task else [], mechanisms=rows, epsilons=epsilons)
    return select(suite, folder, files, changes)


@dataclass(frozen=True)
class _Auditor:
    """Makes audits. folder: where they are kept; None: nowhere. progress: whether the terminal shows how far they
    are."""

    folder: Path | None
    progress: bool

    def say(self, text: str) -> None:
        if self.progress:
            message(f"dpicl: {text}")

    def run(self, jobs: Iterable[Job], bench: Workbench) -> Iterator[Outcome]:
        """The outcome of every job, as soon as it is there."""
        for outcome in run_jobs(jobs, bench, self.folder, self.say, self._report_for):
            if outcome.earlier and outcome.result is not None:
                date = outcome.result.created[:10]
                self.say(
                    f"{outcome.job}: from {self.folder}, of {date}; --results FOLDER makes it again there."
                )
            elif outcome.path is not None:
                self.say(str(outcome.path))
            yield outcome

    def _report_for(self, job: Job) -> Report:
        counted = count_progress() if self.progress else report_nothing

        def report(done: int, total: int, unit: str) -> None:
            if done:
                counted(done, total, unit)
            else:  # before the first run
                self.say(f"{job}: {total:,} {unit}")

        return report


def _audit_by_sampling(
    job: AuditJob, epsilons: list[float], bench: Workbench, auditor: _Auditor
) -> Audits:
    """The audits of all target epsilons, with one canary; the model is asked only for those that the folder lacks."""
    job.check()
    audits = []
    for outcome in auditor.run(sampled_audits(job, epsilons, bench), bench):
        if outcome.result is None:
            raise outcome.error or AssertionError("unreachable: an outcome is a result or an error")
        audits.append(outcome.result)
    return Audits(audits)


def _audit_exactly(selection: Selection, adversary: Mapping[str, Any], auditor: _Auditor) -> Audits:
    """The audit of the first cell of every row. adversary: fields of `ExactJob`. Raises UsageError where no row can be
    audited."""
    bench = Workbench(selection.mechanisms)
    cells, skipped = _find_auditable(selection, bench, adversary["query_choice"])
    auditor.say(f"Exact audits of {count(len(cells), 'row')}.")
    jobs = (
        ExactJob(
            cell,
            bench.mechanism(cell),
            bench.task(cell),
            **adversary,
        )
        for cell in cells
    )
    audits: list[AttackResult] = []
    failed: list[str] = []
    for outcome in auditor.run(jobs, bench):
        if outcome.result is None:
            failed.append(f"{outcome.job}: {outcome.error}")
            auditor.say(failed[-1])
        else:
            audits.append(outcome.result)
    left_out = [f"left out: {name}: {reason}" for name, reason in skipped.items()]
    if not audits:
        raise UsageError(
            "; ".join([*failed, *left_out])
            or f"No row of {selection.suite_name} has noise to be audited."
        )
    return Audits(audits, (*(f"failed: {sentence}" for sentence in failed), *left_out))


def _find_auditable(
    selection: Selection, bench: Workbench, query_choice: QueryChoice
) -> tuple[list[Cell], dict[str, str]]:
    """(the first cell of every row that an exact audit says something about, rows left out with their reasons)."""
    first = dict[tuple[object, ...], Cell]()
    skipped = dict[str, str]()
    for cell in selection.cells:
        reason = reason_against(
            bench.mechanism(cell),
            Task.read_public(cell.task),
            cell.epsilon,
            query_choice,
        )
        if reason is not None:
            # a row at ε = 0 is left out for one reason on all of its tasks
            skipped[f"{cell.label} on {cell.task}" if cell.epsilon else cell.label] = reason
            continue
        key = (cell.label, cell.task, cell.model, cell.epsilon)
        if key not in first or cell.seed < first[key].seed:
            first[key] = cell
    return list(first.values()), skipped
