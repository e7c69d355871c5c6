"""`dpicl audit`: how much epsilon an auditor can demonstrate, beside what is claimed and proved."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from dpicl.api import parameters as p
from dpicl.api.tables import Audits, failure
from dpicl.attacks import store
from dpicl.attacks.audit import AuditJob
from dpicl.attacks.audit import audit as run_audit
from dpicl.attacks.audit import check as check_audit
from dpicl.attacks.audit_settings import AuditSettings
from dpicl.attacks.exact_audit import exact_audit, reason_against
from dpicl.attacks.exact_runs import Asked, Deal, ExactJob
from dpicl.attacks.results import ATTAINED, Access, AttackResult
from dpicl.cli import call
from dpicl.cli.output import Answer
from dpicl.core.cell import Cell
from dpicl.core.errors import UsageError
from dpicl.core.field_types import Number
from dpicl.core.messages import count, message, rounded_down, rounded_up
from dpicl.core.paths import DEFAULT_RESULTS
from dpicl.core.vocabulary import model_name, silent
from dpicl.data.task import Task
from dpicl.engines.progress import count_progress
from dpicl.mechanism.given import GivenMechanism, given_mechanism
from dpicl.mechanism.options import build
from dpicl.mechanism.registry import load_mechanisms
from dpicl.plan.selection import Selection, select, selection_of
from dpicl.plan.suite import Changes, make_suite
from dpicl.run.workbench import Workbench
from dpicl.tables.document import Block, notes, text_table

#: The suite of cells that one mechanism makes up.
_SUITE = "python"
#: Test records that an exact audit asks as queries, unless it is told otherwise.
_ASKED_RECORDS = 100
_EXACT_COLUMNS = (
    "mechanism",
    "task",
    "target ε",
    "Q",
    "proved",
    "audited",
    "share",
    "of the bound",
    "label only",
    "copies",
)


def _answer(found: Audits, given: Mapping[str, Any]) -> Answer:
    """A row an audit, what the columns mean, and which proved epsilon is refuted."""
    documents = [result.model_dump(mode="json") for result in found]
    blocks = _exact_blocks(found) if given.get("exact") else _sampled_blocks(found)
    said = dict.fromkeys([*(note for result in found for note in result.notes), *found.notes])
    refuted = [
        f"FAILED: {own.mechanism} on {own.task} at epsilon = {own.epsilon:g}: {reason}; the mechanism does not do what"
        f" its events say. `dpicl check {own.mechanism}` looks for the reason."
        for own, reason in ((result.subject, failure(result)) for result in found)
        if reason
    ]
    return Answer(documents, [*blocks, *notes(said), *notes(refuted, "flag")], found.code)


@p.verb("dpicl audit voting --task agnews --epsilon 1 --access white-box", answer=_answer)
def audit(
    mechanism: Annotated[GivenMechanism | None, p.OneMechanism] = None,
    *,
    task: p.Task | None = None,
    epsilon: p.SomeEpsilons = (),
    exact: bool = False,
    suite: p.SuiteName | None = None,
    other_records: Deal = "alone",
    queries: Asked = "own",
    copies: Annotated[p.Count, p.Flag(metavar="K")] = 1,
    test_records: p.Limit | None = None,
    access: Access = "white-box",
    question: Literal["inquiry", "lookup"] = "inquiry",
    runs: Annotated[p.Count, Field(ge=8)] = 200,
    noise_resamples: Annotated[p.Count, p.Flag(metavar="R")] = 50,
    records: Annotated[p.Count, Field(ge=2)] | None = None,
    confidence: Annotated[Number, Field(ge=0.5, lt=1), p.Flag(metavar="C")] = 0.95,
    delta: p.Delta = 1e-5,
    model: p.Model = "embedded",
    source: p.SourceName = "auto",
    seed: p.Seed = 0,
    results: p.Results | None = None,
    options: p.Options | None = None,
    plugins: p.Plugins = (),
    shots: Annotated[p.Shots, p.HIDDEN] = 4,
    progress: Annotated[bool, p.HIDDEN] = True,
) -> Audits:
    """A lower bound on the epsilon of a mechanism, for every target epsilon.

    By runs with and without a canary, at a confidence; or, where it is exact, what one canary demonstrates for the
    mechanism as a row of a board, or for every row of a suite that has noise: no sampling error, no confidence.

    Raises UsageError for what does not fit, and for audits of other records in the folder.

    mechanism: see `dpicl list mechanisms`; a row of SUITE.
    task: where records and prompts come from.
    exact: one canary, no sampling error: see the page on audits.
    suite: with --exact: the rows of a suite, with their own options.
    other_records: with --exact: the canary alone (default), or beside the row's records, whose sampling is known.
    queries: with --exact: the row's queries (default), or the one that the canary moves most, every time.
    copies: with --exact: of the canary at once, for group privacy (default: 1).
    test_records: with --exact: test records, asked as queries (default: 100).
    access: what is seen: the noisy releases inside (default), or the released answers and texts alone.
    question: 'is this text in your examples?' (default), or the canary's own input; for answer mechanisms.
    runs: runs on each side (default: 200).
    noise_resamples: noise resamples of a run that has no formula (default: 50).
    records: private records (default: as many as a sample expects, so q = 1).
    confidence: of the bound (default: 0.95).
    """
    if results is None and call.COMMAND.get():  # a program may keep nothing
        results = DEFAULT_RESULTS
    if exact and (access != "white-box" or records is not None):
        raise UsageError(
            "An exact audit sees the noisy releases of the row's own records; leave --access and --records out."
        )
    given = {"--suite": suite is not None, "--queries": queries != "own", "--other-records": other_records != "alone"}
    given |= {"--copies": copies > 1, "--limit": test_records is not None}
    if not exact and (alone := [flag for flag, is_given in given.items() if is_given]):
        raise UsageError(f"{alone[0]} goes with --exact; add --exact, or leave it out.")
    adversary, files = (other_records, queries, copies), p.as_list(plugins)
    if suite is not None:
        if options:
            raise UsageError("Rows of a suite are audited with their own options; leave --option out, or --suite.")
        names = [] if mechanism is None else [str(mechanism)]
        changes = Changes(tasks=[task] if task else [], mechanisms=names, epsilons=p.as_list(epsilon))
        selection = select(str(suite), Path(results or DEFAULT_RESULTS), files, changes)
        return _exact(selection, adversary, results, progress)
    owner = None if mechanism is None else given_mechanism(mechanism, files)
    wanted = {"MECHANISM": owner, "--task T": task, "--epsilon E": p.as_list(epsilon)}
    if missing := [name for name, value in wanted.items() if not value]:
        raise UsageError(f"An audit needs {' and '.join(missing)}; or --exact --suite SUITE, for the rows of a suite.")
    assert owner is not None and task is not None
    own = {**owner.options, **p.options_of(owner.name, options)}
    if exact:
        one = {
            "name": _SUITE,
            "version": 1,
            "source": source,
            "models": [model],
            "seeds": [seed],
            "epsilons": p.as_list(epsilon),
            "delta": delta,
            "shots": shots,
            "test_records": test_records or _ASKED_RECORDS,
            "tasks": [task],
            "mechanisms": [{"name": owner.name, "options": own}],
        }
        files += [owner.plugin] if owner.plugin is not None and owner.plugin not in files else []
        selection = selection_of(make_suite(one), load_mechanisms(files), Path(results or DEFAULT_RESULTS))
        return _exact(selection, adversary, results, progress)
    settings = AuditSettings(access, question, runs, noise_resamples, records, confidence, delta, seed)
    resolved = settings.options(owner.cls, task, own)
    built = build(owner.cls, resolved)
    check_audit(built, Task.without_records(task))
    loaded = Task.load(task, source, limit_test=1)
    job = AuditJob(built, loaded, model, settings, resolved, owner.registered.plugin_hash)
    tell = message if progress else lambda text: None
    targets = list(dict.fromkeys(p.as_list(epsilon)))
    there = {}
    for target in targets if results is not None else ():
        if found := store.stored(Path(results), job.at(target), tell, loaded):  # type: ignore[arg-type]
            there[target] = found
    if left := [target for target in targets if target not in there]:
        bench = Workbench({owner.name: owner.registered})
        report = count_progress() if progress else silent
        made = run_audit(job, bench.model(model), left, bench.outputs(), report)
        there |= dict(zip(left, made, strict=True))
        for target in left if results is not None else ():
            tell(f"dpicl: {store.write(Path(results), there[target])}")  # type: ignore[arg-type]
    return Audits([there[target] for target in targets])


def _exact(
    selection: Selection, adversary: tuple[Deal, Asked, int], results: Path | str | None, progress: bool
) -> Audits:
    """Each audit is written as soon as it is there. Raises UsageError where no row can be audited."""
    tell = message if progress else lambda text: None
    bench, made, failed = Workbench(selection.mechanisms), list[AttackResult](), list[str]()
    cells, skipped = _rows(selection, bench, adversary[1])
    for cell in cells:
        job = ExactJob(cell, bench.mechanism(cell), bench.task(cell), *adversary)
        try:
            there = None if results is None else store.stored(Path(results), job.attempt, message, job.task)
            if there is None:
                tell(f"dpicl: {job}")
                report = count_progress() if progress else silent
                there = exact_audit(job, bench.model(cell.model), bench.outputs(), report)
                if results is not None:
                    tell(f"dpicl: {store.write(Path(results), there)}")
            made.append(there)
        except UsageError as error:
            failed.append(f"{job}: {error}")
            tell(f"dpicl: {failed[-1]}")
    left_out = [f"left out: {name}: {reason}" for name, reason in skipped.items()]
    if not made:
        raise UsageError("; ".join([*failed, *left_out]) or f"No row of {selection.asked} has noise to be audited.")
    return Audits(made, (*(f"failed: {each}" for each in failed), *left_out))


def _rows(selection: Selection, bench: Workbench, asked: Asked) -> tuple[list[Cell], dict[str, str]]:
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


def _exact_blocks(found: Audits) -> list[Block]:
    meaning = (
        f"audited: {ATTAINED}, without sampling error (of several copies: beside what group privacy proves); share: of"
        " what is proved; of the bound: root mean square over releases of how far the canary moves one, as a share of"
        " the move (sum) or range (choice) that is paid for; label only: the same where only the winner of every vote"
        " is seen."
    )
    return [text_table(_EXACT_COLUMNS, map(_exact_row, found), keep=3), *notes([meaning])]


def _exact_row(result: AttackResult) -> list[str]:
    own, bound, proved = result.subject, result.bound, result.privacy.epsilon_proved
    if bound is None:
        ends = (result.measures.get(name) for name in ("group_epsilon", "group_bound"))
        audited, proved = (math.inf if end is None else end.value for end in ends)
    else:
        audited = bound.epsilon
    share, winner = result.details.get("share_of_bound"), result.details.get("label_only")
    mean = share.get("root_mean_square") if isinstance(share, dict) else None
    return [
        own.mechanism,
        own.task,
        f"{own.epsilon:g}",
        "any" if result.privacy.queries is None else str(result.privacy.queries),
        rounded_up(proved),
        rounded_down(audited),
        f"{audited / proved:.3f}" if proved else "-",
        f"{mean:.3f}" if isinstance(mean, float) else "-",
        rounded_down(winner) if isinstance(winner, float) else "-",
        str(result.settings.get("copies", 1)),
    ]


def _sampled_blocks(found: Audits) -> list[Block]:
    columns = ("target ε", "claimed", "proved", "audited", "TPR", "FPR", "method")
    first = found[0]
    assert first.bound is not None
    judged = first.bound.decision.trials_in if first.bound.decision else 0
    meaning = (
        f"audited: a lower bound at {first.bound.confidence:.0%} confidence over samples and noise; of"
        f" {count(first.settings['runs'], 'run')} on each side {judged} judged, and the others chose the rule."
    )
    return [text_table(columns, map(_sampled_row, found), _title(first)), *notes([meaning])]


def _title(result: AttackResult) -> str:
    subject = result.subject
    options = " ".join(f"{name}={value}" for name, value in subject.options.items())
    return (
        f"{subject.mechanism} on {subject.task} ({subject.source}), {result.access}, {model_name(subject.model)},"
        f" {count(subject.members, 'record')}, δ = {subject.delta:g}; {options}"
    )


def _sampled_row(result: AttackResult) -> list[str]:
    bound, privacy = result.bound, result.privacy
    assert bound is not None and bound.decision is not None
    claimed = "-" if privacy.epsilon_claimed is None else rounded_up(privacy.epsilon_claimed)
    return [
        f"{result.subject.epsilon:g}",
        claimed,
        rounded_up(privacy.epsilon_proved),
        rounded_down(bound.epsilon),
        f"{bound.decision.tpr:.3f}",
        f"{bound.decision.fpr:.3f}",
        bound.method,
    ]
