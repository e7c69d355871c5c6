"""The headroom of every task of a section, as one table for all renderers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dpicl.leaderboards.model.standings import TaskTable
from dpicl.leaderboards.model.text import score_text, signed_text
from dpicl.plan.headroom import PUBLIC, REAL, Headroom

TITLE = f"Headroom: {REAL} − {PUBLIC}, before any private method"
COLUMNS = ("task", "metric", "shots", "public → real", "headroom (95%)", "seeds × records", "ranks")
NOTE = (
    "Where the interval includes 0 nobody is ranked. Seeds and test records are samples (of one seed: test records"
    " alone); development: on seeds and test records that no row has."
)


def headroom_lines(tables: Iterable[TaskTable]) -> list[Sequence[str]]:
    """A line a task, of its main metric; "–" where an end of the headroom has no result."""
    return [_line(one, one.headroom.get(one.metric)) for one in tables]


def _line(table: TaskTable, found: Headroom | None) -> Sequence[str]:
    if found is None:
        lacking = PUBLIC if table.real_data is not None else REAL
        return (table.task, table.metric, "–", "–", f"unknown: no {lacking} at a common seed", "–", "yes")
    ends = f"{score_text(found.public)} → {score_text(found.real)}"
    gain = f"{signed_text(found.gain)} ({signed_text(found.low)} to {signed_text(found.high)})"
    sizes = f"{len(found.seeds)} × {found.documents}{', development' if found.development else ''}"
    return (table.task, table.metric, str(found.shots), ends, gain, sizes, "yes" if found.rewards else "no")
