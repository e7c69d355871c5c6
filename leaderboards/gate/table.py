"""The table that a reviewer needs: every row of a submission at every task and epsilon, and where it would stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from dpicl.harness.run.results import Result
from dpicl.leaderboards.gate.contents import Contents
from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import TaskTable
from dpicl.leaderboards.model.submissions import Reproduction
from dpicl.leaderboards.model.text import epsilon_text, recovery_text, score_text, seeds_text, visible


@dataclass(frozen=True)
class Line:
    """One row. marks: what weakens its proved ε, in words. rank, rivals: place by score among the rows of this task and
    epsilon that are ranked; None: no rank.

    change: of the mean score since the base, None for a row that was not there. reported: by the paper.
    """

    model: str
    row: str
    task: str
    epsilon: float
    seeds: tuple[int, ...]
    score: float
    low: float
    high: float
    recovery: float | None
    recovery_note: str
    proved: float
    marks: tuple[str, ...]
    claimed: float | None
    rank: int | None
    rivals: int
    change: float | None
    reported: float | None
    reproduced: tuple[Reproduction, ...]


def lines_of(
    contents: Contents,
    reference: Sequence[Result],
    before: Mapping[str, float],
    reruns: Sequence[Reproduction] = (),
) -> list[Line]:
    """One line a row, as the board would show it. before: cell id -> score in the base. reruns: those of this run."""
    return [
        _line(section.group.model, row, table, before, reruns)
        for section in build_board(reference, submissions=[contents.submission()]).sections
        for table in section.tables
        for row in (*table.rows, *table.paper)
        if row.submission is not None
    ]


def _line(model: str, row: Row, table: TaskTable, before: Mapping[str, float], reruns: Sequence[Reproduction]) -> Line:
    rivals = [one for one in table.rows if one.epsilon == row.epsilon and not one.unranked]
    ids = [result.cell_id for result in row.results]
    then = [before[one] for one in ids if one in before]
    same = ("task", "epsilon", "seeds", "score", "low", "high", "recovery", "proved", "claimed", "reported")
    return Line(
        **{name: getattr(row, name) for name in same},
        model=visible(model, 60),
        row=visible(row.label, 100),
        recovery_note=visible(row.recovery_note),
        marks=tuple(mark.name for mark in row.marks),
        rank=None if row.unranked else 1 + sum(one.score > row.score for one in rivals),
        rivals=len(rivals),
        change=row.score - fmean(then) if then else None,
        reproduced=tuple({one.cell_id: one for one in (*row.reproduced, *reruns) if one.cell_id in ids}.values()),
    )


def cells_of(line: Line) -> dict[str, str]:
    """Column -> text."""
    return {
        "task": line.task,
        "ε": epsilon_text(line.epsilon),
        "row": line.row,
        "model": line.model,
        "seeds": seeds_text(line.seeds),
        "score": score_text(line.score),
        "95% interval": f"{line.low:.3f}–{line.high:.3f}",
        "recovery": recovery_text(line.recovery),
        "proved ε": epsilon_text(line.proved) + (f" ({'; '.join(line.marks)})" if line.marks else ""),
        "claimed ε": epsilon_text(line.claimed),
        "rank": "–" if line.rank is None else f"{line.rank} of {line.rivals}",
        "change": "new" if line.change is None else f"{line.change:+.3f}",
        "paper": "–" if line.reported is None else score_text(line.reported),
        "reported → reproduced": ", ".join(map(_scores, line.reproduced)) or "–",
    }


def _scores(one: Reproduction) -> str:
    same = " (identical)" if one.identical else ""
    return f"seed {one.seed}: {score_text(one.reported)} → {score_text(one.reproduced)}{same}"
