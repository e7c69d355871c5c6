"""Builds a board: results grouped into comparable sections, each with its tables.

A section holds one suite version (hash of the suite), one model (hash of its weights), one source of records and one
δ. Within a section a task has one version (records, prompts, sizes, test records) and
a row has one set of options: where results differ, the version with the most results stays and a note names the rest.
Submitted rows stand beside our own, but where versions differ our own results decide which one stays.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dpicl.core.errors import UsageError, require_known
from dpicl.core.grouping import group_by
from dpicl.core.messages import count, epsilon_text
from dpicl.evaluation.statistics import MARGIN
from dpicl.leaderboards.model.answers import BoardAnswer, answers
from dpicl.leaderboards.model.comparability import (
    GROUP,
    ROW,
    TASK,
    Group,
    group_of,
    list_differing,
    values_of,
)
from dpicl.leaderboards.model.contrasts import JudgedContrast, judge_contrasts
from dpicl.leaderboards.model.evidence import Evidence, audit_rows, list_left_out
from dpicl.leaderboards.model.ranks import rank_rows
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.submissions import Submission, collect_rows
from dpicl.leaderboards.model.task_table import TaskTable, task_table
from dpicl.leaderboards.model.text import gather
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

    @property
    def rows(self) -> Iterator[Row]:
        """The rows of all sections, in their order."""
        return (row for section in self.sections for row in section.rows)


def require_tasks(board: Board, tasks: Collection[str]) -> None:
    """Raises UsageError for a task without a row on the board."""
    known = {row.task for row in board.rows}
    for task in tasks:
        if task in board.tasks and task not in known:
            names = ", ".join(sorted(known))
            raise UsageError(
                f"Task '{task}' is in the suite, but no row has a result on it here. With results: {names}."
            )
    require_known("task", tasks, known)


def choose_part(
    board: Board,
    tasks: Collection[str] = (),
    labels: Collection[str] = (),
    epsilons: Collection[float] = (),
) -> Board:
    """The board with these tasks, rows (by label or mechanism) and ε only; an empty choice means all of that kind.

    Ranks are those of the whole board, and the reference baselines stay. Raises UsageError for a task, a row or an ε
    that the board does not have.
    """
    require_tasks(board, tasks)
    names = {row.label for row in board.rows} | {row.mechanism for row in board.rows}
    require_known("mechanism", labels, names)
    require_known(
        "epsilon", map(epsilon_text, epsilons), {epsilon_text(row.epsilon) for row in board.rows}
    )
    if not (tasks or labels or epsilons):
        return board

    def with_task(items: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(item for item in items if not tasks or item.task in tasks)

    def is_chosen(row: Row) -> bool:
        if row.is_baseline:
            return True
        is_named = not labels or row.label in labels or row.mechanism in labels
        return is_named and (not epsilons or row.epsilon in {0, *epsilons})

    def choose_rows(table: TaskTable) -> TaskTable:
        return replace(table, rows=tuple(filter(is_chosen, table.rows)))

    sections = [
        replace(
            section,
            tables=tuple(map(choose_rows, with_task(section.tables))),
            answers=tuple(
                answer
                for answer in with_task(section.answers)
                if not epsilons or answer.epsilon in epsilons
            ),
            measured=with_task(section.measured),
            contrasts=with_task(section.contrasts),
        )
        for section in board.sections
    ]
    with_tables = [section for section in sections if section.tables or section.measured]
    skipped = tuple(
        skip
        for skip in board.skipped
        if (not tasks or skip["task"] in tasks) and (not labels or skip["label"] in labels)
    )
    return replace(board, sections=tuple(with_tables or sections), skipped=skipped)


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
    simulated = [group for group in groups if group.simulated]
    if 0 < len(simulated) < len(groups):
        left_out = sum(len(groups.pop(group)) for group in simulated)
        number = count(left_out, "result")
        notes.append(
            f"Left out: {number} of a simulated model, which never stand on a board with real ones."
        )
    ordered = sorted(groups, key=lambda group: _importance(groups[group]), reverse=True)
    if len(ordered) > 1:
        notes.append(_name_several(ordered))
    sections = tuple(
        _section(group, groups[group], evidence, owners, margin, contrasts) for group in ordered
    )
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
    scope = ("cell.task", "cell.development")
    results, other_tasks = _settle(results, scope, TASK, owners)
    results, other_rows = _settle(results, (*scope, "cell.label"), ROW, owners)
    every_table = [
        task_table(group, task, of_task, owners, margin)
        for task, of_task in sorted(group_by(results, "cell.task").items())
    ]
    tables = [table for table in every_table if table.in_order]
    audit_rows(tables, group, evidence)
    for table in tables:
        rank_rows(table)
    return Section(
        group=group,
        tables=tuple(tables),
        notes=(*_notes(group, tables), *gather([*other_tasks, *other_rows])),
        answers=answers(tables),
        measured=tuple(table for table in every_table if not table.in_order),
        contrasts=judge_contrasts(planned, tables),
    )


def _notes(group: Group, tables: Sequence[TaskTable]) -> Iterator[str]:
    """What a reader must know beside the numbers: of the model, of proofs that attacks put in doubt, of marks."""
    if group.simulated:
        yield "The model is simulated: these numbers test the machinery and say nothing about any mechanism."
    if group.up_to_rounding:
        yield "A record may change how the model rounds others, or nobody knows: these rows are proved up to rounding."
    rows = [row for table in tables for row in table.in_order]
    yield from gather((f"Refuted: {row.audit.flag}", row.place) for row in rows if row.audit.flag)
    yield from gather(
        (f"In doubt: {doubt}", row.place) for row in rows for doubt in row.audit.doubts
    )
    for mark, number in Counter(mark for row in rows for mark in row.marks).items():
        yield f"{mark.sign} {mark.name} ({count(number, 'row')}): {mark.why}."


def _settle(
    results: Sequence[Result],
    scope: Sequence[str],
    names: Sequence[str],
    owners: Mapping[str, Submission],
) -> tuple[list[Result], list[tuple[str, str]]]:
    """(of every scope the results of one version, notes on the others): the version with most results, the newest where
    two have as many.

    scope: paths of what each has one version of. names: of the conditions in which versions differ.
    Submitted results (``owners``) count only where none is ours.
    """
    best: list[Result] = []
    left_out = []

    def weigh(results: Sequence[Result]) -> tuple[int, int, str]:
        ours = sum(result.cell.label not in owners for result in results)
        return ours, len(results), _newest(results)

    for of_scope in group_by(results, *scope).values():
        versions: dict[Hashable, list[Result]] = defaultdict(list)
        for result in of_scope:
            versions[values_of(result, names)].append(result)
        chosen = max(versions.values(), key=weigh)
        best += chosen
        for version in versions.values():
            if version is chosen:
                continue
            labels = ", ".join(sorted({result.cell.label for result in version}))
            conditions = ", ".join(list_differing(version[0], chosen[0], names))
            results_text = f"{count(len(version), 'result')} of {labels} on {version[0].cell.task}"
            left_out.append((f"Left out, with other {conditions}", results_text))
    return best, left_out


def _importance(results: Sequence[Result]) -> tuple[int, str]:
    """A model on which few methods have run comes after one that answers more."""
    cells = [result.cell for result in results if not result.cell.development]
    private = [cell for cell in cells if 0 < cell.epsilon < math.inf]
    rows = {(cell.task, cell.label, cell.epsilon) for cell in private}
    return len(rows), _newest(results)


def _newest(results: Iterable[Result]) -> str:
    return max(result.created for result in results)


def _name_several(groups: Sequence[Group]) -> str:
    columns = zip(*(vars(group).values() for group in groups), strict=True)
    differs = [name for name, values in zip(GROUP, columns, strict=False) if len({*values}) > 1]
    return (
        f"{len(groups)} separate sections: the results differ in {', '.join(differs)} and are not compared"
        " across sections. Sections with most private rows come first."
    )
