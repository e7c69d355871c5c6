"""Builds a board: results grouped into comparable sections, each with its tables.

A section holds one suite version (hash of the suite), one model (hash of its weights), one source of records and one
δ. Within a section a task has one version (records, prompts, sizes, test records) and
a row has one set of options: where results differ, the version with the most results stays and a note names the rest.
Submitted rows stand beside our own, but where versions differ our own results decide which one stays.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dpicl.core.cell import Cell
from dpicl.core.errors import UsageError, require_known
from dpicl.core.messages import count, epsilon_text
from dpicl.evaluation.statistics import MARGIN
from dpicl.leaderboards.model.answers import BoardAnswer, answers
from dpicl.leaderboards.model.comparability import READER, ROW, TASK, Group, group_of, list_differing, values_of
from dpicl.leaderboards.model.contrasts import JudgedContrast, judge_contrasts
from dpicl.leaderboards.model.evidence import Evidence, audit_rows, list_left_out
from dpicl.leaderboards.model.ranks import rank_rows
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.submissions import Submission, collect_rows
from dpicl.leaderboards.model.task_table import TaskTable, task_table
from dpicl.leaderboards.model.text import gather
from dpicl.plan.headroom import measure_headroom
from dpicl.plan.suite_rows import Contrast
from dpicl.results.schema import Result


@dataclass(frozen=True)
class Section:
    """Results that may be compared: their tables, and what the reader must know.

    answers: who is best, at the ε that a reader asks for first, then at the others. measured: tables without rows, of
    the tasks of which headroom alone was measured. contrasts: the claims that the suite plans.
    """

    group: Group
    tables: tuple[TaskTable, ...]
    notes: tuple[str, ...]
    answers: tuple[BoardAnswer, ...] = field(repr=False)
    measured: tuple[TaskTable, ...] = ()
    contrasts: tuple[JudgedContrast, ...] = ()

    @property
    def rows(self) -> Iterator[Row]:
        """The rows of all tables, in their order."""
        return (row for table in self.tables for row in table.in_order)


@dataclass(frozen=True)
class Board:
    """Sections, those with most private rows first and of these the newest; ``notes`` are about results in none of
    them, and ``unplaced`` are those of the notes that are about attacks on no row. warnings: those that every view
    shows: results that are missing, could not be read, or are of other records. skipped: why rows have no result on a
    task: label, task and reason. tasks: of the suite."""

    sections: tuple[Section, ...]
    notes: tuple[str, ...]
    unplaced: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    skipped: tuple[Mapping[str, str], ...] = ()
    tasks: tuple[str, ...] = ()


def require_tasks(board: Board, tasks: Collection[str]) -> None:
    """Raises UsageError for a task without a row on the board."""
    there = {row.task for section in board.sections for row in section.rows}
    for task in tasks:
        if task in board.tasks and task not in there:
            known = ", ".join(sorted(there))
            raise UsageError(
                f"Task '{task}' is in the suite, but no row has a result on it here. With results: {known}."
            )
    require_known("task", tasks, there)


def choose_part(
    board: Board, tasks: Collection[str] = (), labels: Collection[str] = (), epsilons: Collection[float] = ()
) -> Board:
    """The board with these tasks, rows (by label or mechanism) and ε alone; nothing chosen means all of that kind.

    Ranks are those of the whole board, and the reference baselines stay. Raises UsageError for a task, a row or an ε
    that the board does not have.
    """
    rows = [row for section in board.sections for row in section.rows]
    require_tasks(board, tasks)
    require_known("mechanism", labels, {name for row in rows for name in (row.label, row.mechanism)})
    require_known("epsilon", map(epsilon_text, epsilons), {epsilon_text(row.epsilon) for row in rows})
    if not (tasks or labels or epsilons):
        return board
    mechanisms = {row.label: row.mechanism for row in rows}

    def is_on(task: str) -> bool:
        return not tasks or task in tasks

    def is_wanted(one: Row) -> bool:
        named = not labels or one.label in labels or mechanisms.get(one.label) in labels
        return one.is_baseline or (named and (not epsilons or one.epsilon in epsilons or one.epsilon == 0))

    def keep(section: Section) -> Section:
        tables = (replace(one, rows=tuple(filter(is_wanted, one.rows))) for one in section.tables if is_on(one.task))
        answered = (one for one in section.answers if is_on(one.task) and (not epsilons or one.epsilon in epsilons))
        measured = tuple(one for one in section.measured if is_on(one.task))
        contrasts = tuple(one for one in section.contrasts if is_on(one.task))
        new = {"tables": tuple(tables), "answers": tuple(answered), "measured": measured, "contrasts": contrasts}
        return replace(section, **new)  # type: ignore[arg-type]

    skipped = (one for one in board.skipped if is_on(one["task"]) and (not labels or one["label"] in labels))
    kept = tuple(map(keep, board.sections))
    with_tables = tuple(one for one in kept if one.tables or one.measured)
    return replace(board, sections=with_tables or kept, skipped=tuple(skipped))


def build_board(
    results: Sequence[Result],
    asked: str | None = None,
    evidence: Evidence | None = None,
    submissions: Sequence[Submission] = (),
    margin: float = MARGIN,
    contrasts: Sequence[Contrast] = (),
) -> Board:
    """The board of these results. Never mixes what is not comparable; what it leaves out is in the notes.

    asked: the suite as the user wrote it (a file's path, say), for the commands on the board; None: its name.
    evidence: attacks, for the column audited ε; None: no attack was made.
    submissions: submitted methods; only their results in a group that our own results have stand on the board.
    margin: rows that differ by less are equivalent. contrasts: the claims that the suite plans.
    """
    evidence = evidence or Evidence()
    groups: dict[Group, list[Result]] = defaultdict(list)
    for result in results:
        groups[group_of(result, asked)].append(result)
    notes = []
    submitted, owners = collect_rows(submissions)
    for result in submitted:
        if group_of(result, asked) in groups:
            groups[group_of(result, asked)].append(result)
    real = {group: own for group, own in groups.items() if not group.simulated}
    if real and len(real) < len(groups):
        number = count(sum(len(own) for group, own in groups.items() if group.simulated), "result")
        notes.append(f"Left out: {number} of a simulated model, which never stand on a board with real ones.")
        groups = defaultdict(list, real)
    ordered = sorted(groups, key=lambda group: _importance(groups[group]), reverse=True)
    if len(ordered) > 1:
        notes.append(_name_several(ordered))
    sections = tuple(_section(group, groups[group], evidence, owners, margin, contrasts) for group in ordered)
    unplaced = tuple(list_left_out([row for section in sections for row in section.rows], evidence))
    return Board(sections, (*notes, *unplaced), unplaced)


def _section(
    group: Group,
    results: Sequence[Result],
    evidence: Evidence,
    owners: Mapping[str, Submission],
    margin: float,
    planned: Sequence[Contrast],
) -> Section:
    kept, left_out_tasks = _settle(results, lambda cell: (cell.task, cell.development), TASK, owners)
    kept, left_out_rows = _settle(kept, lambda cell: (cell.task, cell.label, cell.development), ROW, owners)
    by_task: dict[str, list[Result]] = defaultdict(list)
    for result in kept:
        by_task[result.cell.task].append(result)
    made = [_table(group, task, by_task[task], owners, margin) for task in sorted(by_task)]
    tables, measured = (tuple(table for table in made if bool(table.in_order) is own) for own in (True, False))
    audit_rows(tables, group, evidence)
    for table in tables:
        rank_rows(table)
    notes = (*_notes(group, tables), *gather([*left_out_tasks, *left_out_rows]))
    return Section(group, tables, notes, answers(tables), measured, judge_contrasts(planned, tables))


def _table(
    group: Group, task: str, results: Sequence[Result], owners: Mapping[str, Submission], margin: float
) -> TaskTable:
    """The table of a task with its headroom; without a row where there is nothing but what measures headroom."""
    rows = [result for result in results if not result.cell.development]
    if not rows:
        metric = results[0].main_metric
        nothing = TaskTable(task, metric, 0, None, None, (), (), results[0].reader_of(metric))
        nothing.headroom = measure_headroom(results)
        return nothing
    table, alike = task_table(group, task, rows, owners, margin), values_of(rows[0], READER)
    table.headroom = measure_headroom(result for result in results if values_of(result, READER) == alike)
    return table


def _notes(group: Group, tables: Sequence[TaskTable]) -> Iterator[str]:
    """What a reader must know beside the numbers: of the model, of proofs that attacks put in doubt, of marks."""
    if group.simulated:
        yield "The model is simulated: these numbers test the machinery and say nothing about any mechanism."
    if group.up_to_rounding:
        yield "A record may change how the model rounds others, or nobody knows: these rows are proved up to rounding."
    rows = [row for table in tables for row in table.in_order]
    yield from gather((f"Refuted: {row.audit.flag}", f"{row.title} on {row.task}") for row in rows if row.audit.flag)
    yield from gather((f"In doubt: {said}", f"{row.title} on {row.task}") for row in rows for said in row.audit.doubts)
    for mark, number in Counter(mark for row in rows for mark in row.marks).items():
        yield f"{mark.sign} {mark.name} ({count(number, 'row')}): {mark.why}."


def _settle(
    results: Sequence[Result],
    scope: Callable[[Cell], Hashable],
    names: Sequence[str],
    owners: Mapping[str, Submission],
) -> tuple[list[Result], list[tuple[str, str]]]:
    """(of every scope the results of one version, what is said of the others): the version with most results, the
    newest where two have as many.

    names: of the conditions in which versions differ. Submitted results (``owners``) count only where none is ours.
    """
    scopes: dict[Hashable, dict[Hashable, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        scopes[scope(result.cell)][values_of(result, names)].append(result)
    kept, left_out = [], []
    for versions in scopes.values():
        best = max(versions.values(), key=lambda own: _weight(own, owners))
        kept.extend(best)
        for own in versions.values():
            if own is not best:
                labels = ", ".join(sorted({result.cell.label for result in own}))
                said = f"Left out, with other {', '.join(list_differing(own[0], best[0], names))}"
                left_out.append((said, f"{count(len(own), 'result')} of {labels} on {own[0].cell.task}"))
    return kept, left_out


def _weight(results: Sequence[Result], owners: Mapping[str, Submission]) -> tuple[int, int, str]:
    ours = sum(result.cell.label not in owners for result in results)
    return ours, len(results), max(result.created for result in results)


def _importance(results: Sequence[Result]) -> tuple[int, str]:
    """A model on which few methods have run comes after one that answers more."""
    cells = [one.cell for one in results if 0 < one.cell.epsilon < math.inf and not one.cell.development]
    private = {(cell.task, cell.label, cell.epsilon) for cell in cells}
    return len(private), max(result.created for result in results)


def _name_several(groups: Sequence[Group]) -> str:
    first = groups[0]
    names = {"suite": "suite", "version": "suite version", "suite_hash": "suite content", "model": "model"}
    names |= {"weights": "model weights", "source": "source of records", "delta": "δ", "up_to_rounding": "rounding"}
    differs = [name for key, name in names.items() if any(vars(group)[key] != vars(first)[key] for group in groups)]
    return (
        f"{len(groups)} separate sections: the results differ in {', '.join(differs)} and are not compared"
        " across sections. Sections with most private rows come first."
    )
