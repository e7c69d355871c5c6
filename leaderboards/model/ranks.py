"""The rank sets of a board: of the rows of one task, and of mechanisms over several tasks (see rank_sets)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np

from dpicl.leaderboards.model.families import RankFamily
from dpicl.leaderboards.model.notes import named
from dpicl.leaderboards.model.rank_sets import RankSets, rank_sets
from dpicl.leaderboards.model.rows import Rank, Row, outcomes_of, recover, score_of
from dpicl.leaderboards.model.standings import Ranking, Standing, TaskTable
from dpicl.leaderboards.model.text import epsilon_text, names_text, score_text

#: Draws for a board; `rank_sets` has more where one table is looked at closely.
_DRAWS = 1_000
#: The control that reads no record.
PUBLIC = "public_demonstrations"


def compare_rows(rows: Sequence[Row]) -> RankSets | None:
    """Rank sets of rows of one task; None for fewer than two documents in common, which say nothing."""
    seeds = sorted({seed for row in rows for seed in row.seeds})
    outcomes = _outcomes(rows, seeds)
    return None if outcomes is None else rank_sets([outcomes], lower_is_better=_turned(rows[0]), draws=_DRAWS)


def with_ranks(tables: Sequence[TaskTable]) -> tuple[TaskTable, ...]:
    """The tables with the rank set of every ranked row within its ε, what each ε could have found, and every row beside
    the public control."""
    return tuple(map(_with_ranks, tables))


def _with_ranks(table: TaskTable) -> TaskTable:
    public = next((row for row in table.rows if row.mechanism == PUBLIC and row.epsilon == 0), None)
    changed: dict[tuple[str, float], Row] = {}
    detectable = {}
    families: list[RankFamily] = []
    for epsilon, rows in ranked(table).items():
        sets = compare_rows(rows)
        if sets is not None and sets.detectable < 1:  # no score differs by more
            detectable[epsilon] = sets.detectable
        beside = None if public is None else compare_rows([*rows, public])
        families += [] if sets is None else [RankFamily(tuple(row.key for row in rows), sets)]
        families += (
            [] if beside is None or public is None else [RankFamily((*(row.key for row in rows), public.key), beside)]
        )
        for at, row in enumerate(rows):
            below = beside is not None and not beside.better[at, -1]
            changed[row.label, epsilon] = replace(
                row,
                rank=_rank(sets, at, len(rows)),
                over_public=None if public is None else _over_public(row, public, table.real_data),
                not_above=PUBLIC if below else "",
            )
    own = tuple(changed.get((row.label, row.epsilon), row) for row in table.rows)
    found = replace(table, rows=own, detectable=detectable, families=tuple(families))
    said: dict[float, tuple[str, ...]] = defaultdict(tuple)
    for epsilon, sentence in _said(found):
        said[epsilon] += (sentence,)
    return _without_ranks(found) if table.unrewarded else replace(found, said=dict(said))


def _without_ranks(table: TaskTable) -> TaskTable:
    """The table where nobody is ranked, since no score tells a private method from one that reads no record."""
    rows = tuple(replace(row, rank=None) for row in table.rows)
    return replace(table, rows=rows, said=dict.fromkeys(ranked(table), (f"nobody is ranked: {table.unrewarded}",)))


def _over_public(row: Row, public: Row, real: Row | None) -> float | None:
    """Recovery over the seeds of all three; None without any, with secure noise, or where there is nothing to gain."""
    if real is None or row.secure or row.real_data is None:
        return None
    seeds = set(row.seeds) & set(public.seeds) & set(real.seeds)
    if not seeds:
        return None
    own, low, high = (
        fmean(score_of(result) for result in one.results if result.cell.seed in seeds) for one in (row, public, real)
    )
    return recover(own, low, high, _turned(row))[0]


def over_tasks(rankings: Sequence[Ranking], tables: Sequence[TaskTable]) -> tuple[Ranking, ...]:
    """The rankings with rank sets by mean recovery: of these tasks, and of the tasks as a sample of such tasks."""
    by_task = {table.task: table for table in tables}
    return tuple(_over_tasks(ranking, [by_task[task] for task in ranking.tasks]) for ranking in rankings)


def _over_tasks(ranking: Ranking, tables: Sequence[TaskTable]) -> Ranking:
    placed: dict[tuple[str, float], Standing] = {}
    families: list[RankFamily] = []
    for epsilon in {one.epsilon for one in ranking.standings if 0 < one.epsilon < math.inf}:
        rivals = [one for one in ranking.standings if one.epsilon == epsilon and one.recovery is not None]
        if not rivals:
            continue
        parts = [_recoveries(table, epsilon, [one.label for one in rivals]) for table in tables]
        known = [part for part in parts if part is not None]
        fixed = rank_sets(known, draws=_DRAWS) if known and len(known) == len(tables) else None
        sampled = rank_sets([_as_sample(known)], draws=_DRAWS) if fixed is not None and len(known) > 2 else None
        families += [] if fixed is None else [RankFamily(tuple((one.label, epsilon) for one in rivals), fixed)]
        for at, one in enumerate(rivals):
            sample = None if sampled is None else _rank(sampled, at, len(rivals))
            placed[one.label, epsilon] = replace(one, rank=_rank(fixed, at, len(rivals)), sample_rank=sample)
    standings = [placed.get((one.label, one.epsilon), one) for one in ranking.standings]
    return replace(ranking, standings=tuple(standings), families=tuple(families))


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
    """float64[T, 2, p]: mean recoveries of tasks in the place of seeds, so that nothing but tasks is a sample.

    Every task says the same of two documents: what documents and seeds add is in the differences between tasks.
    """
    means = np.array([np.nanmean(own, axis=(0, 1)) for own in tasks])
    return np.repeat(means[:, None, :], 2, axis=1)


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
    told apart from it."""
    own = [family for family in where.families if name in family.names]
    return any(family.difference(name, other) for family in own for other in family.names if other != name)


def _rank(sets: RankSets | None, at: int, rivals: int) -> Rank:
    """Without rank sets every rank is possible."""
    return Rank(1, rivals) if sets is None else Rank(int(sets.low[at]), int(sets.high[at]))


def ranked(table: TaskTable) -> Mapping[float, list[Row]]:
    """ε above 0 -> its ranked rows."""
    found: dict[float, list[Row]] = defaultdict(list)
    for row in table.rows:
        if not row.unranked and row.epsilon > 0:
            found[row.epsilon].append(row)
    return found


def _turned(row: Row) -> bool:
    return row.lower_is_better(row.metric)


def rank_notes(table: TaskTable) -> list[str]:
    """At each ε who may be the best, in words, and the minimum detectable effect (MDE) of this table."""
    there = {row.epsilon for row in table.rows}
    return [
        f"ε = {epsilon_text(epsilon)}: {said}."
        for epsilon, own in table.said.items()
        for said in (own if epsilon in there else ())
    ]


def _said(table: TaskTable) -> Iterator[tuple[float, str]]:
    for epsilon, rows in ranked(table).items():
        if len(rows) > 1:
            found = table.detectable.get(epsilon)
            size = "" if found is None else f"; MDE (80% power): {score_text(found)}"
            yield epsilon, _first(rows) + size
        if low := [row.label for row in rows if row.not_above]:
            which = (
                "no row is" if len(low) == len(rows) else f"{names_text(low)} {'is' if len(low) == 1 else 'are'} not"
            )
            yield epsilon, f"{which} significantly above {PUBLIC}, which reads no private record"


def _first(rows: Sequence[Row]) -> str:
    """Who may be the best, in words."""
    first = [row.label for row in rows if row.rank is not None and row.rank.first]
    if len(first) == 1:
        return f"{first[0]} is first"
    if len(first) == len(rows):
        every = "both" if len(rows) == 2 else f"all {len(rows)}"
        return f"{every} rows are tied with the best (95%): {named(first)}"
    return f"tied with the best (95%): {names_text(first)}"
