"""Tables of one task, built from comparable results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from statistics import fmean

from dpicl.core.grouping import group_by
from dpicl.core.messages import count, score_text
from dpicl.evaluation.statistics import MARGIN, RankSets
from dpicl.leaderboards.model.comparability import READER, Group, values_of
from dpicl.leaderboards.model.marks import FIXED_DRAW, OWN_READER
from dpicl.leaderboards.model.rows import (
    REAL_DATA,
    ZERO_SHOT,
    BySeed,
    Ends,
    Row,
    by_worth,
    make_row,
    outcomes_of,
)
from dpicl.leaderboards.model.submissions import Submission
from dpicl.leaderboards.model.text import metrics_text, seeds_text
from dpicl.plan.headroom import Headroom, measure_headroom
from dpicl.results.schema import Result

#: How a reason begins why a level has no rank.
NOBODY = "nobody is ranked"


@dataclass(eq=False)
class TaskTable:
    """All rows of one task. ``rows``: those of mechanisms. missing: 'what' (a reference baseline without a result, for
    some seeds or for all) and the 'command' that makes it.

    reader: who reads what was released, for the main metric.
    headroom: by metric; empty where an end of it has no result. margin: of equivalence. detectable: ε -> the true
    difference of two rows that this table finds with probability .8. unranked_levels: ε -> why nobody is ranked there,
    but for missing headroom; the end of a sentence. families: rows that were compared together, by `Row.key`.
    with_reference_rows: ε -> its ranked rows, controls and reference baselines, compared together.
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
    with_reference_rows: dict[float, RankSets] = field(default_factory=dict, repr=False)

    @property
    def ranks_nobody(self) -> bool:
        """Whether the task does not reward private data with this model."""
        headroom = self.headroom.get(self.metric)
        return headroom is not None and not headroom.rewards

    @cached_property
    def levels(self) -> Mapping[float, Mapping[int | None, list[Row]]]:
        """ε above 0 -> Q -> the rows that are compared with each other."""
        rows = [row for row in self.rows if not row.unranked and row.epsilon > 0]
        by_epsilon = group_by(rows, "epsilon")
        return {epsilon: group_by(level, "queries") for epsilon, level in by_epsilon.items()}

    @property
    def has_one_test_set(self) -> bool:
        """Whether all seeds read the same test records."""
        results = [result for row in self.in_order for result in row.results]
        if results[0].cell.fresh_test_records:
            return False
        return len({outcomes_of(result)[0] for result in results}) == 1

    @property
    def controls(self) -> list[Row]:
        """Those that read no record, besides zero-shot."""
        return [row for row in self.rows if row.epsilon == 0 and not row.unranked]

    @property
    def without_records(self) -> list[Row]:
        """Zero-shot and the controls: what a private method must be better than."""
        return [row for row in (self.zero_shot, *self.controls) if row is not None]

    @property
    def references(self) -> list[Row]:
        """The rows of no privacy level: the reference baselines and everything at ε = 0."""
        return [row for row in self.in_order if row.is_reference]

    @property
    def not_compared(self) -> list[Row]:
        """Controls at ε = 0 of which all seeds share one draw: what it did cannot be told from what they do."""
        return [row for row in self.rows if row.epsilon == 0 and FIXED_DRAW in row.marks]

    def list_own_readers(self, epsilon: float) -> list[Row]:
        """The rows at an ε, and at 0, that use the embedding model by which the metric reads, best first."""
        own_readers = (row for row in self.rows if OWN_READER in row.marks)
        return by_worth(row for row in own_readers if row.epsilon in (0, epsilon))

    def describe_metrics(self, names: Iterable[str] = ()) -> str:
        """Metrics (none: the main one) and who reads what was released for them, in words."""
        readers = [(self.metric, self.reader)]
        if self.in_order:
            first = self.in_order[0].results[0]
            readers = [(name, first.reader_of(name)) for name in names] or readers
        return metrics_text(readers)

    @cached_property
    def in_order(self) -> tuple[Row, ...]:
        """Zero-shot, the mechanisms by epsilon and falling score, real demonstrations."""
        rows = (self.zero_shot, *self.rows, self.real_data)
        return tuple(row for row in rows if row is not None)

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
        reasons = Counter(pair for row in rows for pair in row.skipped.items())
        return tuple(
            (name, reason, f"{number} of {count(len(rows), 'row')}")
            for (name, reason), number in reasons.items()
        )


def task_table(
    group: Group,
    task: str,
    results: Sequence[Result],
    owners: Mapping[str, Submission],
    margin: float,
) -> TaskTable:
    """The rows and the headroom of one task, from results of one group and one version of the task; no row where there
    is nothing but what measures headroom. owners: label -> submission."""
    of_rows = [result for result in results if not result.cell.development]
    first = (of_rows or results)[0]
    reading = values_of(first, READER)
    headroom = measure_headroom(
        result for result in results if not of_rows or values_of(result, READER) == reading
    )
    baselines: dict[str, BySeed] = {ZERO_SHOT: {}, REAL_DATA: {}}
    whole = _whole_records(of_rows)
    ordered = sorted(of_rows, key=attrgetter("cell.seed", "created"))
    cells: dict[tuple[str, float], BySeed] = {}
    for key, of_row in group_by(ordered, "cell.mechanism", "cell.label", "cell.epsilon").items():
        mechanism, label, epsilon = key
        by_seed = {result.cell.seed: result for result in of_row}
        if mechanism == ZERO_SHOT or (mechanism == REAL_DATA and label == whole):
            baselines[mechanism] = {**baselines[mechanism], **by_seed}
        else:
            cells[label, epsilon] = by_seed
    ends = _find_ends(baselines, cells)
    rows = [make_row(by_seed, ends, owners.get(label)) for (label, _), by_seed in cells.items()]
    rows.sort(key=lambda row: (row.epsilon, -row.worth, row.label))
    end_rows = {name: make_row(by_seed, ends) for name, by_seed in baselines.items() if by_seed}
    for row in rows:
        row.beaten_by = _name_control_above(row, [*end_rows.values(), *rows])
    return TaskTable(
        task=task,
        metric=first.main_metric,
        documents=len(first.documents[first.main_metric].ids) if of_rows else 0,
        zero_shot=end_rows.get(ZERO_SHOT),
        real_data=end_rows.get(REAL_DATA),
        rows=tuple(rows),
        missing=tuple(_find_missing(group, task, baselines, of_rows)),
        reader=first.reader,
        headroom=headroom,
        margin=margin,
    )


def _find_ends(baselines: Mapping[str, BySeed], cells: Mapping[tuple[str, float], BySeed]) -> Ends:
    """What recoveries are measured between: the best control without records, by its mean score, and real
    demonstrations. A control counts that has every seed of zero-shot, so that all rows are measured from one."""
    zero_shot, real_data = baselines[ZERO_SHOT], baselines[REAL_DATA]
    name, best = ZERO_SHOT, zero_shot
    for (label, epsilon), by_seed in cells.items():
        if epsilon > 0 or not zero_shot or not zero_shot.keys() <= by_seed.keys():
            continue
        if _mean_worth(by_seed) > _mean_worth(best):
            name, best = label, by_seed
    return Ends(zero_shot, best, real_data, name)


def _mean_worth(by_seed: BySeed) -> float:
    return fmean(result.worth for result in by_seed.values())


def _name_control_above(row: Row, rows: Iterable[Row]) -> str:
    """The highest control above a row's score, with its own: without records, or with them at the same ε; "" for none,
    and for a row that reads no record."""
    controls = [control for control in rows if control.epsilon == 0]
    controls += [
        control
        for control in rows
        if control.is_control_with_records and control.epsilon == row.epsilon
    ]
    highest = max(controls, key=attrgetter("worth"), default=row)
    if row.epsilon == 0 or highest.worth <= row.worth:
        return ""
    return f"{highest.caveat} ({score_text(highest.score)})"


def _whole_records(results: Sequence[Result]) -> str:
    """The label of the real demonstrations that recovery is measured by: those that are not cut to matched length."""
    cells = [result.cell for result in results if result.cell.mechanism == REAL_DATA]
    labels = [(cell.options.get("matched_tokens") is not None, cell.label) for cell in cells]
    return min(labels, default=(False, ""))[1]


def _find_missing(
    group: Group, task: str, baselines: Mapping[str, BySeed], results: Sequence[Result]
) -> Iterable[Mapping[str, str]]:
    seeds = {result.cell.seed for result in results}
    for name, by_seed in baselines.items():
        missing = seeds - by_seed.keys()
        if missing:
            noun = "seed" if len(missing) == 1 else "seeds"
            yield {
                "what": f"{name} on {task}, {noun} {seeds_text(missing)}",
                "command": group.run_command(task, name),
            }
