"""Measures headroom: the gain of real demonstrations over those that the model writes from the public prompt, with the
same reader, length and shots. Without headroom no private method can be distinguished from one that reads no record, so
it is measured first (`baseline_seeds` of a suite), and a table whose interval includes 0 ranks no row.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpicl.core.grouping import group_by
from dpicl.core.messages import score_text, signed_text
from dpicl.data.config import load_config, task_folders
from dpicl.evaluation.intervals import seeds_interval
from dpicl.plan.suite_rows import HEADROOM_MECHANISMS
from dpicl.results.schema import Result
from dpicl.tables.document import Column

#: The two ends: public demonstrations (ε = 0) and real ones (ε = ∞); then the other rows at ε = 0.
PUBLIC, REAL, *_OTHERS = HEADROOM_MECHANISMS
ZERO_SHOT = _OTHERS[0]


#: A result of a row that sees no private record, and one of real demonstrations at the same seed.
Pair = tuple[Result, Result]


@dataclass(frozen=True)
class Gain:
    """What real demonstrations gain over a row: the mean difference and its 95% interval inside [-1, 1]."""

    over: str
    gain: float
    low: float
    high: float


@dataclass(frozen=True)
class Headroom:
    """Of one metric on one task with one model.

    public, real: mean scores over the same seeds and test records. gain: real - public, or the other way where lower is
    better; low, high: its 95% interval inside [-1, 1], Student's over seeds (of one seed: all of it). development:
    whether it was measured on seeds and test records of its own; else on those of the rows. real_row, public_row: the
    rows that it is the difference of: real demonstrations of matched length, where a
    suite has them. others: over the other rows that see no private record, where they have the same seeds.
    """

    task: str
    model: str
    source: str
    metric: str
    shots: int
    public: float
    real: float
    gain: float
    low: float
    high: float
    seeds: tuple[int, ...]
    documents: int
    development: bool
    public_row: str
    real_row: str
    others: tuple[Gain, ...] = ()

    @property
    def rewards(self) -> bool:
        """Whether the task rewards private data with this model."""
        return self.low > 0

    @property
    def ends_text(self) -> str:
        return f"{score_text(self.public)} → {score_text(self.real)}"

    @property
    def gain_text(self) -> str:
        return gain_text(self)

    @property
    def sizes_text(self) -> str:
        return f"{len(self.seeds)} × {self.documents}{', development' * self.development}"

    @property
    def others_text(self) -> str:
        return "; ".join(f"{gain.over} {gain_text(gain)}" for gain in self.others)


def measure_headroom(results: Iterable[Result]) -> dict[str, Headroom]:
    """Metric -> headroom, of results of one task and model that may be compared; the main metric first.

    Those of `baseline_seeds` where both ends have one, else those of the rows' own seeds. Empty where an end has no
    result at a seed of the other.
    """
    results = list(results)
    for development in (True, False):
        group = [result for result in results if result.cell.development is development]
        public, real = _end(group, PUBLIC, 0.0), _end(group, REAL, math.inf)
        if not public and group and _is_text_task(group[0].cell.task):
            # which releases the texts of the public prompt there
            public = _end(group, ZERO_SHOT, 0.0)
        if seeds := sorted(public.keys() & real.keys()):
            pairs = [(public[seed], real[seed]) for seed in seeds]
            first = pairs[0][0]
            metrics = [
                first.main_metric,
                *(name for name in first.scores if name != first.main_metric),
            ]
            others = {
                name: _end(group, name, 0.0) for name in _OTHERS if name != first.cell.mechanism
            }
            pairs_of = {
                name: [(ends[seed], real[seed]) for seed in seeds]
                for name, ends in others.items()
                if ends.keys() >= {*seeds}
            }
            measured = (_headroom(metric, pairs, pairs_of) for metric in metrics)
            return {one.metric: one for one in measured if one is not None}
    return {}


def headrooms(results: Iterable[Result]) -> list[Headroom]:
    """Of every task and model, source of records and number of shots, all metrics, in the order of the results."""
    conditions = ("task", "task_version", "model", "source", "shots")
    groups = group_by(results, *(f"cell.{name}" for name in conditions))
    return [one for group in groups.values() for one in measure_headroom(group).values()]


def _is_text_task(task: str) -> bool:
    """Whether released texts themselves are scored."""
    return task in task_folders() and load_config(task).metadata.kind == "json"


def _end(
    results: Sequence[Result],
    mechanism: str,
    epsilon: float,
) -> Mapping[int, Result]:
    """Seed -> result of the row of a mechanism: of matched length where there is one, else the one named like it."""
    rows: dict[str, dict[int, Result]] = defaultdict(dict)
    for result in results:
        if result.cell.mechanism == mechanism and result.cell.epsilon == epsilon:
            rows[result.cell.label][result.cell.seed] = result

    def place(label: str) -> tuple[bool, bool, str]:
        matched = next(iter(rows[label].values())).cell.options.get("matched_tokens")
        return matched is None, label != mechanism, label

    return rows[min(rows, key=place)] if rows else {}


def _headroom(
    metric: str,
    pairs: Sequence[Pair],
    others: Mapping[str, Sequence[Pair]],
) -> Headroom | None:
    """None where a result lacks the metric, or fewer than two test records are shared."""
    if (ends_of_metric := _outcomes(metric, pairs)) is None:
        return None
    public, real = ends_of_metric
    first, last = pairs[0]
    against = {name: _outcomes(metric, other_pairs) for name, other_pairs in others.items()}
    lower = first.lower_is_better(metric)
    gain = _gain(first.cell.label, *ends_of_metric, lower)
    return Headroom(
        task=first.cell.task,
        model=first.cell.model,
        source=first.cell.source,
        metric=metric,
        shots=first.cell.shots,
        public=float(public.mean()),
        real=float(real.mean()),
        gain=gain.gain,
        low=gain.low,
        high=gain.high,
        seeds=tuple(pair[0].cell.seed for pair in pairs),
        documents=public.shape[1],
        development=first.cell.development,
        public_row=first.cell.label,
        real_row=last.cell.label,
        others=tuple(
            _gain(name, *ends, lower) for name, ends in against.items() if ends is not None
        ),
    )


def _outcomes(
    metric: str,
    pairs: Sequence[Pair],
) -> tuple[np.ndarray, np.ndarray] | None:
    """Public and real scores, float64[seeds, test records] each, over the test records that all results share, or both
    results of a seed where each draws its own."""
    if any(metric not in result.documents for pair in pairs for result in pair):
        return None
    scores = [[result.documents[metric].by_id for result in pair] for pair in pairs]
    shared = [set.intersection(*map(set, pair)) for pair in scores]
    if not pairs[0][0].cell.fresh_test_records:
        shared = [set.intersection(*shared)] * len(pairs)
    if min(map(len, shared)) < 2 or len(set(map(len, shared))) > 1:
        return None
    ends = [
        [[by_id[name] for name in sorted(names)] for by_id in pair]
        for pair, names in zip(scores, shared, strict=True)
    ]
    public, real = np.array(ends).transpose(1, 0, 2)
    return public, real


def _gain(
    over: str,
    public: np.ndarray,
    real: np.ndarray,
    lower_is_better: bool,
) -> Gain:
    differences = public - real if lower_is_better else real - public
    low, high = seeds_interval(differences.mean(axis=1))
    return Gain(
        over,
        float(differences.mean()),
        max(low, -1.0),
        min(high, 1.0),
    )


HEADROOM_COLUMNS = (
    Column("shots", "shots"),
    Column("ends", "public → real", "ends_text"),
    Column("gain", "headroom (95%)", "gain_text"),
    Column("sizes", "seeds × records", "sizes_text"),
    Column("others", "gain over other controls (95%)", "others_text", wide=True),
)


def headroom_columns(of: Callable[[Any], Headroom | None]) -> tuple[Column, ...]:
    """Shots, both ends, the gain, its sample and what is gained over other controls. of: item of the table -> its
    headroom; None where an end of it has no result."""

    def of_item(column: Column) -> Column:
        return replace(column, of=lambda item: column.value(of(item)))

    return tuple(map(of_item, HEADROOM_COLUMNS))


def gain_text(one: Gain | Headroom) -> str:
    return f"{signed_text(one.gain)} ({signed_text(one.low)} to {signed_text(one.high)})"
