"""Pairs of rows of one task: which is better, by how much, and how sure that is.

The numbers are those of the rank sets: rows are resampled together with all that they stand beside, and p is adjusted
for every pair of these. Two ranked rows of one ε are in the family of their rank sets; a ranked row and the public
control in that of the sentence "not significantly above"; any other pair in a family of both rows, what is ranked
beside them, the controls at ε = 0 and the reference baselines.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpicl.leaderboards.model.families import Difference, RankFamily
from dpicl.leaderboards.model.ranks import compare_rows, ranked
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import TaskTable
from dpicl.leaderboards.model.text import p_text, signed_text


class Pairs:
    """Differences of the rows of one table. What the board resampled is used again, and each further family once."""

    def __init__(self, table: TaskTable) -> None:
        self._table = table
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
                return family.difference(one.key, other.key)
        rows = self._beside(one, other)
        sets = compare_rows(rows)
        if sets is None:
            return None
        self._families.append(RankFamily(tuple(row.key for row in rows), sets))
        return self._families[-1].difference(one.key, other.key)

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
        at = [self._ranked.get(epsilon, []) for epsilon in dict.fromkeys((one.epsilon, other.epsilon))]
        return list({row.key: row for row in (*(row for rows in at for row in rows), *ends, one, other)}.values())


def pair_words(one: str, other: str, found: Difference | None) -> str:
    """'tang against pta: better, 0.031 (0.012 to 0.050), adjusted p = 0.004': first score less second."""
    if found is None:
        return f"{one} and {other} cannot be compared: they share too few seeds or test records"
    verdict = "inconclusive" if not found.shown else "better" if found.value > 0 else "worse"
    interval = f"{signed_text(found.low)} to {signed_text(found.high)}"
    return f"{one} against {other}: {verdict}, {signed_text(found.value)} ({interval}), adjusted {p_text(found.p)}"
