"""Exact audits from a program: of one mechanism as a row of its own, and of the rows of a suite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from dpicl.api.tables import Audits
from dpicl.api.values import (
    Count,
    Delta,
    Epsilons,
    MaybeCount,
    MaybePath,
    Options,
    Paths,
    Seed,
    Shots,
    Text,
    as_it_is,
    as_list,
    as_text,
    check_arguments,
)
from dpicl.attacks import store
from dpicl.attacks.exact_audit import exact_audit, reason_against
from dpicl.attacks.exact_runs import ASKED, DEALS, Asked, Deal, ExactJob
from dpicl.attacks.results import AttackResult
from dpicl.core.cell import Cell
from dpicl.core.errors import UsageError, require_known
from dpicl.core.messages import message
from dpicl.core.vocabulary import silent
from dpicl.data.task import Task
from dpicl.engines.progress import count_progress
from dpicl.mechanism.given import GivenMechanism, given_mechanism
from dpicl.mechanism.registry import load_mechanisms
from dpicl.plan.selection import Selection, select, selection_of
from dpicl.plan.suite import Changes, make_suite
from dpicl.run.workbench import Workbench

#: The suite of cells that one mechanism makes up.
_SUITE = "python"


@check_arguments
def audit_exactly(
    mechanism: Annotated[GivenMechanism, as_it_is],
    *,
    task: Text,
    epsilon: Epsilons,
    deal: Annotated[Deal, as_text] = "alone",
    asked: Annotated[Asked, as_text] = "own",
    copies: Count = 1,
    delta: Delta = 1e-5,
    test_records: MaybeCount = 100,
    train_records: MaybeCount = None,
    queries: MaybeCount = None,
    shots: Shots = 4,
    model: Text = "embedded",
    source: Text = "auto",
    seed: Seed = 0,
    options: Options = None,
    plugins: Paths = (),
    results: MaybePath = None,
    progress: bool = True,
) -> Audits:
    """The epsilon that one canary demonstrates for a mechanism as a row of a board: no sampling error, no confidence.

    deal: "alone" (the empty set against the canary alone) or "sampled" (beside the records that the seed samples, whose
        sampling the adversary knows). asked: "own" (the task's queries) or "chosen" (answer mechanisms: the one query
        that the canary moves most, asked every time). copies: of the canary at once; several give the measures
        `group_epsilon` and `group_bound`, and no bound on the row's epsilon. test_records: of the task, asked as
        queries; None: all. queries: Q that the epsilon of an answer mechanism covers; None: these. results: a folder
        that keeps finished audits.
    Raises UsageError for what does not fit.
    """
    files = as_list(plugins)
    given = given_mechanism(mechanism, files)
    files = [*files, *([given.plugin] if given.plugin is not None and given.plugin not in files else [])]
    suite = make_suite(
        {
            "name": _SUITE,
            "version": 1,
            "source": source,
            "models": [model],
            "seeds": [seed],
            "epsilons": as_list(epsilon),
            "delta": delta,
            "shots": shots,
            "test_records": test_records,
            "train_records": train_records,
            "queries": queries,
            "tasks": [task],
            "mechanisms": [{"name": given.name, "options": {**given.options, **(options or {})}}],
        }
    )
    selection = selection_of(suite, load_mechanisms(files), Path(results or "results"))
    cells, skipped = _rows(selection, asked)
    if skipped:
        raise UsageError(f"An exact audit of {given.name} on {task} says nothing: {next(iter(skipped.values()))}.")
    made, failed = _made(selection, cells, (deal, asked, copies), results, progress)
    if failed:
        raise UsageError(failed[0])
    return Audits(made)


@check_arguments
def audit_rows_exactly(
    suite: Text,
    *,
    tasks: Annotated[Sequence[str], as_it_is] = (),
    mechanisms: Annotated[Sequence[str], as_it_is] = (),
    epsilons: Annotated[Sequence[float], as_it_is] = (),
    deal: Annotated[Deal, as_text] = "alone",
    asked: Annotated[Asked, as_text] = "own",
    copies: Count = 1,
    plugins: Paths = (),
    results: MaybePath = None,
    progress: bool = True,
) -> Audits:
    """The same for every row of a suite that has noise, each with its own options, sizes, queries and first seed.

    tasks, mechanisms (labels of rows), epsilons: which of them; none: all. Notes say which rows were left out, and why.
    Raises UsageError for what does not fit, and where no row is left.
    """
    changes = Changes(tasks=tasks, mechanisms=mechanisms, epsilons=epsilons)
    selection = select(suite, Path(results or "results"), as_list(plugins), changes)
    cells, skipped = _rows(selection, asked)
    made, failed = _made(selection, cells, (deal, asked, copies), results, progress)
    notes = [f"left out: {name}: {reason}" for name, reason in skipped.items()]
    if not made:
        raise UsageError("; ".join([*failed, *notes]) or f"No row of {suite} has noise that could be audited.")
    return Audits(made, (*(f"failed: {each}" for each in failed), *notes))


def _rows(selection: Selection, asked: Asked) -> tuple[list[Cell], dict[str, str]]:
    """(the first cell of every row that an exact audit says something about, rows left out with their reasons)."""
    bench, first, skipped = Workbench(selection.mechanisms), dict[tuple[object, ...], Cell](), dict[str, str]()
    for cell in selection.cells:
        reason = reason_against(bench.mechanism(cell), Task.without_records(cell.task), cell.epsilon, asked)
        if reason is not None:
            skipped[f"{cell.label} on {cell.task}" if cell.epsilon else cell.label] = reason
            continue
        key = (cell.label, cell.task, cell.model, cell.epsilon)
        if key not in first or cell.seed < first[key].seed:
            first[key] = cell
    return list(first.values()), skipped


def _made(
    selection: Selection,
    cells: Sequence[Cell],
    adversary: tuple[Deal, Asked, int],
    results: Path | str | None,
    progress: bool,
) -> tuple[list[AttackResult], list[str]]:
    """(every audit, what could not be made and why). Each is written as soon as it is there."""
    require_known("deal", adversary[:1], DEALS)
    require_known("choice of queries", adversary[1:2], ASKED)
    tell = message if progress else lambda text: None
    bench, made, failed = Workbench(selection.mechanisms), list[AttackResult](), list[str]()
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
        except UsageError as error:
            failed.append(f"{job}: {error}")
            tell(f"dpicl: {failed[-1]}")
            continue
        made.append(there)
    return made, failed
