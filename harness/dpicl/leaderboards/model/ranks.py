"""The rank sets of the rows of one task (`dpicl.evaluation.statistics`).

Rows are ranked beside rows of their own level: the same ε, for as many queries Q.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from statistics import fmean

import numpy as np

from dpicl.core.messages import count
from dpicl.evaluation.statistics import FEWEST_SEEDS, MARGIN, Difference, RankSets, rank_sets
from dpicl.leaderboards.model.rows import Rank, Row, outcomes_of
from dpicl.leaderboards.model.task_table import NOBODY, TaskTable
from dpicl.plan.headroom import PUBLIC
from dpicl.results.schema import Result


def compare_rows(rows: Sequence[Row], margin: float = MARGIN) -> RankSets:
    """Rank sets of rows of one task, by their scores on the test records that all of them have at a seed."""
    return rank_sets(
        score_rows(rows),
        lower_is_better=rows[0].lower_is_better(rows[0].metric),
        margin=margin,
        names=[row.key for row in rows],
    )


def rank_rows(table: TaskTable) -> None:
    """Gives every ranked row of a table its rank set within its level, and its difference to the public control.

    Where no score tells a private method from one that reads no record, nobody has a rank; nor where no such row stands
    beside them, or too few seeds are shared."""
    public_rows = [row for row in table.controls if row.mechanism == PUBLIC]
    public = min(public_rows, key=lambda row: row.label != PUBLIC, default=None)
    for epsilon, groups in table.levels.items():
        level = [row for rows in groups.values() for row in rows]
        with_references = compare_rows([*level, *table.references], table.margin)
        table.with_reference_rows[epsilon] = with_references
        if reason := _explain_no_ranks(table, level, with_references):
            table.unranked_levels[epsilon] = reason
        whole = compare_rows(level, table.margin)
        if whole.detectable < 1:  # no score differs by more
            table.detectable[epsilon] = whole.detectable
        for rows in groups.values():
            family = whole if len(groups) == 1 else compare_rows(rows, table.margin)
            table.families.append(family)
            for row in rows:
                if not (row.no_rank or table.ranks_nobody or epsilon in table.unranked_levels):
                    place = family.places[row.key]
                    row.rank = Rank(int(family.low[place]), int(family.high[place]))
                if public is not None:
                    row.against_public = with_references.difference(row.key, public.key)


def score_rows(rows: Sequence[Row]) -> np.ndarray:
    """float64[S, p] on the test records that all rows have at a seed; NaN where a row lacks a seed, or these."""
    by_seed: dict[int, dict[int, Result]] = defaultdict(dict)
    for place, row in enumerate(rows):
        for result in row.results:
            by_seed[result.cell.seed][place] = result
    scores = np.full((len(by_seed), len(rows)), np.nan)
    for number, (_, results) in enumerate(sorted(by_seed.items())):
        ids = {outcomes_of(result)[0] for result in results.values()}
        if len(ids) == 1:
            for place, result in results.items():
                scores[number, place] = result.score
            continue
        common = set.intersection(*map(set, ids))
        for place, result in results.items():
            if common:
                outcomes = zip(*outcomes_of(result), strict=True)
                scores[number, place] = fmean(value for id, value in outcomes if id in common)
    return scores


def _explain_no_ranks(table: TaskTable, rows: Sequence[Row], with_references: RankSets) -> str:
    """Why no row of a level is ranked or advised, as the end of a sentence; '' where rows are.

    with_references: of the rows, the controls and the reference baselines together."""
    if not table.without_records:
        return f"{NOBODY}, because no row that reads no record (zero_shot, say) is there to compare with"
    if all(len(row.seeds) < FEWEST_SEEDS for row in rows):
        return f"{NOBODY}, because no row has {FEWEST_SEEDS} seeds"
    places = with_references.places
    controls = [places[row.key] for row in table.without_records]
    pairs = np.ix_([places[row.key] for row in rows], controls)
    if (with_references.pairs.seeds[pairs] < FEWEST_SEEDS).all():
        return (
            f"{NOBODY}, because no row has {FEWEST_SEEDS} seeds in common with one that reads no record"
            " (zero_shot, say)"
        )
    return ""


class Pairs:
    """Differences of the rows of one table, of families that cover together: two ranked rows are in that of their rank
    sets; any other pair in one of both rows, what is ranked beside them, the controls at ε = 0 and the baselines. Each
    family is made once."""

    def __init__(self, table: TaskTable) -> None:
        self.table = table
        self._families = list(table.families)

    def difference(self, one: Row, other: Row) -> Difference | None:
        """The first row's score minus the other's; None where nothing can be said of them: `explain` has the reason."""
        if not self.table.without_records:
            return None
        levels = self.table.with_reference_rows
        of_levels = [
            levels[row.epsilon]
            for row in (one, other)
            if not row.is_reference and row.epsilon in levels
        ]
        for family in [*self._families, *of_levels]:
            if one.key in family.places and other.key in family.places:
                return family.difference(one.key, other.key)
        family = compare_rows(self._find_neighbours(one, other), self.table.margin)
        self._families.append(family)
        return family.difference(one.key, other.key)

    def explain(self, one: Row, other: Row) -> str:
        """Why there is no difference of two rows."""
        if not self.table.without_records:
            return "no row that reads no record is there"
        common = len({*one.seeds} & {*other.seeds})
        if common < FEWEST_SEEDS:
            return f"{count(common, 'common seed')} of the {FEWEST_SEEDS} that a verdict needs"
        return "the scores differ by as much at every seed, or share no test records"

    def rivals(self, row: Row) -> list[Row]:
        """What a row stands beside: the rows at its ε, controls and reference baselines; for one of these, all rows."""
        others = [other for other in self.table.in_order if other.key != row.key]
        if row.is_reference:
            return others
        return [other for other in others if other.is_reference or other.epsilon == row.epsilon]

    def _find_neighbours(self, one: Row, other: Row) -> Sequence[Row]:
        levels = [
            level
            for epsilon, by_queries in self.table.levels.items()
            if epsilon in (one.epsilon, other.epsilon)
            for level in by_queries.values()
        ]
        rows = [*chain(*levels), *self.table.references, one, other]
        return list({row.key: row for row in rows}.values())
