"""Families: rows whose intervals cover together, and the verdict on each pair of them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property

from dpicl.evaluation.inference import RankSets, Verdict
from dpicl.leaderboards.model.text import score_text


@dataclass(frozen=True)
class Difference:
    """One row's score minus another's: positive where it is better, with its simultaneous interval.

    excluded: all larger differences are, either way; it may lie beyond the interval, by documents of a kind that did
    not occur. p: adjusted for all pairs of the ``family``, the number of rows that were compared together, in so many
    ``tables``. verdict: 'better' is said of the row with the higher mean. margin: of equivalence.
    """

    value: float
    low: float
    high: float
    excluded: float
    p: float
    family: int
    verdict: Verdict
    margin: float
    tables: int = 1

    @property
    def better(self) -> bool:
        """Whether the first row is better."""
        return self.verdict == "better" and self.value > 0

    def turned(self) -> Difference:
        """The same, seen from the other row."""
        return replace(self, value=-self.value, low=-self.high, high=-self.low)


@dataclass(frozen=True)
class RankFamily:
    """Rows that were compared together, by their names, and what was found."""

    names: tuple[Hashable, ...]
    sets: RankSets = field(repr=False)

    @cached_property
    def places(self) -> dict[Hashable, int]:
        """Name -> its place among the names."""
        return {name: at for at, name in enumerate(self.names)}

    @cached_property
    def _of_tables(self) -> dict[int, RankSets]:
        """How many tables a sentence speaks of -> what was found, at the level of all of them."""
        return {self.sets.tables: self.sets}

    def difference(self, one: Hashable, other: Hashable, tables: int = 1) -> Difference | None:
        """Of two rows of the family; None where they share too few seeds to be compared. tables: of how many a sentence
        speaks."""
        i, j = self.places[one], self.places[other]
        sets = self._of_tables.setdefault(tables, replace(self.sets, tables=tables))
        found = sets.interval(i, j)
        if found is None:
            return None
        value, half, excluded = found
        numbers = (value, value - half, value + half, excluded, sets.p_value(i, j))
        return Difference(*numbers, len(self.names), sets.verdict(i, j), sets.margin, tables)


def excluded_words(most: float) -> str:
    """'differences up to 0.040 are not excluded'."""
    return "no difference is excluded" if most >= 1 else f"differences up to {score_text(most)} are not excluded"
