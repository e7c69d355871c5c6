"""The rank sets of the rows of one task (`dpicl.evaluation.statistics`).

Rows are ranked beside rows of their own level: the same ε, for as many queries Q.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np

from dpicl.evaluation.statistics import MARGIN, Difference, RankSets, rank_sets
from dpicl.leaderboards.model.rows import Rank, Row, outcomes_of
from dpicl.leaderboards.model.task_table import TaskTable
from dpicl.plan.headroom import PUBLIC


def compare_rows(rows: Sequence[Row], margin: float = MARGIN) -> RankSets | None:
    """Rank sets of rows of one task; None for fewer than two documents in common, which say nothing."""
    seeds = sorted({seed for row in rows for seed in row.seeds})
    outcomes = _outcomes(rows, seeds)
    if outcomes is None:
        return None
    lower, names = rows[0].lower_is_better(rows[0].metric), [row.key for row in rows]
    return rank_sets(outcomes, lower_is_better=lower, margin=margin, reach=1.0, names=names)


def rank_rows(table: TaskTable) -> None:
    """Gives every ranked row of a table its rank set within its level, and its difference to the public control.

    Where no score tells a private method from one that reads no record, nobody has a rank; nor where no such row stands
    beside them, or nothing is shared that they could be compared on."""
    public = min(
        (row for row in table.controls if row.mechanism == PUBLIC), key=lambda row: row.label != PUBLIC, default=None
    )
    families: list[RankSets] = []

    def family(rows: Sequence[Row]) -> RankSets | None:
        found = compare_rows(rows, table.margin)
        families.extend([] if found is None else [found])
        return found

    ends = [row for row in table.in_order if row.at_an_end]
    beside_ends: dict[float, RankSets] = {}
    by_epsilon: dict[float, list[list[Row]]] = defaultdict(list)
    for (epsilon, _), rows in table.levels.items():
        by_epsilon[epsilon].append(rows)
    for epsilon, groups in by_epsilon.items():
        own = [(rows, family(rows)) for rows in groups]
        every = [row for rows in groups for row in rows]
        whole = family(every) if len(groups) > 1 else own[0][1]
        beside = None if public is None else family([*every, public])
        beside_all = compare_rows([*every, *ends], table.margin)
        if beside_all is not None:
            beside_ends[epsilon] = beside_all
        if reason := _explain_no_ranks(table, beside_all):
            table.unranked_levels[epsilon] = reason
        if whole is not None and whole.detectable < 1:  # no score differs by more
            table.detectable[epsilon] = whole.detectable
        for rows, found in own:
            for row in rows:
                if found is not None and not table.ranks_nobody and epsilon not in table.unranked_levels:
                    row.rank = _rank(found, row.key)
                row.against_public = None if beside is None else beside.difference(row.key, beside.names[-1])
    table.families, table.beside_ends = tuple(families), beside_ends


def _outcomes(rows: Sequence[Row], seeds: Sequence[int]) -> np.ndarray | None:
    """float64[S, D, p] on the documents that all rows have; None for fewer than two."""
    found = [{result.cell.seed: outcomes_of(result) for result in row.results} for row in rows]
    different = {ids for by_seed in found for ids, _ in by_seed.values()}
    documents = sorted(set.intersection(*map(set, different)))
    if len(documents) < 2:
        return None
    places = {ids: _places(ids, documents) for ids in different} if len(different) > 1 else {}
    values = np.full((len(seeds), len(documents), len(rows)), np.nan)
    for at, by_seed in enumerate(found):
        for number, seed in enumerate(seeds):
            if seed in by_seed:
                ids, outcomes = by_seed[seed]
                values[number, :, at] = [outcomes[place] for place in places[ids]] if places else outcomes
    return values


def _places(ids: Sequence[str], wanted: Sequence[str]) -> list[int]:
    place = {name: at for at, name in enumerate(ids)}
    return [place[name] for name in wanted]


def _explain_no_ranks(table: TaskTable, beside_ends: RankSets | None) -> str:
    """Why no row of a level is ranked or advised, as the end of a sentence; '' where rows are.

    beside_ends: of the rows, the controls and the reference baselines together."""
    if not table.without_records:
        return "nobody is ranked, because no row that reads no record (zero_shot, say) is there to compare with"
    if beside_ends is None:
        return "nobody is ranked, because the rows have fewer than two test records in common"
    return ""


def _rank(family: RankSets, name: Hashable) -> Rank:
    at = family.places[name]
    return Rank(int(family.low[at]), int(family.high[at]))


class Pairs:
    """Differences of the rows of one table, of families that cover together: two ranked rows are in that of their rank
    sets, a ranked row and the public control in that of "not better than"; any other pair in one of both rows, what is
    ranked beside them, the controls at ε = 0 and the baselines. Each is made once. tables: see `RankSets`."""

    def __init__(self, table: TaskTable, tables: int = 1) -> None:
        self.table = table
        self._tables = tables
        self._families = list(table.families)

    def difference(self, one: Row, other: Row) -> Difference | None:
        """The first row's score minus the other's; None where they share too few seeds or test records."""
        epsilons = [row.epsilon for row in (one, other) if not row.at_an_end]
        beside = [self.table.beside_ends[epsilon] for epsilon in epsilons if epsilon in self.table.beside_ends]
        for family in [*self._families, *beside]:
            if one.key in family.places and other.key in family.places:
                return family.difference(one.key, other.key, self._tables)
        found = compare_rows(self._find_neighbours(one, other), self.table.margin)
        if found is None:
            return None
        self._families.append(found)
        return found.difference(one.key, other.key, self._tables)

    def rivals(self, row: Row) -> list[Row]:
        """What a row stands beside: the rows at its ε, controls and reference baselines; for one of these, all rows."""
        rows = (one for one in self.table.in_order if row.at_an_end or one.epsilon == row.epsilon or one.at_an_end)
        return [one for one in rows if one.key != row.key]

    def _find_neighbours(self, one: Row, other: Row) -> Sequence[Row]:
        ends = [row for row in self.table.in_order if row.at_an_end]
        epsilons = {one.epsilon, other.epsilon}
        at = [own for (epsilon, _), own in self.table.levels.items() if epsilon in epsilons]
        return list({row.key: row for row in (*(row for rows in at for row in rows), *ends, one, other)}.values())
