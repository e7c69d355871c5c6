"""The board in a terminal: aligned tables of at most 110 columns, plain text where the output is no terminal."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from leaderboards.metrics import is_distance, metric_name, scored_things
from leaderboards.rows import REAL_DATA, ZERO_SHOT, Row
from leaderboards.standings import Ranking, TaskTable, first_per_query, has_per_query
from leaderboards.text import (
    PER_QUERY_NOTE,
    epsilon_text,
    names_text,
    queries_text,
    recovery_text,
    score_text,
    seeds_text,
    visible,
)

if TYPE_CHECKING:
    from leaderboards.board import Board, Section

WIDTH = 110
_LABEL_WIDTH = 30
_SHORTEST_LABEL = 12
_EPSILON_WIDTH = 16  # of the column with "(paper)" behind the number, its gap and the edges of the table
_SCORE_WIDTH = 5
_WIDEST_NUMBER = 14  # wider cells (a list of seeds) are folded before the table grows too wide
_GAP = 3  # between two columns
_LONGEST_CELL = 200


def render_terminal(board: Board, color: bool | None = None) -> str:
    """The board as text. color: None means: when standard output is a terminal."""
    file = io.StringIO()
    color = sys.stdout.isatty() if color is None else color
    console = Console(
        file=file, width=WIDTH, force_terminal=color, color_system="standard" if color else None, highlight=False
    )
    if not board.sections:
        console.print("There are no results yet; make some with: dpicl run quick", soft_wrap=True)
    for section in board.sections:
        _section(console, section)
    _notes(console, board.notes)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def _section(console: Console, section: Section) -> None:
    group = section.group
    console.print(Text(f"{visible(group.suite)}, version {visible(group.version)}", style="bold"))
    facts = f"model {visible(group.model)}, {group.source} records, δ = {group.delta:g}"
    console.print(Text(f"{facts}, neighbours: add or remove one record"))
    for table in section.tables:
        _task(console, table, explain=table is first_per_query(section.tables))
    for ranking in section.rankings:
        _ranking(console, ranking)
    _notes(console, section.notes)
    console.print()


def _task(console: Console, table: TaskTable, explain: bool) -> None:
    console.print()
    things = f"{table.documents} {scored_things(table.metric)}"
    console.print(Text(f"{table.task}: {metric_name(table.metric)}, {things}", style="bold"))
    _rows(console, table.in_order, _absent(table))
    if explain:
        _notes(console, [PER_QUERY_NOTE])
    reasons = {row.recovery_note: None for row in table.in_order if row.recovery_note}
    _notes(console, [f"recovery n/a: {reason}." for reason in reasons])
    for missing in table.missing:
        _notes(console, [f"missing: {missing.what}. Make it with:"], style="yellow")
        console.print(Padding(Text(missing.command), (0, 0, 0, 4)), soft_wrap=True)
    _other_metrics(console, table)
    if table.paper:
        console.print()
        console.print(Text(f"{table.task}, as the authors account for it (not proved, not ranked)", style="bold"))
        _rows(console, table.paper, ())


def _absent(table: TaskTable) -> list[str]:
    ends = {ZERO_SHOT: table.zero_shot, REAL_DATA: table.real_data}
    return [name for name, row in ends.items() if row is None]


def _rows(console: Console, rows: Sequence[Row], absent: Sequence[str]) -> None:
    """The main table. absent: ends of the scale that have no result."""
    per_query = has_per_query(rows)
    names = ["mechanism", "ε", "proved ε", *(["per-query ε"] if per_query else []), "claimed ε", "score"]
    names += ["95% interval", "recovery", "Q", "seeds"]
    lines = [_cells(row, per_query) for row in rows]
    lines += [[name, "0" if name == ZERO_SHOT else "∞", "missing", *["–"] * (len(names) - 3)] for name in absent]
    styles = ["dim" if row.is_end else None for row in rows] + ["yellow" for _ in absent]
    console.print(_grid(names, lines, styles))


def _other_metrics(console: Console, table: TaskTable) -> None:
    """Tables of the other metrics: as many side by side as the width holds, the rest below them."""
    rows = (*table.in_order, *table.paper)
    widest = max((cell_len(visible(row.label, _LONGEST_CELL)) for row in rows), default=0)
    for names in _wrapped(table.other_metrics, min(_LABEL_WIDTH, widest)):
        console.print()
        console.print(Text(f"{table.task}: other metrics", style="bold"))
        lines = [
            [row.label, epsilon_text(row.epsilon) + ("" if row.mode == "proved" else " (paper)")]
            + [score_text(row.numbers[name]) if name in row.numbers else "–" for name in names]
            for row in rows
        ]
        grid = _grid(["mechanism", "ε", *map(_heading, names)], lines, ["dim" if row.is_end else None for row in rows])
        console.print(grid)
    notes = [f"{metric_name(name)} has no score for some row: {reason.rstrip('.')}." for name, reason in table.skipped]
    if any(is_distance(name) for name in table.other_metrics):
        notes.append("↓: lower is better.")
    _notes(console, notes)


def _wrapped(metrics: Sequence[str], label_width: int) -> list[list[str]]:
    """The metrics, in as many tables as they need beside the label and ε."""
    room = WIDTH - label_width - _EPSILON_WIDTH
    tables: list[list[str]] = []
    left = 0
    for metric in metrics:
        width = max(cell_len(_heading(metric)), _SCORE_WIDTH) + _GAP
        if width > left:
            tables.append([])
            left = room
        tables[-1].append(metric)
        left -= width
    return tables


def _heading(metric: str) -> str:
    shown = visible(metric_name(metric), _LABEL_WIDTH)
    return shown + " ↓" if is_distance(metric) else shown


def _ranking(console: Console, ranking: Ranking) -> None:
    console.print()
    names = names_text(ranking.tasks) or "none yet"
    mean = f"mean recovery over {len(ranking.tasks)} of {ranking.total} tasks ({names})"
    console.print(Text(f"{ranking.title}: {mean}", style="bold"))
    lines = [
        [
            one.label,
            epsilon_text(one.epsilon),
            "–" if one.rank is None else str(one.rank),
            epsilon_text(one.proved),
            recovery_text(one.recovery),
            "–" if one.score is None else score_text(one.score),
            seeds_text(one.seeds),
        ]
        for one in ranking.standings
    ]
    grid = _grid(["mechanism", "ε", "rank", "proved ε", "recovery", "score", "seeds"], lines, [None] * len(lines))
    console.print(grid)
    _notes(console, [f"{task} is not in the mean: {reason}." for task, reason in ranking.left_out])


def _cells(row: Row, per_query: bool) -> list[str]:
    return [
        row.label,
        epsilon_text(row.epsilon),
        epsilon_text(row.proved),
        *([epsilon_text(row.epsilon_per_query)] if per_query else []),
        epsilon_text(row.claimed),
        score_text(row.score),
        f"{row.low:.3f}–{row.high:.3f}",
        recovery_text(row.recovery),
        queries_text(row.queries),
        seeds_text(row.seeds),
    ]


def _grid(names: Sequence[str], lines: Sequence[Sequence[str]], styles: Sequence[str | None]) -> Table:
    """A table whose first column, the label, takes what the numbers leave, so that no number is ever cut.

    Where that is too little for the labels, the heads of the other columns are broken at spaces.
    """
    shown = [[visible(cell, _LONGEST_CELL) for cell in line] for line in lines]
    labels, *columns = zip(names, *shown, strict=True)
    needed = min(_LABEL_WIDTH, max(map(cell_len, labels)))
    widths = [max(map(cell_len, column)) for column in columns]
    if _room(widths) < needed:
        widths = [max(map(cell_len, [*head.split(), *cells])) for head, *cells in columns]
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    room = max(_SHORTEST_LABEL, min(_LABEL_WIDTH, _room(widths)))
    grid.add_column(names[0], justify="left", no_wrap=True, overflow="ellipsis", max_width=room)
    for name, width in zip(names[1:], widths, strict=True):
        grid.add_column(name, justify="right", overflow="fold", min_width=min(width, _WIDEST_NUMBER), max_width=width)
    for line, style in zip(shown, styles, strict=True):
        grid.add_row(*map(Text, line), style=style)
    return grid


def _room(widths: Sequence[int]) -> int:
    """What columns of these widths leave for the label."""
    return WIDTH - sum(width + _GAP for width in widths) - 2


def _notes(console: Console, notes: Iterable[str], style: str = "dim") -> None:
    for note in notes:
        console.print(Padding(Text("• " + visible(note), style=style), (0, 0, 0, 2)))
