"""Tests the claims that a suite plans (`contrasts`): one paired difference of every claim on every task, by
Student and by flips of signs, of which the larger p-value counts, and Holm over all of a section.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpicl.core.messages import count
from dpicl.evaluation.statistics import FEWEST_SEEDS, LEVEL, TINY, PairedTest, paired_tests
from dpicl.leaderboards.model.ranks import score_rows
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.task_table import TaskTable
from dpicl.plan.suite_rows import Contrast


@dataclass(frozen=True)
class JudgedContrast:
    """A claim on one task. better, than: titles of the rows. seeds: common ones. test: of the first one's score minus
    the second's, positive where it is better; None where there is no verdict, and `reason` says why."""

    name: str
    task: str
    better: str
    than: str
    seeds: int
    test: PairedTest | None
    reason: str = ""

    @property
    def verdict(self) -> str:
        """'shown', 'the opposite is shown', 'inconclusive', or why there is none."""
        if self.test is None:
            return f"no verdict: {self.reason}"
        if self.test.adjusted > 1 - LEVEL:
            return "inconclusive"
        return "shown" if self.test.mean > 0 else "the opposite is shown"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}


def judge_contrasts(planned: Sequence[Contrast], tables: Sequence[TaskTable]) -> tuple[JudgedContrast, ...]:
    """The planned claims, in the order of the suite, on the tables that have both rows."""
    pairs = [pair for contrast in planned for pair in _find_pairs(contrast, tables)]
    reasons = [_explain(table, (one, other), differences) for _, table, one, other, differences in pairs]
    columns = [differences for (*_, differences), reason in zip(pairs, reasons, strict=True) if not reason]
    tests = iter(paired_tests(columns, both=True))
    return tuple(
        JudgedContrast(
            name=contrast.name,
            task=table.task,
            better=one.title,
            than=other.title,
            seeds=len(differences),
            test=None if reason else next(tests),
            reason=reason,
        )
        for (contrast, table, one, other, differences), reason in zip(pairs, reasons, strict=True)
    )


def _find_pairs(
    contrast: Contrast, tables: Sequence[TaskTable]
) -> Iterator[tuple[Contrast, TaskTable, Row, Row, np.ndarray]]:
    """Both rows on every table, and their differences float64[S] at common seeds."""
    for table in tables:
        if table.task not in contrast.tasks:
            continue
        rows = {row.label: row for row in table.in_order if row.at_an_end or row.epsilon == contrast.epsilon}
        one, other = rows.get(contrast.better), rows.get(contrast.than)
        if one is None or other is None:
            continue
        scores = score_rows([one, other])
        differences = scores[:, 0] - scores[:, 1]
        if table.lower_is_better(table.metric):
            differences = -differences
        yield contrast, table, one, other, differences[~np.isnan(differences)]


def _explain(table: TaskTable, rows: Sequence[Row], differences: np.ndarray) -> str:
    """Why nothing is concluded; '' where something is."""
    if not table.without_records:
        return "no row that reads no record is there"
    if table.ranks_nobody:
        return "no headroom"
    for row in rows:
        if row.unranked and not row.is_baseline:
            return f"{row.label} has no rank: {row.unranked}"
    if len(differences) < FEWEST_SEEDS:
        return f"{count(len(differences), 'common seed')} of the {FEWEST_SEEDS} that it needs"
    if np.ptp(differences) < TINY:
        return "the scores differ by as much at every seed"
    return ""
