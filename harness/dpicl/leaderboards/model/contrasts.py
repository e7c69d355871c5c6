"""Tests the claims that a suite plans (`contrasts`): one paired difference of every claim on every task, by
Student and by flips of signs, of which the larger p-value counts, and Holm over all that are planned.

The family is what the suite plans and not what can be tested so far, else a verdict would change as cells arrive, or
with the tasks that are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
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
    """A claim on one task.

    better, than: titles of the rows. compared: both as `dpicl compare` takes them. seeds: common ones. family: how many
    claims the suite plans. test: of the first one's score minus the second's, positive where it is better; None where
    there is no verdict, and `reason` says why.
    """

    name: str
    task: str
    better: str
    than: str
    compared: str
    seeds: int
    family: int
    test: PairedTest | None = None
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


def judge_contrasts(
    planned: Sequence[Contrast], tables: Sequence[TaskTable]
) -> tuple[JudgedContrast, ...]:
    """The planned claims, in the order of the suite, on the tables that have both rows."""
    family = sum(len(contrast.tasks) for contrast in planned)
    claims = [claim for contrast in planned for claim in _find_rows(contrast, tables, family)]
    testable = [differences for claim, differences in claims if not claim.reason]
    tests = iter(paired_tests(testable, both=True, family=family))
    return tuple(claim if claim.reason else replace(claim, test=next(tests)) for claim, _ in claims)


def _find_rows(
    contrast: Contrast, tables: Sequence[TaskTable], family: int
) -> Iterator[tuple[JudgedContrast, np.ndarray]]:
    """The claim on every table that has both rows, without its test, and their differences float64[S] at common
    seeds."""
    for table in tables:
        if table.task not in contrast.tasks:
            continue
        at_level = (
            row for row in table.in_order if row.is_reference or row.epsilon == contrast.epsilon
        )
        rows = {row.label: row for row in at_level}
        one, other = rows.get(contrast.better), rows.get(contrast.than)
        if one is None or other is None:
            continue
        scores = score_rows([one, other])
        differences = scores[:, 0] - scores[:, 1]
        differences = differences[~np.isnan(differences)]
        if table.lower_is_better(table.metric):
            differences = -differences
        reason = _explain(table, (one, other), differences)
        seeds = len(differences)
        compared = f"{_name_in_compare(one)} {_name_in_compare(other)}"
        claim = JudgedContrast(
            contrast.name,
            table.task,
            one.title,
            other.title,
            compared,
            seeds,
            family,
            reason=reason,
        )
        yield claim, differences


def _name_in_compare(row: Row) -> str:
    return row.label if row.is_reference else f"{row.label}@{row.epsilon:g}"


def _explain(table: TaskTable, rows: Sequence[Row], differences: np.ndarray) -> str:
    """Why there is no verdict; '' where there is one."""
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
