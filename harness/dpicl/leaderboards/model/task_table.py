"""Tables of one task, built from comparable results."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean

from dpicl.core.messages import count, score_text
from dpicl.evaluation.statistics import MARGIN, RankSets
from dpicl.leaderboards.model.comparability import Group
from dpicl.leaderboards.model.marks import FIXED_DRAW, OWN_READER
from dpicl.leaderboards.model.rows import REAL_DATA, ZERO_SHOT, BySeed, Ends, Row, make_row, outcomes_of, score_of
from dpicl.leaderboards.model.submissions import Submission
from dpicl.leaderboards.model.text import metrics_text, seeds_text
from dpicl.plan.headroom import Headroom
from dpicl.results.schema import Result

#: What rows share that are ranked together: ε, and Q.
Level = tuple[float, int | None]


@dataclass(eq=False)
class TaskTable:
    """All rows of one task. ``rows``: those of mechanisms. missing: 'what' (a reference baseline without a result, for
    some seeds or for all) and the 'command' that makes it.

    reader: who reads what was released, for the main metric.
    headroom: by metric; empty where an end of it has no result. margin: of equivalence. detectable: ε -> the true
    difference of two rows that this table finds with probability .8. unranked_levels: ε -> why nobody is ranked there,
    but for missing headroom; the end of a sentence. families: rows that were compared together, by `Row.key`.
    beside_ends: ε -> its ranked rows, controls and reference baselines, compared together.
    """

    task: str
    metric: str
    documents: int
    zero_shot: Row | None
    real_data: Row | None
    rows: tuple[Row, ...]
    missing: tuple[Mapping[str, str], ...]
    reader: str
    headroom: Mapping[str, Headroom] = field(default_factory=dict)
    margin: float = MARGIN
    detectable: dict[float, float] = field(default_factory=dict)
    unranked_levels: dict[float, str] = field(default_factory=dict)
    families: list[RankSets] = field(default_factory=list, repr=False)
    beside_ends: dict[float, RankSets] = field(default_factory=dict, repr=False)

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
                found[row.epsilon, row.queries].append(row)
        return found

    @property
    def has_one_test_set(self) -> bool:
        """Whether all seeds read the same test records."""
        results = [result for row in self.in_order for result in row.results]
        return len({outcomes_of(result)[0] for result in results}) == 1 and not results[0].cell.fresh_test_records

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

    def list_own_readers(self, epsilon: float) -> list[Row]:
        """The rows at an ε, and at 0, that use the embedding model by which the metric reads, best first."""
        rows = (row for row in self.rows if row.epsilon in (0, epsilon) and OWN_READER in row.marks)
        return sorted(rows, key=lambda row: -row.worth)

    def describe_metrics(self, names: Iterable[str] = ()) -> str:
        """Metrics (none: the main one) and who reads what was released for them, in words."""
        first = self.in_order[0].results[0] if self.in_order else None
        others = [(name, first.reader_of(name)) for name in names] if first is not None else []
        return metrics_text(others or [(self.metric, self.reader)])

    @cached_property
    def in_order(self) -> tuple[Row, ...]:
        """Zero-shot, the mechanisms by epsilon and falling score, real demonstrations."""
        return tuple(row for row in (self.zero_shot, *self.rows, self.real_data) if row is not None)

    def lower_is_better(self, metric: str) -> bool:
        """Whether a lower value of a metric is the better one; rows of a table agree on their main metric."""
        rows = self.in_order
        return next((row.lower_is_better(metric) for row in rows if metric in row.numbers), False)

    @cached_property
    def other_metrics(self) -> tuple[str, ...]:
        """Metrics and aggregates beside the main metric; none where there is only one, which the details show."""
        names = dict.fromkeys(name for row in self.in_order for name in row.numbers)
        others = tuple(name for name in names if name != self.metric)
        return others if len(others) > 1 else ()

    @property
    def skipped(self) -> tuple[tuple[str, str, str], ...]:
        """(metric, why it was not computed, in how many rows: '3 of 11 rows'), each once."""
        rows = self.in_order
        found = Counter(pair for row in rows for pair in row.skipped.items())
        return tuple(
            (name, reason, f"{number} of {count(len(rows), 'row')}") for (name, reason), number in found.items()
        )


def task_table(
    group: Group, task: str, results: Sequence[Result], owners: Mapping[str, Submission], margin: float
) -> TaskTable:
    """The rows of one task from results of one group and one version of the task. owners: label -> submission."""
    baselines: dict[str, dict[int, Result]] = {ZERO_SHOT: {}, REAL_DATA: {}}
    whole = _whole_records(results)
    cells: dict[tuple[str, float], dict[int, Result]] = defaultdict(dict)
    for result in sorted(results, key=lambda result: (result.cell.seed, str(result.created))):
        cell = result.cell
        if cell.mechanism == ZERO_SHOT or (cell.mechanism == REAL_DATA and cell.label == whole):
            baselines[cell.mechanism][cell.seed] = result
        else:
            cells[cell.label, cell.epsilon][cell.seed] = result
    both = _find_ends(baselines, cells)
    rows = [make_row(own, both, owners.get(label)) for (label, _), own in cells.items()]
    rows.sort(key=lambda row: (row.epsilon, -row.worth, row.label))
    ends = {name: make_row(own, both) for name, own in baselines.items() if own}
    for row in rows:
        row.beaten_by = _name_control_above(row, [*ends.values(), *rows])
    return TaskTable(
        task=task,
        metric=results[0].main_metric,
        documents=len(outcomes_of(results[0])[0]),
        zero_shot=ends.get(ZERO_SHOT),
        real_data=ends.get(REAL_DATA),
        rows=tuple(rows),
        missing=tuple(_find_missing(group, task, baselines, results)),
        reader=results[0].reader_of(results[0].main_metric),
        margin=margin,
    )


def _find_ends(baselines: Mapping[str, BySeed], cells: Mapping[tuple[str, float], BySeed]) -> Ends:
    """What recoveries are measured between: the best control without records, by its mean score, and real
    demonstrations. A control counts that has every seed of zero-shot, so that all rows are measured from one."""
    zero_shot, real_data = baselines[ZERO_SHOT], baselines[REAL_DATA]
    name, best = ZERO_SHOT, zero_shot
    for (label, epsilon), by_seed in cells.items():
        if epsilon == 0 and zero_shot and by_seed.keys() >= zero_shot.keys() and _worth(by_seed) > _worth(best):
            name, best = label, by_seed
    return Ends(zero_shot, best, real_data, name)


def _worth(by_seed: BySeed) -> float:
    """The mean score, negative where less is better."""
    first = next(iter(by_seed.values()))
    mean = fmean(map(score_of, by_seed.values()))
    return -mean if first.lower_is_better(first.main_metric) else mean


def _name_control_above(row: Row, rows: Iterable[Row]) -> str:
    """The highest control above a row's score, with its own: without records, or with them at the same ε; "" for none,
    and for a row that reads no record."""
    controls = [one for one in rows if one.epsilon == 0 or (one.is_control and one.epsilon == row.epsilon)]
    highest = max(controls, key=lambda one: one.worth, default=row)
    if row.epsilon == 0 or highest.worth <= row.worth:
        return ""
    return f"{highest.caveat} ({score_text(highest.score)})"


def _whole_records(results: Sequence[Result]) -> str:
    """The label of the real demonstrations that recovery is measured by: those that are not cut to matched length."""
    own = {one.cell.label: one.cell for one in results if one.cell.mechanism == REAL_DATA}
    return min(own, key=lambda label: (own[label].options.get("matched_tokens") is not None, label), default="")


def _find_missing(
    group: Group, task: str, baselines: Mapping[str, BySeed], results: Sequence[Result]
) -> Iterable[Mapping[str, str]]:
    for name, own in baselines.items():
        if lacking := {result.cell.seed for result in results} - own.keys():
            seeds = f"{'seed' if len(lacking) == 1 else 'seeds'} {seeds_text(lacking)}"
            yield {"what": f"{name} on {task}, {seeds}", "command": group.run_command(task, name)}
