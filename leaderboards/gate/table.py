"""The table that a reviewer needs: every row of a submission at every task and epsilon, and where it would stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from dpicl.harness.run.results import Result
from dpicl.leaderboards.gate.contents import Contents
from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.model.rows import Row
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
    again: Sequence[Reproduction] = (),
) -> list[Line]:
    """One line a row, as the board would show it. before: cell id -> score in the base. again: re-runs of today."""
    submission = contents.submission()
    board = build_board(reference, submissions=[submission])
    lines = []
    for section in board.sections:
        for table in section.tables:
            for row in (*table.rows, *table.paper):
                if row.submission is not None:
                    rivals = [one for one in table.rows if one.epsilon == row.epsilon and not one.unranked]
                    lines.append(_line(section.group.model, row, rivals, before, again))
    return lines


def _line(
    model: str, row: Row, rivals: Sequence[Row], before: Mapping[str, float], again: Sequence[Reproduction]
) -> Line:
    ids = [result.cell_id for result in row.results]
    then = [before[one] for one in ids if one in before]
    here = {one.cell_id: one for one in row.reproduced} | {one.cell_id: one for one in again if one.cell_id in ids}
    return Line(
        model=visible(model, 60),
        row=visible(row.label, 100),
        task=row.task,
        epsilon=row.epsilon,
        seeds=row.seeds,
        score=row.score,
        low=row.low,
        high=row.high,
        recovery=row.recovery,
        recovery_note=visible(row.recovery_note),
        proved=row.proved,
        marks=tuple(mark.name for mark in row.marks),
        claimed=row.claimed,
        rank=None if row.unranked else 1 + sum(one.score > row.score for one in rivals),
        rivals=len(rivals),
        change=row.score - fmean(then) if then else None,
        reported=row.reported,
        reproduced=tuple(here.values()),
    )


COLUMNS = (
    "task",
    "ε",
    "row",
    "model",
    "seeds",
    "score",
    "95% interval",
    "recovery",
    "proved ε",
    "claimed ε",
    "rank",
    "change",
    "paper",
    "reported → reproduced",
)


def cells_of(line: Line) -> list[str]:
    """The texts of a line, in the order of `COLUMNS`."""
    return [
        line.task,
        epsilon_text(line.epsilon),
        line.row,
        line.model,
        seeds_text(line.seeds),
        score_text(line.score),
        f"{line.low:.3f}–{line.high:.3f}",
        recovery_text(line.recovery),
        epsilon_text(line.proved) + (f" ({'; '.join(line.marks)})" if line.marks else ""),
        epsilon_text(line.claimed),
        "–" if line.rank is None else f"{line.rank} of {line.rivals}",
        "new" if line.change is None else f"{line.change:+.3f}",
        "–" if line.reported is None else score_text(line.reported),
        ", ".join(map(_again, line.reproduced)) or "–",
    ]


def _again(one: Reproduction) -> str:
    same = " (identical)" if one.identical else ""
    return f"seed {one.seed}: {score_text(one.reported)} → {score_text(one.reproduced)}{same}"
