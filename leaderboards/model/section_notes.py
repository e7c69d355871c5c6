"""What a reader must know of a section beside its numbers: rows without a rank, marks, seeds, shared rankings."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from dpicl.leaderboards.model.evidence import audit_notes
from dpicl.leaderboards.model.notes import Note, Weight
from dpicl.leaderboards.model.standings import Places, TaskTable, absent_kinds
from dpicl.leaderboards.model.text import names_text, queries_words


def section_notes(tables: Sequence[TaskTable], places: Places) -> Iterator[Note]:
    """The notes of these tables and of the places of their rows, in any order."""
    yield from audit_notes(tables)
    for table in tables:
        yield from _unranked(table)
        yield from _uneven_seeds(table)
    yield from _uneven_queries(tables, places)
    yield from _marked(tables)
    if absent := absent_kinds(tables):
        lacks = names_text(f"{kind} tasks lack {names_text(labels)}" for kind, labels in absent.items())
        said = "There is one ranking for each kind of task with a ranked row, since not every row does every kind"
        yield Note(Weight.RANKING, "", f"{said}: {lacks}")


def _unranked(table: TaskTable) -> Iterator[Note]:
    for row in table.rows:
        if row.unranked:
            weight = Weight.REFUTED if row.audit.flag else Weight.UNRANKED
            why = row.unranked
            yield Note(weight, f"{row.title} on {table.task}", f" is not ranked: {why}", f" are not ranked: {why}")


def _uneven_seeds(table: TaskTable) -> Iterator[Note]:
    most = max((len(row.seeds) for row in table.rows), default=0)
    for row in table.rows:
        if len(row.seeds) < most:
            said = f"{len(row.seeds)} of {most} seeds so far"
            yield Note(Weight.SEEDS, f"{row.title} on {table.task}", f" has {said}", f" have {said}")


def _uneven_queries(tables: Sequence[TaskTable], places: Places) -> Iterator[Note]:
    """Where ranked rows cover different numbers of queries; only tasks that count in a ranking."""
    by_words: dict[str, list[str]] = defaultdict(list)
    for table in tables:
        queries = {row.queries for row in table.rows if (row.task, row.label, row.epsilon) in places}
        if len(queries) > 1:
            ordered = sorted(queries, key=lambda one: math.inf if one is None else one)
            by_words[names_text(f"rows for {queries_words(one)}" for one in ordered)].append(table.task)
    for which, tasks in by_words.items():
        yield Note(Weight.RANKING, "", f"On {names_text(tasks)} these are ranked together: {which}")


def _marked(tables: Sequence[TaskTable]) -> Iterator[Note]:
    """One note for each mark, with the number of rows that bear it."""
    for mark, count in Counter(mark for table in tables for row in table.all_rows for mark in row.marks).items():
        which = "1 row is" if count == 1 else f"{count} rows are"
        yield Note(Weight.PROOF, "", f"{mark.sign} {which} marked '{mark.name}': {mark.why}")
