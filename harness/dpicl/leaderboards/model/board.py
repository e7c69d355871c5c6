"""The board: results sorted into sections that may be compared, each with its tables.

A section holds one suite version (hash of the suite), one model (hash of its weights), one source of records and one
δ. Within a section a task has one version (records, prompts, sizes, test records) and
a row has one set of options: where results differ, the version with the most results stays and a note names the rest.
Submitted rows stand beside our own, but where versions differ our own results decide which one stays. Results of a
retired suite version are sections of their own, apart.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from dpicl.core.errors import require_known
from dpicl.core.vocabulary import NOTIONS, RECORD_CENTRAL
from dpicl.evaluation.inference import MARGIN
from dpicl.leaderboards.model.answers import BoardAnswer, answers
from dpicl.leaderboards.model.comparability import BASELINES, READER, ROW, TASK, Group, differing, group_of, values_of
from dpicl.leaderboards.model.evidence import Evidence, audit_notes, audited, left_out
from dpicl.leaderboards.model.marks import marks_of
from dpicl.leaderboards.model.notes import Note, Weight, gathered
from dpicl.leaderboards.model.ranks import over_tasks, with_ranks
from dpicl.leaderboards.model.rows import Rank, Row
from dpicl.leaderboards.model.standings import (
    Places,
    Ranking,
    Standing,
    TaskTable,
    absent_kinds,
    rankings,
    ranks,
    task_table,
)
from dpicl.leaderboards.model.submissions import Submission, on_the_board
from dpicl.leaderboards.model.text import counted, epsilon_text, names_text, queries_words
from dpicl.plan.expand import Cell
from dpicl.plan.headroom import measure_headroom
from dpicl.results.schema import Result


@dataclass(frozen=True)
class Section:
    """Results that may be compared: their tables, the rankings over several tasks, what the reader must know.

    answers: who is best, at the ε that a reader asks for first, then at the others.
    """

    group: Group
    tables: tuple[TaskTable, ...]
    rankings: tuple[Ranking, ...]
    notes: tuple[str, ...]
    places: Places = field(default_factory=dict, repr=False)
    answers: tuple[BoardAnswer, ...] = field(default=(), repr=False)

    @property
    def rows(self) -> Iterator[Row]:
        """The rows of all tables, in their order."""
        return (row for table in self.tables for row in table.all_rows)

    def place(self, row: Row) -> tuple[Rank, Ranking] | None:
        """A row's rank set and the ranking in which it has it, where its task counts in one."""
        return self.places.get((row.task, row.label, row.epsilon)) if row.mode == "proved" else None


@dataclass(frozen=True)
class Board:
    """Sections, the newest first; ``notes`` are about results in none of them. retired: of earlier versions."""

    sections: tuple[Section, ...]
    notes: tuple[str, ...]
    retired: tuple[Section, ...] = ()


def chosen(
    board: Board, tasks: Collection[str] = (), labels: Collection[str] = (), epsilons: Collection[float] = ()
) -> Board:
    """The board with these tasks, rows (by label or mechanism) and ε alone; nothing chosen means all of that kind.

    Ranks are those of the whole board, and the reference baselines stay. Raises UsageError for a task, a row or an ε
    that the board does not have.
    """
    sections = (*board.sections, *board.retired)
    rows = [row for section in sections for row in section.rows]
    require_known("task", tasks, {row.task for row in rows})
    require_known("mechanism", labels, {name for row in rows for name in (row.label, row.mechanism)})
    require_known("epsilon", map(epsilon_text, epsilons), {epsilon_text(row.epsilon) for row in rows})
    if not (tasks or labels or epsilons):
        return board
    mechanisms = {row.label: row.mechanism for row in rows}

    def kept(section: Section) -> Section:
        own = [table for table in section.tables if not tasks or table.task in tasks]
        tables = tuple(table.only(labels, epsilons, labels) for table in own)
        found = tuple(
            replace(ranking, standings=tuple(one for one in ranking.standings if wanted(one)))
            for ranking in section.rankings
            if not tasks or {*tasks} & {*ranking.tasks}
        )
        said = tuple(
            answer
            for answer in section.answers
            if (not tasks or {*tasks} & {*answer.tasks}) and (not epsilons or answer.epsilon in epsilons)
        )
        return replace(section, tables=tables, rankings=found, answers=said)

    def wanted(one: Standing) -> bool:
        named = not labels or one.label in labels or mechanisms.get(one.label) in labels
        return one.is_baseline or (named and (not epsilons or one.epsilon in epsilons or one.epsilon == 0))

    return replace(board, sections=tuple(map(kept, board.sections)), retired=tuple(map(kept, board.retired)))


def build_board(
    results: Sequence[Result],
    asked: str | None = None,
    evidence: Evidence | None = None,
    submissions: Sequence[Submission] = (),
    retired: Sequence[Result] = (),
    superseded: Mapping[int | str, str] = MappingProxyType({}),
    margin: float = MARGIN,
) -> Board:
    """The board of these results. Never mixes what is not comparable; what it leaves out is in the notes.

    asked: the suite as the user wrote it (a file's path, say), for the commands on the board; None: its name.
    evidence: attacks, for the column audited ε; None: no attack was made.
    submissions: submitted methods; only their results in a group that our own results have stand on the board.
    retired: results of earlier versions of the suite. superseded: version -> why its results no longer hold.
    margin: rows that differ by less are equivalent.
    """
    evidence = evidence or Evidence()
    groups: dict[Group, list[Result]] = defaultdict(list)
    for result in results:
        groups[group_of(result, asked)].append(result)
    notes = []
    submitted, owners = on_the_board(submissions)
    for result in submitted:
        if group_of(result, asked) in groups:
            groups[group_of(result, asked)].append(result)
    for group in [group for group in groups if group.notion != RECORD_CENTRAL.name]:
        usual = groups.get(replace(group, notion=RECORD_CENTRAL.name), [])
        groups[group] += [result for result in usual if result.cell.mechanism in BASELINES]
    real = {group: own for group, own in groups.items() if not group.simulated}
    if real and len(real) < len(groups):
        count = counted(sum(len(own) for group, own in groups.items() if group.simulated))
        notes.append(f"Left out: {count} of a simulated model, which never stand on a board with real ones.")
        groups = defaultdict(list, real)
    newest = sorted(groups, key=lambda group: max(result.created for result in groups[group]), reverse=True)
    newest.sort(key=lambda group: group.notion != RECORD_CENTRAL.name)  # the usual notion first
    if len(newest) > 1:
        notes.append(_several(newest))
    sections = tuple(_section(group, groups[group], evidence, owners, margin) for group in newest)
    notes.extend(left_out([row for section in sections for row in section.rows], newest, evidence))
    earlier = build_board(retired, asked, evidence, margin=margin) if retired else Board((), ())
    notes.extend(f"Of retired versions: {note}" for note in earlier.notes)
    reasons = {str(version): (f"Superseded: {reason}",) for version, reason in superseded.items()}
    former = [replace(old, notes=(*reasons.get(old.group.version, ()), *old.notes)) for old in earlier.sections]
    return Board(sections, tuple(notes), tuple(former))


def _section(
    group: Group, results: Sequence[Result], evidence: Evidence, owners: Mapping[str, Submission], margin: float
) -> Section:
    notes: list[Note] = []
    if group.simulated:
        said = "The model is simulated: these numbers test the machinery and say nothing about any mechanism"
        notes.append(Note(Weight.MODEL, "", said))
    if said := NOTIONS[group.notion].said:
        notes.append(Note(Weight.MODEL, "", f"{said}. These rows are compared with no others"))
    if group.up_to_rounding:
        said = (
            "A record may change how these rows' model rounds others, or nobody knows: they are proved up to rounding"
        )
        notes.append(Note(Weight.DOUBT, "", said))
    kept = _settle(results, lambda cell: (cell.task, cell.development), TASK, notes, owners)
    kept = _settle(kept, lambda cell: (cell.task, cell.label, cell.mode, cell.development), ROW, notes, owners)
    by_task: dict[str, list[Result]] = defaultdict(list)
    for result in kept:
        by_task[result.cell.task].append(result)
    made = [_table(group, task, by_task[task]) for task in sorted(by_task)]
    own = [_with_submissions(table, owners) for table in made if table is not None]
    tables = with_ranks(audited(own, group, evidence), margin)
    found = over_tasks(rankings(tables), tables, margin)
    places = ranks(found)
    notes.extend(_section_notes(tables))
    return Section(group, tables, found, gathered(notes), places, answers(tables, found))


def _table(group: Group, task: str, results: Sequence[Result]) -> TaskTable | None:
    """The table of a task with its headroom; None where there is nothing but what measures headroom."""
    rows = [result for result in results if not result.cell.development]
    if not rows:
        return None
    alike = values_of(rows[0], READER)
    headroom = measure_headroom(result for result in results if values_of(result, READER) == alike)
    return replace(task_table(group, task, rows), headroom=headroom)


def _with_submissions(table: TaskTable, owners: Mapping[str, Submission]) -> TaskTable:
    """The table with every submitted row knowing its submission; an unreliable one has no rank."""

    def owned(row: Row) -> Row:
        submission = owners.get(row.label)
        if submission is None:
            return row
        reason = f"marked unreliable: {submission.unreliable.rstrip('.')}" if submission.unreliable else ""
        marks = marks_of(row.results, vouched=bool(submission.reproductions(one.cell_id for one in row.results)))
        return replace(row, submission=submission, unranked=row.unranked or reason, marks=marks)

    return table.changed(owned)


def _settle(
    results: Sequence[Result],
    scope: Callable[[Cell], Hashable],
    names: Sequence[str],
    notes: list[Note],
    owners: Mapping[str, Submission],
) -> list[Result]:
    """Of every scope the results of one version: the one with most results, the newest where two have as many.

    names: of the conditions in which versions differ. Submitted results (``owners``) count only where none is ours.
    """
    scopes: dict[Hashable, dict[Hashable, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        scopes[scope(result.cell)][values_of(result, names)].append(result)
    kept = []
    for versions in scopes.values():
        best = max(versions.values(), key=lambda own: _weight(own, owners))
        kept.extend(best)
        for own in versions.values():
            if own is not best:
                notes.append(_left_out(own, best[0], names))
    return kept


def _weight(results: Sequence[Result], owners: Mapping[str, Submission]) -> tuple[int, int, str]:
    ours = sum(result.cell.label not in owners for result in results)
    return ours, len(results), max(result.created for result in results)


def _left_out(results: Sequence[Result], kept: Result, names: Sequence[str]) -> Note:
    cell = results[0].cell
    labels = ", ".join(sorted({result.cell.label for result in results}))
    differs = ", ".join(differing(results[0], kept, names))
    about = f"{cell.task}: left out {counted(len(results))} of {labels}"
    return Note(Weight.LEFT_OUT, about, f": other {differs}", f" were left out: other {differs}", "sets of results")


def _several(groups: Sequence[Group]) -> str:
    first = groups[0]
    names = {"suite": "suite", "version": "suite version", "suite_hash": "suite content", "model": "model"}
    names |= {"notion": "notion of privacy", "weights": "model weights", "source": "source of records", "delta": "δ"}
    differs = [name for key, name in names.items() if any(vars(group)[key] != vars(first)[key] for group in groups)]
    return (
        f"{len(groups)} separate sections: the results differ in {', '.join(differs)} and are not compared"
        " across sections. The newest comes first."
    )


def _section_notes(tables: Sequence[TaskTable]) -> Iterator[Note]:
    """What a reader must know beside the numbers: rows without a rank, marks, seeds, shared rankings; in any order."""
    yield from audit_notes(tables)
    for table in tables:
        most = max((len(row.seeds) for row in table.rows), default=0)
        for row in table.rows:
            about = f"{row.title} on {table.task}"
            if (why := row.unranked) and not row.is_baseline:
                weight = Weight.REFUTED if row.audit.flag else Weight.UNRANKED
                yield Note(weight, about, f" is not ranked: {why}", f" are not ranked: {why}")
            if len(row.seeds) < most:
                said = f"{len(row.seeds)} of {most} seeds so far"
                yield Note(Weight.SEEDS, about, f" has {said}", f" have {said}")
    yield from _uneven_queries(tables)
    for mark, count in Counter(mark for table in tables for row in table.all_rows for mark in row.marks).items():
        which = "1 row is" if count == 1 else f"{count} rows are"
        yield Note(Weight.PROOF, "", f"{mark.sign} {which} marked '{mark.name}': {mark.why}")
    if absent := absent_kinds(tables):
        lacks = names_text(f"{kind} tasks lack {names_text(labels)}" for kind, labels in absent.items())
        said = "There is one ranking for each kind of task with a ranked row, since not every row does every kind"
        yield Note(Weight.RANKING, "", f"{said}: {lacks}")


def _uneven_queries(tables: Sequence[TaskTable]) -> Iterator[Note]:
    """Where ranked rows cover different numbers of queries and are ranked apart."""
    by_words: dict[str, list[str]] = defaultdict(list)
    for table in tables:
        queries = {row.queries for row in table.rows if row.rank_any_queries is not None}
        if len(queries) > 1:
            ordered = sorted(queries, key=lambda one: math.inf if one is None else one)
            by_words[names_text(f"rows for {queries_words(one)}" for one in ordered)].append(table.task)
    for which, tasks in by_words.items():
        said = f"On {names_text(tasks)} these are ranked apart, and together in the column 'rank, any Q': {which}"
        yield Note(Weight.RANKING, "", said)
