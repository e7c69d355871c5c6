"""Pairs of rows of one task: which is better, by how much, and how sure that is.

The numbers are those of the rank sets: rows are compared together with all that they stand beside, and p is adjusted
for every pair of these, and for the tables that one sentence speaks of. Two ranked rows of one ε and Q are in the
family of their rank sets, as are two of one ε; a ranked row and the public control in that of the sentence "not better
than"; any other pair in a family of both rows, what is ranked beside them, the controls at ε = 0 and the baselines.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpicl.leaderboards.model.families import Difference, RankFamily, excluded_words
from dpicl.leaderboards.model.ranks import compare_rows, ranked
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import TaskTable
from dpicl.leaderboards.model.text import p_text, score_text, signed_text


class Pairs:
    """Differences of the rows of one table. What the board compared is used again, and each further family once.

    tables: of how many one sentence speaks."""

    def __init__(self, table: TaskTable, tables: int = 1) -> None:
        self._table = table
        self._tables = tables
        self._ranked = ranked(table)
        self._families = list(table.families)
        self._at: dict[float, list[Row]] = {}

    @property
    def rows(self) -> int:
        """How many rows the table has."""
        return len(self._table.in_order)

    def difference(self, one: Row, other: Row) -> Difference | None:
        """The first row's score minus the other's; None where they share too few seeds or test records."""
        for family in self._families:
            if one.key in family.places and other.key in family.places:
                return family.difference(one.key, other.key, self._tables)
        rows = self._beside(one, other)
        sets = compare_rows(rows, self._table.margin)
        if sets is None:
            return None
        self._families.append(RankFamily(tuple(row.key for row in rows), sets))
        return self._families[-1].difference(one.key, other.key, self._tables)

    def rivals(self, row: Row) -> list[Row]:
        """What a row stands beside: the rows at its ε, controls and reference baselines; for one of these, all rows."""
        rows: Sequence[Row] = self._table.in_order
        if row.mode == "proved" and not row.at_an_end:
            if row.epsilon not in self._at:
                self._at[row.epsilon] = [one for one in rows if one.epsilon == row.epsilon or one.at_an_end]
            rows = self._at[row.epsilon]
        return [one for one in rows if one.key != row.key]

    def _beside(self, one: Row, other: Row) -> Sequence[Row]:
        ends = [row for row in self._table.in_order if row.at_an_end]
        epsilons = {one.epsilon, other.epsilon}
        at = [own for (epsilon, _), own in self._ranked.items() if epsilon in epsilons]
        return list({row.key: row for row in (*(row for rows in at for row in rows), *ends, one, other)}.values())


def pair_words(one: str, other: str, found: Difference | None) -> str:
    """'tang is better than pta, by 0.031 (0.012 to 0.050), adjusted p = 0.004': with the interval of the first score
    less the second, turned to the better row."""
    if found is None:
        return f"{one} and {other} cannot be compared: they share too few seeds or test records"
    if found.value < 0 and found.verdict == "better":
        one, other, found = other, one, found.turned()
    numbers = f"{signed_text(found.value)} ({signed_text(found.low)} to {signed_text(found.high)})"
    if found.verdict == "better":
        return f"{one} is better than {other}, by {numbers}, adjusted {p_text(found.p)}"
    if found.verdict == "equivalent":
        return f"{one} and {other} are equivalent, within {score_text(found.margin)}: {numbers}"
    return f"{one} against {other}: inconclusive, {numbers}; {excluded_words(found.excluded)}"
