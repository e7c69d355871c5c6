"""Two rows of a board that a user names, side by side on every task: which is better, and how sure that is.

A row is named by its label, or LABEL@EPSILON: 'tang', 'tang@1'. A mechanism's name will do where it has one label.
Without an ε a row stands for all of its own, and rows are compared within one ε; controls at ε = 0 and the reference
baselines are compared with every ε.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Generic, TypeVar

from dpicl.core.errors import UsageError, require_known, unknown
from dpicl.core.field_types import parse_number
from dpicl.evaluation.statistics import Difference
from dpicl.leaderboards.model.board import Board, Section
from dpicl.leaderboards.model.comparability import Group
from dpicl.leaderboards.model.notes import named
from dpicl.leaderboards.model.ranks import Pairs
from dpicl.leaderboards.model.rows import Row, name_of, title_of
from dpicl.leaderboards.model.standings import Ranking, TaskTable
from dpicl.leaderboards.model.text import epsilon_text

W = TypeVar("W", TaskTable, Ranking)


@dataclass(frozen=True)
class RowName:
    """What a user wrote. epsilon: None for every ε of the row."""

    text: str
    label: str
    epsilon: float | None

    def fits(self, row: Row) -> bool:
        return row.label == self.label and self.epsilon in (None, row.epsilon)


@dataclass(frozen=True)
class RowPair(Generic[W]):
    """Two rows of one task, by score, or over the tasks of a ranking, by mean recovery. found: the first one's number
    minus the other's; None where they cannot be compared."""

    group: Group
    where: W
    one: Row
    other: Row
    found: Difference | None

    @property
    def seeds(self) -> tuple[int, ...]:
        """Those of both rows."""
        return tuple(sorted({*self.one.seeds} & {*self.other.seeds}))


@dataclass(frozen=True)
class RowComparison:
    """Everything that two names stand for. suite: as the user wrote it. one, other: the names."""

    suite: str
    one: str
    other: str
    pairs: tuple[RowPair[TaskTable], ...]
    means: tuple[RowPair[Ranking], ...]


def row_name(row: Row) -> str:
    """'tang@1': how a command names the row; a reference baseline has no ε to name."""
    return row.label if row.is_baseline else f"{row.label}@{epsilon_text(row.epsilon)}"


def full_name(row: Row) -> str:
    """'voting@1 (Q = 100)': as a command names it, with Q."""
    return name_of(row_name(row), row.queries)


def parse_name(text: str, labels: Sequence[str]) -> RowName:
    """The row's label, and its ε where one is named. Raises UsageError for a label or an ε that makes no sense."""
    label, at, epsilon = text.rpartition("@")
    if text in labels or not at:
        return RowName(text, text, None)
    try:
        value = math.inf if epsilon.strip() == "∞" else parse_number(epsilon)
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise UsageError(f"'{epsilon}' in '{text}' is not an ε; name a row as LABEL or LABEL@EPSILON, such as tang@1.")
    return RowName(text, label, value)


def compare_named(
    board: Board,
    suite: str,
    one: str,
    other: str,
    tasks: Sequence[str] = (),
    epsilons: Sequence[float] = (),
) -> RowComparison:
    """Both rows on every task that has them; over the tasks as well where no task was chosen.

    Raises UsageError for a row, a task or an ε that the board does not have, with the closest names, and for rows that
    stand nowhere together.
    """
    rows = [row for section in board.sections for row in section.rows]
    require_known("task", tasks, {row.task for row in rows})
    names = [_known(text, rows, epsilons) for text in (one, other)]
    wanted = tuple(epsilons)
    both = [
        (section, table)
        for section in board.sections
        for table in section.tables
        if (not tasks or table.task in tasks) and all(_named(table, name, wanted) for name in names)
    ]
    pairs = [
        pair for section, table in both for pair in _of_table(section, table, names[0], names[1], wanted, len(both))
    ]
    if not pairs:
        raise UsageError(_nowhere(names, rows))
    means = [] if tasks else [pair for section in board.sections for pair in _over_tasks(section, pairs)]
    return RowComparison(suite, one, other, tuple(pairs), tuple(means))


def _known(text: str, rows: Sequence[Row], epsilons: Sequence[float]) -> RowName:
    labels = sorted({row.label for row in rows})
    name = parse_name(text, labels)
    if name.label not in labels:
        own = sorted({row.label for row in rows if row.mechanism == name.label})
        if len(own) > 1:
            raise UsageError(f"'{name.label}' has several rows: {', '.join(own)}; name one of them.")
        if not labels:
            raise UsageError(
                "There are no results here; name the folder that has them with --results, or run the suite."
            )
        if not own:
            raise unknown("row", name.label, labels)
        name = RowName(text, own[0], name.epsilon)
    there = sorted({row.epsilon for row in rows if row.label == name.label})
    asked = [name.epsilon] if name.epsilon is not None else [] if min(there) in (0, math.inf) else list(epsilons)
    if missing := [epsilon for epsilon in asked if epsilon not in there]:
        has = ", ".join(f"{name.label}@{epsilon_text(epsilon)}" for epsilon in there)
        raise UsageError(f"There is no {title_of(name.label, missing[0])} on this board; it has {has}.")
    return name


def _of_table(
    section: Section, table: TaskTable, one: RowName, other: RowName, epsilons: Sequence[float], tables: int
) -> Iterator[RowPair[TaskTable]]:
    """Proved rows, or where there is none of a name, those of the authors' own accounting. tables: of how many the
    comparison speaks."""
    pairs = Pairs(table, tables)
    chosen = one.epsilon is not None and other.epsilon is not None
    for a, b in product(_named(table, one, epsilons), _named(table, other, epsilons)):
        if a.key != b.key and (chosen or a.epsilon == b.epsilon or a.at_an_end or b.at_an_end):
            yield RowPair(section.group, table, a, b, pairs.difference(a, b))


def _named(table: TaskTable, name: RowName, epsilons: Sequence[float]) -> list[Row]:
    own = [row for row in table.in_order if name.fits(row)] or [row for row in table.paper if name.fits(row)]
    free = name.epsilon is None and epsilons
    return [row for row in own if not free or row.epsilon in epsilons or row.at_an_end]


def _over_tasks(section: Section, pairs: Sequence[RowPair[TaskTable]]) -> Iterator[RowPair[Ranking]]:
    """The same by mean recovery, for what a ranking over several tasks has resampled together."""
    own = {(p.one.label, p.one.epsilon, p.other.label, p.other.epsilon): p for p in pairs if p.group == section.group}
    several = [ranking for ranking in section.rankings if len(ranking.tasks) > 1 and len(section.tables) > 1]
    for ranking, pair in product(several, own.values()):
        one, other = ((row.label, row.epsilon) for row in (pair.one, pair.other))
        if "paper" not in (pair.one.mode, pair.other.mode):
            for family in (each for each in ranking.families if {one, other} <= each.places.keys()):
                yield RowPair(pair.group, ranking, pair.one, pair.other, family.difference(one, other))


def _nowhere(names: Sequence[RowName], rows: Sequence[Row]) -> str:
    where = [named(sorted({f"{row_name(row)} on {row.task}" for row in rows if name.fits(row)})) for name in names]
    if names[0].label == names[1].label and names[0].epsilon == names[1].epsilon:
        return (
            f"'{names[0].text}' is one row twice; name two ε to compare, such as {names[0].label}@1 {names[0].label}@8."
        )
    return f"The two rows share no task and ε: {where[0]}; {where[1]}."
