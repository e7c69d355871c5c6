"""Standings: the rows of one task, and rankings over several tasks, from results that may be compared."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean

from dpicl.evaluation.statistics import MARGIN, RankSets
from dpicl.leaderboards.model.comparability import BASELINES, Group
from dpicl.leaderboards.model.marks import signs
from dpicl.leaderboards.model.metrics import task_kind
from dpicl.leaderboards.model.notes import named
from dpicl.leaderboards.model.rows import (
    REAL_DATA,
    ZERO_SHOT,
    BySeed,
    Rank,
    Row,
    make_rows,
    name_of,
    outcomes_of,
    title_of,
)
from dpicl.leaderboards.model.text import counted, epsilon_text, names_text, score_text, seeds_text, signed_text
from dpicl.plan.headroom import Headroom
from dpicl.results.schema import Result


@dataclass(frozen=True)
class Missing:
    """A reference baseline without a result, for some seeds or for all, and the command that makes it."""

    what: str
    command: str


@dataclass(frozen=True)
class TaskTable:
    """All rows of one task. ``rows`` are proved and may be ranked; ``paper`` are as the authors account for them.

    detectable: ε -> the true difference of two rows that this table finds with probability .8. said: ε -> who is
    better than whom, and than the control, in words. families: rows that were compared together, by `Row.key`.
    headroom: by metric; empty where an end of it has no result. margin: of equivalence.
    """

    task: str
    metric: str
    documents: int
    zero_shot: Row | None
    real_data: Row | None
    rows: tuple[Row, ...]
    paper: tuple[Row, ...]
    missing: tuple[Missing, ...]
    detectable: Mapping[float, float] = field(default_factory=dict)
    said: Mapping[float, tuple[str, ...]] = field(default_factory=dict)
    families: tuple[RankSets, ...] = field(default=(), repr=False, compare=False)
    headroom: Mapping[str, Headroom] = field(default_factory=dict)
    margin: float = MARGIN

    @property
    def unrewarded(self) -> str:
        """Why this table ranks nobody, as a sentence without its full stop; "" where it may."""
        found = self.headroom.get(self.metric)
        if found is None or found.rewards:
            return ""
        gain = (
            f"{signed_text(found.gain)} over public ones ({signed_text(found.low)} to {signed_text(found.high)}, 95%)"
        )
        return f"this task does not reward private data with this model: real demonstrations gain {gain}"

    @cached_property
    def in_order(self) -> tuple[Row, ...]:
        """Zero-shot, the mechanisms by epsilon and falling score, real demonstrations."""
        return tuple(row for row in (self.zero_shot, *self.rows, self.real_data) if row is not None)

    @cached_property
    def all_rows(self) -> tuple[Row, ...]:
        """Those in order, then those of paper accounting."""
        return (*self.in_order, *self.paper)

    def changed(self, change: Callable[[Row], Row]) -> TaskTable:
        """The table with every row changed."""
        zero_shot, real_data = (row and change(row) for row in (self.zero_shot, self.real_data))
        rows, paper = (tuple(map(change, rows)) for rows in (self.rows, self.paper))
        return replace(self, zero_shot=zero_shot, real_data=real_data, rows=rows, paper=paper)

    def only(
        self, labels: Collection[str] = (), epsilons: Collection[float] = (), mechanisms: Collection[str] = ()
    ) -> TaskTable:
        """The table with the rows of these labels or mechanisms (none: of all) at these ε alone (none: at all).

        The reference baselines stay, and so do the controls at ε = 0 whatever the ε."""

        def wanted(row: Row) -> bool:
            named = not (labels or mechanisms) or row.label in labels or row.mechanism in mechanisms
            return named and (not epsilons or row.epsilon in epsilons or row.epsilon == 0)

        rows, paper = (tuple(filter(wanted, part)) for part in (self.rows, self.paper))
        return replace(self, rows=rows, paper=paper)

    @property
    def absent(self) -> dict[str, float]:
        """Reference baselines that should have a row and have none -> their ε."""
        there = {ZERO_SHOT: self.zero_shot, REAL_DATA: self.real_data}
        return {name: epsilon for name, epsilon in _BASELINES.items() if there[name] is None}

    @property
    def kind(self) -> str:
        """The kind of task, by its main metric."""
        return task_kind(self.metric)

    def lower_is_better(self, metric: str) -> bool:
        """Whether a lower value of a metric is the better one; rows of a table agree on their main metric."""
        rows = self.all_rows
        return next((row.lower_is_better(metric) for row in rows if metric in row.numbers), False)

    @cached_property
    def other_metrics(self) -> tuple[str, ...]:
        """Metrics and aggregates beside the main metric; none where there is only one, which the details show."""
        names = dict.fromkeys(name for row in self.all_rows for name in row.numbers)
        others = tuple(name for name in names if name != self.metric)
        return others if len(others) > 1 else ()

    @property
    def skipped(self) -> tuple[tuple[str, str, str], ...]:
        """(metric, why it was not computed, in how many rows: '3 of 11 rows'), each once."""
        rows = self.all_rows
        found = Counter(pair for row in rows for pair in row.skipped.items())
        return tuple(
            (name, reason, f"{count} of {counted(len(rows), 'row')}") for (name, reason), count in found.items()
        )


@dataclass(frozen=True)
class Standing:
    """A mechanism at one epsilon over all common tasks; means are None where there is no common task.

    score: None too where lower is better on some of the tasks and not on others. proved: the largest over all of its
    tasks. seeds: those behind the means (without one: all). signs: of its marks. rank: its rank set by mean recovery,
    on these tasks; sample_rank: with the tasks as a sample of such tasks, None for fewer than three. queries: Q on
    these tasks, each once.
    """

    label: str
    epsilon: float
    proved: float
    recovery: float | None
    score: float | None
    seeds: tuple[int, ...]
    submitted: bool = False
    signs: str = ""
    rank: Rank | None = None
    sample_rank: Rank | None = None
    queries: tuple[int | None, ...] = (None,)

    @property
    def name(self) -> str:
        """The label, with Q where its ε covers so many queries alone."""
        known = [name_of("", one).strip(" ()") for one in self.queries if one is not None]
        return f"{self.label} ({names_text(known)})" if known else self.label

    @property
    def is_baseline(self) -> bool:
        return self.label in BASELINES


#: What rows share that are ranked together: ε, and Q (on each task of a ranking, each once).
Level = tuple[float, tuple[int | None, ...]]
#: (task, label, ε) -> a row's rank set, and the ranking in which it has it.
Places = Mapping[tuple[str, str, float], tuple[Rank, "Ranking"]]


@dataclass(frozen=True)
class Ranking:
    """Mean recovery over the tasks on which every row of it has one; ``left_out`` says why each other task is not in.

    kind: the kind of task that it is about, "" for all of them. total: how many tasks of this kind have a table.
    families: standings that were compared together, by (label, ε): differences are of mean recovery.
    """

    kind: str
    total: int
    tasks: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    standings: tuple[Standing, ...]
    families: tuple[RankSets, ...] = field(default=(), repr=False, compare=False)

    @property
    def title(self) -> str:
        """'all tasks' or 'text tasks' where every one of them counts, else '1 of 2 tasks'."""
        if len(self.tasks) == self.total:
            return f"{self.kind or 'all'} tasks"
        return f"{len(self.tasks)} of {self.total} {f'{self.kind} ' if self.kind else ''}tasks"

    @property
    def scope(self) -> str:
        """The title, with the tasks that count where they are not all."""
        return self.title if len(self.tasks) in (0, self.total) else f"{self.title}: {names_text(self.tasks)}"

    @property
    def says(self) -> str:
        """What the means are over, in words."""
        if not self.tasks:
            return "no mean recovery, since no task counts"
        return f"{'recovery on' if len(self.tasks) == 1 else 'mean recovery over'} {names_text(self.tasks)}"


def task_table(group: Group, task: str, results: Sequence[Result]) -> TaskTable:
    """The rows of one task from results of one group and one version of the task."""
    baselines: dict[str, dict[int, Result]] = {ZERO_SHOT: {}, REAL_DATA: {}}
    whole = _whole_records(results)
    cells: dict[tuple[str, str, float], dict[int, Result]] = defaultdict(dict)
    for result in sorted(results, key=lambda result: (result.cell.seed, str(result.created))):
        cell = result.cell
        if cell.mechanism == ZERO_SHOT or (cell.mechanism == REAL_DATA and cell.label == whole):
            baselines[cell.mechanism][cell.seed] = result
        else:
            cells[cell.mode, cell.label, cell.epsilon][cell.seed] = result
    made = make_rows([*cells.values(), *(own for own in baselines.values() if own)], baselines)
    rows, ends = made[: len(cells)], {row.mechanism: row for row in made[len(cells) :]}
    sign = 1 if results[0].lower_is_better(results[0].main_metric) else -1
    rows.sort(key=lambda row: (row.epsilon, sign * row.score, row.label))
    return TaskTable(
        task=task,
        metric=results[0].main_metric,
        documents=len(outcomes_of(results[0])[0]),
        zero_shot=ends.get(ZERO_SHOT),
        real_data=ends.get(REAL_DATA),
        rows=tuple(row for row in rows if row.mode == "proved"),
        paper=tuple(row for row in rows if row.mode != "proved"),
        missing=tuple(_missing(group, task, baselines, results)),
    )


def _whole_records(results: Sequence[Result]) -> str:
    """The label of the real demonstrations that recovery is measured by: those that are not cut to matched length."""
    own = {one.cell.label: one.cell for one in results if one.cell.mechanism == REAL_DATA}
    return min(own, key=lambda label: (own[label].options.get("matched_tokens") is not None, label), default="")


def recovery_notes(table: TaskTable) -> list[str]:
    """The reference baselines' scores behind recoveries over other seeds than theirs, and why rows have no recovery."""
    rows = table.all_rows
    seeds = {row.seeds for row in (table.zero_shot, table.real_data) if row is not None}
    notes: dict[str, None] = {}
    for row in rows:
        if row.is_baseline or row.recovery is None or seeds == {row.seeds}:
            continue
        if row.zero_shot is not None and row.real_data is not None:
            scores = f"0% is {ZERO_SHOT} {score_text(row.zero_shot)}, 100% {REAL_DATA} {score_text(row.real_data)}"
            notes[f"recovery over seeds {seeds_text(row.seeds)}: {scores} over these seeds."] = None
    reasons = Counter(row.recovery_note for row in rows if row.recovery_note)
    said = (f"recovery n/a in {count} of {counted(len(rows), 'row')}: {reason}." for reason, count in reasons.items())
    return [*notes, *said]


def ranks(rankings: Sequence[Ranking]) -> Places:
    """The places of proved rows, on the tasks that count."""
    return {
        (task, one.label, one.epsilon): (one.rank, ranking)
        for ranking in rankings
        for task in ranking.tasks
        for one in ranking.standings
        if one.rank is not None
    }


def has_per_query(rows: Iterable[Row]) -> bool:
    """Whether a table of these rows has the column per-query ε."""
    return any(row.epsilon_per_query is not None for row in rows)


def first_per_query(tables: Sequence[TaskTable]) -> TaskTable | None:
    """The table under which the column per-query ε is explained."""
    return next((table for table in tables if has_per_query(table.all_rows)), None)


def absent_kinds(tables: Sequence[TaskTable]) -> dict[str, list[str]]:
    """Kind of task -> labels of our ranked rows without a result on any task of it, among kinds that some row does."""
    by_kind: dict[str, set[str]] = defaultdict(set)
    for table in tables:
        by_kind[table.kind] |= {row.label for row in table.rows if not row.unranked and row.submission is None}
    everybody = set().union(*by_kind.values())
    return {kind: sorted(everybody - own) for kind, own in by_kind.items() if own and everybody - own}


def rankings(tables: Sequence[TaskTable]) -> tuple[Ranking, ...]:
    """One ranking over all tasks where every ranked row does every kind of task, else one for each kind.

    A mechanism that is made for one kind then takes nothing from the others, and nobody's mean is over other tasks than
    its rivals'. A kind without a ranked row has no ranking.
    """
    if not absent_kinds(tables):
        parts = {"": list(tables)}
    else:
        parts = {kind: [table for table in tables if table.kind == kind] for kind in sorted({t.kind for t in tables})}
    found = (_ranking(kind, own) for kind, own in parts.items())
    return tuple(ranking for ranking in found if ranking is not None)


def _ranking(kind: str, tables: Sequence[TaskTable]) -> Ranking | None:
    """The ranking over these tasks, or None when nothing can be ranked.

    Our own rows decide over which tasks the mean is; a submitted row without one of them has no rank.
    """
    rows: dict[tuple[float, str], dict[str, Row]] = defaultdict(dict)
    for table in tables:
        for row in table.rows:
            if not row.unranked:
                rows[row.epsilon, row.label][table.task] = row
    if not rows:
        return None
    common, left_out = [], []
    ours = {pair: own for pair, own in rows.items() if all(row.submission is None for row in own.values())}
    for table in tables:
        reason = _absences({pair: own.get(table.task) for pair, own in sorted((ours or rows).items())})
        if reason := "nobody is ranked there" if table.unrewarded else reason:
            left_out.append((table.task, reason))
        else:
            common.append(table.task)
    ranked = _in_order([_standing(epsilon, label, own, common) for (epsilon, label), own in rows.items()])
    zero_shot = {table.task: table.zero_shot for table in tables if table.zero_shot}
    real_data = {table.task: table.real_data for table in tables if table.real_data}
    first = [_standing(0.0, ZERO_SHOT, zero_shot, common)] if zero_shot else []
    last = [_standing(math.inf, REAL_DATA, real_data, common)] if real_data else []
    return Ranking(kind, len(tables), tuple(common), tuple(left_out), tuple(first + ranked + last))


def _standing(epsilon: float, label: str, rows: Mapping[str, Row], common: Sequence[str]) -> Standing:
    """Means over the common tasks, where the row has a recovery on each of them; rank sets come later."""
    whole = all(task in rows and (rows[task].is_baseline or rows[task].recovery is not None) for task in common)
    own = [rows[task] for task in common] if whole else []
    recoveries = [row.recovery for row in own if row.recovery is not None]
    comparable = len({row.lower_is_better(row.metric) for row in own}) == 1  # else their mean score has no direction
    return Standing(
        label=label,
        epsilon=epsilon,
        proved=max(row.proved for row in rows.values()),
        recovery=fmean(recoveries) if own and len(recoveries) == len(own) else None,
        score=fmean(row.score for row in own) if comparable else None,
        seeds=tuple(sorted({seed for row in own or rows.values() for seed in row.seeds})),
        submitted=any(row.submission is not None for row in rows.values()),
        queries=tuple(dict.fromkeys(row.queries for row in rows.values())),
        signs=signs(dict.fromkeys(mark for row in rows.values() for mark in row.marks)),
    )


def _in_order(standings: list[Standing]) -> list[Standing]:
    """By ε, best recovery first; those without one last."""

    def place(one: Standing) -> tuple[float, float, str]:
        return one.epsilon, math.inf if one.recovery is None else -one.recovery, one.label

    return sorted(standings, key=place)


def _absences(rows: Mapping[tuple[float, str], Row | None]) -> str:
    """Why a task does not count: which rows have no result or no recovery there; "" where all have one."""
    found: dict[str, list[str]] = defaultdict(list)
    for (epsilon, label), row in rows.items():
        if row is None or row.recovery is None:
            found["" if row is None else row.recovery_note].append(title_of(label, epsilon))

    def said(note: str, titles: list[str]) -> str:
        if not note:
            return f"{named(titles)} {'has' if len(titles) == 1 else 'have'} no result"
        whole = 1 < len(titles) == len(rows)
        return f"no row has a recovery there, since {note}" if whole else f"{named(titles)}: {note}"

    return "; ".join(said(note, titles) for note, titles in found.items())


#: The reference baselines of a table -> their ε.
_BASELINES = {ZERO_SHOT: 0.0, REAL_DATA: math.inf}


def _missing(group: Group, task: str, baselines: Mapping[str, BySeed], results: Sequence[Result]) -> Iterable[Missing]:
    for name, epsilon in _BASELINES.items():
        if lacking := {result.cell.seed for result in results} - baselines[name].keys():
            seeds = f"{'seed' if len(lacking) == 1 else 'seeds'} {seeds_text(lacking)}"
            what = f"{name} (ε = {epsilon_text(epsilon)}) on {task}, {seeds}"
            yield Missing(what, group.run_command(task, name))
