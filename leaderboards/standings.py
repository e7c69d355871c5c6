"""Standings: the rows of one task, and of all tasks together, from results that may be compared.

Recovery is (score - zero-shot) / (real demonstrations - zero-shot), each a mean over the same seeds, on the same task
and model: 0% is what the model does without any record, 100% what it does with real ones and no privacy.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from harness.evaluation.statistics import seeds_documents_interval
from harness.results import Result
from leaderboards.groups import Group
from leaderboards.text import epsilon_text, seeds_text

ZERO_SHOT = "zero_shot"
REAL_DATA = "real_demonstrations"
#: Below this gain of real demonstrations over zero-shot a recovery would be mostly noise, and is not given.
MINIMUM_GAIN = 0.05

BySeed = Mapping[int, Result]


@dataclass(frozen=True)
class Row:
    """One mechanism at one epsilon on one task, over its seeds.

    epsilon: the target that was asked for (0 and infinity are the two ends). claimed, proved: the largest over seeds.
    score, low, high: mean of the main metric and its 95% interval over seeds and documents, all in [0, 1].
    recovery: None when it is not defined, and then recovery_note says why. unranked: why the row has no rank, or "".
    """

    label: str
    mechanism: str
    task: str
    mode: str
    epsilon: float
    claimed: float | None
    proved: float
    queries: int | None
    score: float
    low: float
    high: float
    recovery: float | None
    recovery_note: str
    unranked: str
    results: tuple[Result, ...] = field(repr=False)

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(result.cell.seed for result in self.results)

    @property
    def is_end(self) -> bool:
        """Whether this is zero-shot or real demonstrations, the two ends of the scale."""
        return self.mechanism in (ZERO_SHOT, REAL_DATA)

    @property
    def title(self) -> str:
        return f"{self.label} at ε = {epsilon_text(self.epsilon)}"


@dataclass(frozen=True)
class Missing:
    """An end of the scale that has no result, for some seeds or for all, and the command that makes it."""

    what: str
    command: str


@dataclass(frozen=True)
class TaskTable:
    """All rows of one task. ``rows`` are proved and may be ranked; ``paper`` are as the authors account for them."""

    task: str
    metric: str
    documents: int
    zero_shot: Row | None
    real_data: Row | None
    rows: tuple[Row, ...]
    paper: tuple[Row, ...]
    missing: tuple[Missing, ...]

    @property
    def in_order(self) -> tuple[Row, ...]:
        """Zero-shot, the mechanisms by epsilon and falling score, real demonstrations."""
        ends = [(self.zero_shot,), self.rows, (self.real_data,)]
        return tuple(row for part in ends for row in part if row is not None)


@dataclass(frozen=True)
class Standing:
    """A mechanism at one epsilon over all common tasks; means are None where there is no common task."""

    rank: int | None
    label: str
    epsilon: float
    proved: float
    recovery: float | None
    score: float | None
    seeds: tuple[int, ...]

    @property
    def is_end(self) -> bool:
        """Whether this is zero-shot or real demonstrations."""
        return self.label in (ZERO_SHOT, REAL_DATA)


@dataclass(frozen=True)
class Overall:
    """Mean recovery over the tasks that every ranked row has; ``left_out`` says why each other task is not in."""

    tasks: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    standings: tuple[Standing, ...]


def recover(score: float, zero_shot: float, real_data: float) -> tuple[float | None, str]:
    """(recovery, "") or (None, the reason why there is none)."""
    gain = real_data - zero_shot
    if gain < MINIMUM_GAIN:
        return None, f"real demonstrations move the zero-shot score by {gain:+.3f}, less than +{MINIMUM_GAIN}"
    return (score - zero_shot) / gain, ""


def task_table(group: Group, task: str, results: Sequence[Result]) -> TaskTable:
    """The rows of one task from results of one group and one version of the task."""
    ends: dict[str, dict[int, Result]] = {ZERO_SHOT: {}, REAL_DATA: {}}
    cells: dict[tuple[str, str, float], dict[int, Result]] = defaultdict(dict)
    for result in sorted(results, key=lambda result: (result.cell.seed, str(result.created))):
        cell = result.cell
        if cell.mechanism in ends:
            ends[cell.mechanism][cell.seed] = result
        else:
            cells[cell.mode, cell.label, cell.epsilon][cell.seed] = result
    rows = [_row(by_seed, ends) for by_seed in cells.values()]
    rows.sort(key=lambda row: (row.epsilon, -row.score, row.label))
    wanted = {result.cell.seed for result in results}
    return TaskTable(
        task=task,
        metric=results[0].main_metric,
        documents=len(_documents(results[0])[0]),
        zero_shot=_row(ends[ZERO_SHOT], ends) if ends[ZERO_SHOT] else None,
        real_data=_row(ends[REAL_DATA], ends) if ends[REAL_DATA] else None,
        rows=tuple(row for row in rows if row.mode == "proved"),
        paper=tuple(row for row in rows if row.mode != "proved"),
        missing=tuple(_missing(group, task, ends, wanted)),
    )


def overall(tables: Sequence[TaskTable]) -> Overall | None:
    """The ranking over all tasks, or None when nothing can be ranked."""
    rows: dict[tuple[float, str], dict[str, Row]] = defaultdict(dict)
    for table in tables:
        for row in table.rows:
            if not row.unranked:
                rows[row.epsilon, row.label][table.task] = row
    if not rows:
        return None
    common, left_out = [], []
    for table in tables:
        reasons = [_absence(own.get(table.task), *pair) for pair, own in sorted(rows.items())]
        found = [reason for reason in reasons if reason]
        if found:
            left_out.append((table.task, found[0] + (f" (and {len(found) - 1} more)" if len(found) > 1 else "")))
        else:
            common.append(table.task)
    ranked = _ranked([_standing(epsilon, label, own, common) for (epsilon, label), own in rows.items()])
    zero_shot = {table.task: table.zero_shot for table in tables if table.zero_shot}
    real_data = {table.task: table.real_data for table in tables if table.real_data}
    first = [_standing(0.0, ZERO_SHOT, zero_shot, common)] if zero_shot else []
    last = [_standing(math.inf, REAL_DATA, real_data, common)] if real_data else []
    return Overall(tuple(common), tuple(left_out), tuple(first + ranked + last))


def _standing(epsilon: float, label: str, rows: Mapping[str, Row], common: Sequence[str]) -> Standing:
    """Means over the common tasks, where every row has a recovery; the rank comes later."""
    own = [rows[task] for task in common]
    recoveries = [row.recovery for row in own if row.recovery is not None]
    return Standing(
        rank=None,
        label=label,
        epsilon=epsilon,
        proved=max(row.proved for row in rows.values()),
        recovery=fmean(recoveries) if recoveries else None,
        score=fmean(row.score for row in own) if own else None,
        seeds=tuple(sorted({seed for row in rows.values() for seed in row.seeds})),
    )


def _ranked(standings: list[Standing]) -> list[Standing]:
    """Ranks within each epsilon above 0, best recovery first; equal recoveries share a rank."""
    placed = []
    for one in standings:
        rivals = [other.recovery for other in standings if other.epsilon == one.epsilon and other.recovery is not None]
        rank = None if one.recovery is None or one.epsilon == 0 else 1 + sum(rival > one.recovery for rival in rivals)
        placed.append(replace(one, rank=rank))
    return sorted(placed, key=lambda one: (one.epsilon, one.rank or 0, one.label))


def _absence(row: Row | None, epsilon: float, label: str) -> str:
    if row is None:
        return f"{label} at ε = {epsilon_text(epsilon)} has no result"
    return "" if row.recovery is not None else f"{row.title}: {row.recovery_note}"


def _row(by_seed: BySeed, ends: Mapping[str, BySeed]) -> Row:
    results = tuple(by_seed[seed] for seed in sorted(by_seed))
    first = results[0]
    low, high = seeds_documents_interval([_documents(result)[1] for result in results])
    recovery, note = _recovery(by_seed, ends)
    proved = max(_bound(result.privacy.epsilon_proved) for result in results)
    claims = [result.privacy.epsilon_claimed for result in results if result.privacy.epsilon_claimed is not None]
    return Row(
        label=first.cell.label,
        mechanism=first.cell.mechanism,
        task=first.cell.task,
        mode=first.cell.mode,
        epsilon=first.cell.epsilon,
        claimed=max(claims, default=None),
        proved=proved,
        queries=first.privacy.queries,
        score=fmean(_score(result) for result in results),
        low=low,
        high=high,
        recovery=recovery,
        recovery_note=note,
        unranked=_unranked(first, proved),
        results=results,
    )


def _unranked(result: Result, proved: float) -> str:
    cell = result.cell
    if cell.mechanism in (ZERO_SHOT, REAL_DATA):
        return "an end of the scale"
    if cell.mode != "proved":
        return "accounted as its authors do"
    if math.isinf(cell.epsilon):
        return "run without noise"
    if proved > cell.epsilon * (1 + 1e-9):
        return f"its proved ε {epsilon_text(proved)} is above the {epsilon_text(cell.epsilon)} it was run for"
    return ""


def _recovery(by_seed: BySeed, ends: Mapping[str, BySeed]) -> tuple[float | None, str]:
    """Recovery over the row's own seeds; both ends must have every one of them."""
    for name in (ZERO_SHOT, REAL_DATA):
        lacking = by_seed.keys() - ends[name].keys()
        if lacking:
            return None, f"{name} has no result for seed {seeds_text(lacking)}"
    return recover(
        *(fmean(_score(part[seed]) for seed in by_seed) for part in (by_seed, ends[ZERO_SHOT], ends[REAL_DATA]))
    )


def _missing(group: Group, task: str, ends: Mapping[str, BySeed], wanted: set[int]) -> Iterable[Missing]:
    for name, symbol in ((ZERO_SHOT, "ε = 0"), (REAL_DATA, "ε = ∞")):
        lacking = wanted - ends[name].keys()
        if lacking:
            seeds = "seed" if len(lacking) == 1 else "seeds"
            yield Missing(f"{name} ({symbol}) on {task}, {seeds} {seeds_text(lacking)}", group.run_command(task, name))


def _score(result: Result) -> float:
    return float(result.scores[result.main_metric].value)


def _documents(result: Result) -> tuple[tuple[str, ...], list[float]]:
    """Ids and outcomes of the main metric, in the order of the ids."""
    documents = result.documents[result.main_metric]
    pairs = sorted(zip(documents.ids, documents.outcomes, strict=True))
    return tuple(name for name, _ in pairs), [float(outcome) for _, outcome in pairs]


def _bound(epsilon: float | None) -> float:
    return math.inf if epsilon is None else float(epsilon)
