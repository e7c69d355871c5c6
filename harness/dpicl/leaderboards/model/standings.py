"""Standings: the rows of one task, and rankings over several tasks, from results that may be compared."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean

from dpicl.core.messages import count, epsilon_text, named, names_text
from dpicl.evaluation.statistics import MARGIN, RankSets
from dpicl.leaderboards.model.comparability import BASELINES, Group
from dpicl.leaderboards.model.marks import BY_EMBEDDINGS, FIXED_DRAW, signs
from dpicl.leaderboards.model.metrics import task_kind
from dpicl.leaderboards.model.rows import (
    REAL_DATA,
    ZERO_SHOT,
    BySeed,
    Rank,
    Row,
    make_row,
    name_of,
    outcomes_of,
    title_of,
)
from dpicl.leaderboards.model.submissions import Submission
from dpicl.leaderboards.model.text import gathered, recovery_text, seeds_text
from dpicl.plan.headroom import Headroom
from dpicl.results.schema import Result

#: What rows share that are ranked together: ε, and Q (on each task of a ranking, each once).
Level = tuple[float, tuple[int | None, ...]]


@dataclass(frozen=True)
class Missing:
    """A reference baseline without a result, for some seeds or for all, and the command that makes it."""

    what: str
    command: str


@dataclass(eq=False)
class TaskTable:
    """All rows of one task. ``rows`` are proved and may be ranked; ``paper`` are as the authors account for them.

    headroom: by metric; empty where an end of it has no result. margin: of equivalence. detectable: ε -> the true
    difference of two rows that this table finds with probability .8. families: rows that were compared together, by
    `Row.key`. beside_ends: ε -> its ranked rows, controls and reference baselines, compared together.
    """

    task: str
    metric: str
    documents: int
    zero_shot: Row | None
    real_data: Row | None
    rows: tuple[Row, ...]
    paper: tuple[Row, ...]
    missing: tuple[Missing, ...]
    headroom: Mapping[str, Headroom] = field(default_factory=dict)
    margin: float = MARGIN
    detectable: dict[float, float] = field(default_factory=dict)
    families: tuple[RankSets, ...] = field(default=(), repr=False)
    beside_ends: Mapping[float, RankSets] = field(default_factory=dict, repr=False)

    @property
    def ranks_nobody(self) -> bool:
        """Whether the task does not reward private data with this model."""
        found = self.headroom.get(self.metric)
        return found is not None and not found.rewards

    @cached_property
    def levels(self) -> Mapping[Level, list[Row]]:
        """ε above 0 and Q -> the rows that are compared with each other."""
        found: dict[Level, list[Row]] = defaultdict(list)
        for row in self.rows:
            if not row.unranked and row.epsilon > 0:
                found[row.epsilon, (row.queries,)].append(row)
        return found

    @property
    def controls(self) -> list[Row]:
        """Those that read no record, besides zero-shot."""
        return [row for row in self.rows if row.epsilon == 0 and not row.unranked]

    @property
    def without_records(self) -> list[Row]:
        """Zero-shot and the controls: what a private method must be better than."""
        return [*([] if self.zero_shot is None else [self.zero_shot]), *self.controls]

    @property
    def not_compared(self) -> list[Row]:
        """Controls at ε = 0 of which all seeds share one draw: what it did cannot be told from what they do."""
        return [row for row in self.rows if row.epsilon == 0 and FIXED_DRAW in row.marks]

    @cached_property
    def in_order(self) -> tuple[Row, ...]:
        """Zero-shot, the mechanisms by epsilon and falling score, real demonstrations."""
        return tuple(row for row in (self.zero_shot, *self.rows, self.real_data) if row is not None)

    @cached_property
    def all_rows(self) -> tuple[Row, ...]:
        """Those in order, then those of paper accounting."""
        return (*self.in_order, *self.paper)

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
            (name, reason, f"{number} of {count(len(rows), 'row')}") for (name, reason), number in found.items()
        )


@dataclass
class Standing:
    """A mechanism at one epsilon over all common tasks. recovery: its mean, None where there is no common task.

    proved: the largest over all of its tasks. seeds: those behind the mean (without one: all). signs: of its marks.
    rank: its rank set by mean recovery. queries: Q on these tasks, each once.
    """

    label: str
    epsilon: float
    proved: float
    recovery: float | None
    seeds: tuple[int, ...]
    submitted: bool = False
    signs: str = ""
    rank: Rank | None = None
    queries: tuple[int | None, ...] = (None,)

    @property
    def name(self) -> str:
        """The label, with Q where its ε covers so many queries alone."""
        known = [name_of("", one).strip(" ()") for one in self.queries if one is not None]
        return f"{self.label} ({names_text(known)})" if known else self.label

    @property
    def is_baseline(self) -> bool:
        return self.label in BASELINES

    @property
    def key(self) -> tuple[str, float]:
        """What names it within its ranking."""
        return self.label, self.epsilon

    @property
    def prompts(self) -> bool:
        """Whether its answers come from the board's language model."""
        return BY_EMBEDDINGS.sign not in self.signs

    @property
    def worth(self) -> float:
        """The larger, the better."""
        return self.recovery or 0.0

    @property
    def number(self) -> str:
        """What it is ranked by, in words."""
        return recovery_text(self.recovery)


@dataclass(eq=False)
class Ranking:
    """Mean recovery over the tasks on which every row of it has one; ``left_out`` says why each other task is not in.

    kind: the kind of task that it is about, "" for all of them. total: how many tasks of this kind have a table.
    families: standings that were compared together, by (label, ε): differences are of mean recovery. beside_ends: ε ->
    its standings and those without records, compared together. not_compared: of controls with one draw for all seeds.
    """

    kind: str
    total: int
    tasks: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    standings: tuple[Standing, ...]
    families: tuple[RankSets, ...] = field(default=(), repr=False)
    beside_ends: Mapping[float, RankSets] = field(default_factory=dict, repr=False)
    not_compared: tuple[Standing, ...] = ()

    @cached_property
    def levels(self) -> Mapping[Level, list[Standing]]:
        """ε and Q -> the standings with a recovery, which are compared with each other."""
        found: dict[Level, list[Standing]] = defaultdict(list)
        for one in self.standings:
            if 0 < one.epsilon < math.inf and one.recovery is not None:
                found[one.epsilon, one.queries].append(one)
        return found

    @property
    def controls(self) -> list[Standing]:
        """Those that read no record, besides zero-shot."""
        return [one for one in self.standings if one.epsilon == 0 and not one.is_baseline]

    @property
    def without_records(self) -> list[Standing]:
        """Zero-shot and the controls that have a mean: what a private method must be better than."""
        return [one for one in self.standings if one.epsilon == 0 and one.recovery is not None]

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


def task_table(
    group: Group, task: str, results: Sequence[Result], owners: Mapping[str, Submission], margin: float
) -> TaskTable:
    """The rows of one task from results of one group and one version of the task. owners: label -> submission."""
    baselines: dict[str, dict[int, Result]] = {ZERO_SHOT: {}, REAL_DATA: {}}
    whole = _whole_records(results)
    cells: dict[tuple[str, str, float], dict[int, Result]] = defaultdict(dict)
    for result in sorted(results, key=lambda result: (result.cell.seed, str(result.created))):
        cell = result.cell
        if cell.mechanism == ZERO_SHOT or (cell.mechanism == REAL_DATA and cell.label == whole):
            baselines[cell.mechanism][cell.seed] = result
        else:
            cells[cell.mode, cell.label, cell.epsilon][cell.seed] = result
    by_seeds = sorted(cells.items(), key=lambda cell: len(cell[1]))  # rows of as many seeds share their resamples
    rows = [make_row(own, baselines, owners.get(label)) for (_, label, _), own in by_seeds]
    rows.sort(key=lambda row: (row.epsilon, -row.worth, row.label))
    ends = {name: make_row(own, baselines) for name, own in baselines.items() if own}
    return TaskTable(
        task=task,
        metric=results[0].main_metric,
        documents=len(outcomes_of(results[0])[0]),
        zero_shot=ends.get(ZERO_SHOT),
        real_data=ends.get(REAL_DATA),
        rows=tuple(row for row in rows if row.mode == "proved"),
        paper=tuple(row for row in rows if row.mode != "proved"),
        missing=tuple(_missing(group, task, baselines, results)),
        margin=margin,
    )


def _whole_records(results: Sequence[Result]) -> str:
    """The label of the real demonstrations that recovery is measured by: those that are not cut to matched length."""
    own = {one.cell.label: one.cell for one in results if one.cell.mechanism == REAL_DATA}
    return min(own, key=lambda label: (own[label].options.get("matched_tokens") is not None, label), default="")


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
        if reason := "nobody is ranked there" if table.ranks_nobody else reason:
            left_out.append((table.task, reason))
        else:
            common.append(table.task)
    ranked = _in_order([_standing(epsilon, label, own, common) for (epsilon, label), own in rows.items()])
    zero_shot = {table.task: table.zero_shot for table in tables if table.zero_shot}
    real_data = {table.task: table.real_data for table in tables if table.real_data}
    first = [_standing(0.0, ZERO_SHOT, zero_shot, common)] if zero_shot else []
    last = [_standing(math.inf, REAL_DATA, real_data, common)] if real_data else []
    standings = tuple(first + ranked + last)
    apart: dict[str, dict[str, Row]] = defaultdict(dict)
    for table in tables:
        for row in table.not_compared:
            apart[row.label][table.task] = row
    own = [_standing(0.0, label, own, common) for label, own in apart.items()]
    not_compared = tuple(one for one in own if one.recovery is not None)
    return Ranking(kind, len(tables), tuple(common), tuple(left_out), standings, not_compared=not_compared)


def _standing(epsilon: float, label: str, rows: Mapping[str, Row], common: Sequence[str]) -> Standing:
    """The mean over the common tasks, where the row has a recovery on each of them; rank sets come later."""
    whole = all(task in rows and (rows[task].is_baseline or rows[task].recovery is not None) for task in common)
    own = [rows[task] for task in common] if whole else []
    recoveries = [row.recovery for row in own if row.recovery is not None]
    return Standing(
        label=label,
        epsilon=epsilon,
        proved=max(row.proved for row in rows.values()),
        recovery=fmean(recoveries) if own and len(recoveries) == len(own) else None,
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
    found = {title_of(label, epsilon): row for (epsilon, label), row in rows.items()}
    without = [title for title, row in found.items() if row is None]
    reasons = gathered((row.recovery_note, title) for title, row in found.items() if row and row.recovery is None)
    absent = [f"without a result: {named(without)}"] if without else []
    return "; ".join([*absent, *(reason.removesuffix(".") for reason in reasons)])


#: The reference baselines of a table -> their ε.
_BASELINES = {ZERO_SHOT: 0.0, REAL_DATA: math.inf}


def _missing(group: Group, task: str, baselines: Mapping[str, BySeed], results: Sequence[Result]) -> Iterable[Missing]:
    for name, epsilon in _BASELINES.items():
        if lacking := {result.cell.seed for result in results} - baselines[name].keys():
            seeds = f"{'seed' if len(lacking) == 1 else 'seeds'} {seeds_text(lacking)}"
            what = f"{name} (ε = {epsilon_text(epsilon)}) on {task}, {seeds}"
            yield Missing(what, group.run_command(task, name))
