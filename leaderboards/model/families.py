"""Families: rows that were resampled together, and how sure each difference between two of them is."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property

from dpicl.leaderboards.model.rank_sets import LEVEL, RankSets


@dataclass(frozen=True)
class Difference:
    """One row's score minus another's: positive where it is better, with its simultaneous interval.

    p: adjusted for all pairs of the ``family``, the number of rows that were resampled together. An interval is that of
    the largest |t| over all pairs, and p is stepped down, so an interval may just hold 0 where p is below 1 - level.
    """

    value: float
    low: float
    high: float
    p: float
    family: int

    @property
    def shown(self) -> bool:
        """Whether one of the two is better, at the level of the rank sets."""
        return self.p <= 1 - LEVEL

    def turned(self) -> Difference:
        """The same, seen from the other row."""
        return Difference(-self.value, -self.high, -self.low, self.p, self.family)


@dataclass(frozen=True)
class RankFamily:
    """Rows that were resampled together, by their names, and what was found."""

    names: tuple[Hashable, ...]
    sets: RankSets = field(repr=False)

    @cached_property
    def places(self) -> dict[Hashable, int]:
        """Name -> its place among the names."""
        return {name: at for at, name in enumerate(self.names)}

    def difference(self, one: Hashable, other: Hashable) -> Difference | None:
        """Of two rows of the family; None where they share too few seeds to be told apart."""
        i, j = self.places[one], self.places[other]
        value, error = float(self.sets.differences[i, j]), float(self.sets.errors[i, j])
        if math.isnan(error):
            return None
        half = self.sets.critical * error
        return Difference(value, value - half, value + half, float(self.sets.p_values[i, j]), len(self.names))
