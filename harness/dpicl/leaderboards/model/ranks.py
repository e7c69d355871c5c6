"""The rank sets of a board: of the rows of one task, and of mechanisms over several tasks (see inference).

Rows are ranked beside rows of their own level: the same ε, for as many queries Q. Rows of one ε with different Q are
ranked together in a rank of its own (`Row.rank_any_queries`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np

from dpicl.evaluation.statistics import MARGIN, Difference, RankSets, rank_sets
from dpicl.leaderboards.model.notes import named
from dpicl.leaderboards.model.rows import Rank, Row, outcomes_of, recover, score_of
from dpicl.leaderboards.model.standings import Level, Ranking, Standing, TaskTable
from dpicl.leaderboards.model.text import epsilon_text, excluded_words, names_text, queries_words, score_text

#: The control that reads no record.
PUBLIC = "public_demonstrations"


def compare_rows(rows: Sequence[Row], margin: float = MARGIN) -> RankSets | None:
    """Rank sets of rows of one task; None for fewer than two documents in common, which say nothing."""
    seeds = sorted({seed for row in rows for seed in row.seeds})
    outcomes = _outcomes(rows, seeds)
    if outcomes is None:
        return None
    names = [row.key for row in rows]
    return rank_sets([outcomes], lower_is_better=_turned(rows[0]), margin=margin, names=names)


def with_ranks(tables: Sequence[TaskTable], margin: float = MARGIN) -> tuple[TaskTable, ...]:
    """The tables with the rank set of every ranked row within its level, what each ε could have found, and every row
    beside the public control. margin: of equivalence, as the suite states it."""
    return tuple(_with_ranks(replace(table, margin=margin)) for table in tables)


def _with_ranks(table: TaskTable) -> TaskTable:
    public = next((r for r in table.rows if r.mechanism == PUBLIC and r.epsilon == 0 and not r.unranked), None)
    changed: dict[Hashable, Row] = {}
    detectable = {}
    families: list[RankSets] = []

    def family(rows: Sequence[Row]) -> RankSets | None:
        found = compare_rows(rows, table.margin)
        families.extend([] if found is None else [found])
        return found

    by_epsilon: dict[float, list[list[Row]]] = defaultdict(list)
    for (epsilon, _), rows in ranked(table).items():
        by_epsilon[epsilon].append(rows)
    for epsilon, groups in by_epsilon.items():
        own = [(rows, family(rows)) for rows in groups]
        every = [row for rows in groups for row in rows]
        whole = family(every) if len(groups) > 1 else own[0][1]
        beside = None if public is None else family([*every, public])
        if whole is not None and whole.detectable < 1:  # no score differs by more
            detectable[epsilon] = whole.detectable
        several = len(groups) > 1
        for rows, found in own:
            for row in rows:
                changed[row.key] = replace(
                    row,
                    rank=_rank(found, row.key, len(rows)),
                    rank_any_queries=_rank_of_all(whole, len(every), found, row.key, len(rows)) if several else None,
                    over_public=None if public is None else _over_public(row, public, table.real_data),
                    against_public=None if beside is None else beside.difference(row.key, beside.names[-1]),
                )
    own_rows = tuple(changed.get(row.key, row) for row in table.rows)
    made = replace(table, rows=own_rows, detectable=detectable, families=tuple(families))
    said: dict[float, tuple[str, ...]] = defaultdict(tuple)
    for epsilon, sentence in _said(made):
        said[epsilon] += (sentence,)
    return _without_ranks(made) if table.unrewarded else replace(made, said=dict(said))


def _without_ranks(table: TaskTable) -> TaskTable:
    """The table where nobody is ranked, since no score tells a private method from one that reads no record."""
    rows = tuple(replace(row, rank=None, rank_any_queries=None) for row in table.rows)
    return replace(table, rows=rows, said={})


def _over_public(row: Row, public: Row, real: Row | None) -> float | None:
    """Recovery over the seeds of all three; None without any, or where there is nothing to gain."""
    if real is None or row.real_data is None:
        return None
    seeds = set(row.seeds) & set(public.seeds) & set(real.seeds)
    if not seeds:
        return None
    own, low, high = (
        fmean(score_of(result) for result in one.results if result.cell.seed in seeds) for one in (row, public, real)
    )
    return recover(own, low, high, _turned(row))[0]


def over_tasks(rankings: Sequence[Ranking], tables: Sequence[TaskTable], margin: float = MARGIN) -> tuple[Ranking, ...]:
    """The rankings with rank sets by mean recovery: of these tasks, and of the tasks as a sample of such tasks."""
    by_task = {table.task: table for table in tables}
    return tuple(_over_tasks(ranking, [by_task[task] for task in ranking.tasks], margin) for ranking in rankings)


def _over_tasks(ranking: Ranking, tables: Sequence[TaskTable], margin: float) -> Ranking:
    placed: dict[tuple[str, float], Standing] = {}
    families: list[RankSets] = []
    for rivals in levels_of(ranking).values():
        epsilon = rivals[0].epsilon
        parts = [_recoveries(table, epsilon, [one.label for one in rivals]) for table in tables]
        known = [part for part in parts if part is not None]
        names = tuple((one.label, epsilon) for one in rivals)
        fixed = sampled = None
        if known and len(known) == len(tables):
            fixed = rank_sets(known, margin=margin, names=names)
            families.append(fixed)
            if len(known) > 2:
                sampled = rank_sets([_as_sample(known)], margin=margin, sampled=False, names=names)
        for one, name in zip(rivals, names, strict=True):
            sample = None if sampled is None else _rank(sampled, name, len(rivals))
            placed[name] = replace(one, rank=_rank(fixed, name, len(rivals)), sample_rank=sample)
    standings = [placed.get((one.label, one.epsilon), one) for one in ranking.standings]
    return replace(ranking, standings=tuple(standings), families=tuple(families))


def levels_of(ranking: Ranking) -> Mapping[Level, list[Standing]]:
    """ε and Q -> the standings with a recovery that are ranked together."""
    found: dict[Level, list[Standing]] = defaultdict(list)
    for one in ranking.standings:
        if 0 < one.epsilon < math.inf and one.recovery is not None:
            found[one.epsilon, one.queries].append(one)
    return found


def _recoveries(table: TaskTable, epsilon: float, labels: Sequence[str]) -> np.ndarray | None:
    """float64[S, D, p]: outcomes over the gain of real demonstrations, which has the sign of the metric's direction.

    The gain is a constant here: the same for all rows, so that it weighs tasks and changes no difference's sign.
    """
    rows = {row.label: row for row in table.rows if row.epsilon == epsilon}
    own = [rows[label] for label in labels]
    gains = [row.real_data - row.zero_shot for row in own if row.real_data is not None and row.zero_shot is not None]
    outcomes = _outcomes(own, sorted({seed for row in own for seed in row.seeds}))
    return None if outcomes is None or not gains else outcomes / gains[0]


def _as_sample(tasks: Sequence[np.ndarray]) -> np.ndarray:
    """float64[T, 1, p]: mean recoveries of tasks in the place of seeds, so that nothing but tasks is a sample: what
    documents and seeds add is in the differences between tasks."""
    return np.array([np.nanmean(own, axis=(0, 1)) for own in tasks])[:, None, :]


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


def compared(where: TaskTable | Ranking, name: Hashable) -> bool:
    """Whether a ranked row (by its key) or a standing (by label and ε) shares enough seeds with some other one to be
    compared with it."""
    own = [family for family in where.families if name in family.places]
    return any(family.comparable[family.places[name]].any() for family in own)


def _rank(family: RankSets | None, name: Hashable, rivals: int) -> Rank:
    """Without rank sets every rank is possible."""
    if family is None:
        return Rank(1, rivals)
    at = family.places[name]
    return Rank(int(family.low[at]), int(family.high[at]))


def _rank_of_all(whole: RankSets | None, every: int, own: RankSets | None, name: Hashable, rivals: int) -> Rank:
    """The rank set among ``every`` row, which contradicts none of what the row's ``own`` level, of ``rivals``, says."""
    alone, among = _rank(own, name, rivals), _rank(whole, name, every)
    return Rank(max(among.low, alone.low), min(among.high, every - rivals + alone.high))


def ranked(table: TaskTable) -> Mapping[Level, list[Row]]:
    """ε above 0 and Q -> the rows that are ranked together."""
    found: dict[Level, list[Row]] = defaultdict(list)
    for row in table.rows:
        if not row.unranked and row.epsilon > 0:
            found[row.epsilon, (row.queries,)].append(row)
    return found


def _turned(row: Row) -> bool:
    return row.lower_is_better(row.metric)


def rank_notes(table: TaskTable) -> list[str]:
    """At each ε who is better than whom, in words, and the minimum detectable effect (MDE) of this table."""
    if table.unrewarded and ranked(table):
        return [f"nobody is ranked: {table.unrewarded}."]
    there = {row.epsilon for row in table.rows}
    return [
        f"ε = {epsilon_text(epsilon)}: {said}."
        for epsilon, own in table.said.items()
        for said in (own if epsilon in there else ())
    ]


def first_verdict(first: int, of: int, between: Sequence[Difference]) -> str:
    """What is said, after their names, of the rows that may be the best ``of`` so many. between: the differences of all
    pairs of them."""
    if first == 1:
        return "is the only row" if of == 1 else "is better than every other row"
    of_all = f" (of {of})" if first < of else ""
    tied = f"are tied with the best (95%{f', of {of}' if first < of else ''})"
    if between and all(one.verdict == "equivalent" for one in between):
        return f"are equivalent, within {score_text(between[0].margin)}{of_all}"
    size = excluded_words(max(one.excluded for one in between)) if between else "since they share too few seeds"
    return f"{tied}: inconclusive, {size}"


def between(where: TaskTable | Ranking, names: Sequence[Hashable]) -> list[Difference]:
    """The differences of all pairs of these rows of one level that can be compared."""
    family = next((one for one in where.families if {*names} <= one.places.keys()), None)
    if family is None:
        return []
    pairs = [(a, b) for at, a in enumerate(names) for b in names[:at]]
    return [one for a, b in pairs if (one := family.difference(a, b)) is not None]


def _said(table: TaskTable) -> Iterator[tuple[float, str]]:
    levels = ranked(table)
    by_epsilon: dict[float, list[Row]] = defaultdict(list)
    for (epsilon, (queries,)), rows in levels.items():
        by_epsilon[epsilon] += rows
        if len(rows) > 1:
            first = [row for row in rows if row.rank is not None and row.rank.first]
            several = sum(level == epsilon for level, _ in levels) > 1
            group = f"{queries_words(queries)}: " if several else ""
            verdict = first_verdict(len(first), len(rows), between(table, [row.key for row in first]))
            yield epsilon, f"{group}{named([row.name for row in first])} {verdict}"
    for epsilon, rows in by_epsilon.items():
        if epsilon in table.detectable and len(rows) > 1:
            yield epsilon, f"MDE (80% power): {score_text(table.detectable[epsilon])}"
        told = [row for row in rows if row.against_public is not None]
        if low := [row.name for row in told if row.against_public and not row.against_public.better]:
            which = (
                "no row is" if len(low) == len(rows) else f"{names_text(low)} {'is' if len(low) == 1 else 'are'} not"
            )
            yield epsilon, f"{which} better than {PUBLIC}, which reads no private record"


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
        for family in self._families:
            if one.key in family.places and other.key in family.places:
                return family.difference(one.key, other.key, self._tables)
        found = compare_rows(self._beside(one, other), self.table.margin)
        if found is None:
            return None
        self._families.append(found)
        return found.difference(one.key, other.key, self._tables)

    def rivals(self, row: Row) -> list[Row]:
        """What a row stands beside: the rows at its ε, controls and reference baselines; for one of these, all rows."""
        every = row.mode != "proved" or row.at_an_end
        rows = (one for one in self.table.in_order if every or one.epsilon == row.epsilon or one.at_an_end)
        return [one for one in rows if one.key != row.key]

    def _beside(self, one: Row, other: Row) -> Sequence[Row]:
        ends = [row for row in self.table.in_order if row.at_an_end]
        epsilons = {one.epsilon, other.epsilon}
        at = [own for (epsilon, _), own in ranked(self.table).items() if epsilon in epsilons]
        return list({row.key: row for row in (*(row for rows in at for row in rows), *ends, one, other)}.values())
