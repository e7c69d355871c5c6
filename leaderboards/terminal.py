"""The board in a terminal: aligned tables of at most 110 columns, plain text where the output is no terminal."""

from __future__ import annotations

import io
import shlex
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from leaderboards.groups import Group
from leaderboards.standings import Overall, Row, TaskTable
from leaderboards.text import (
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
_METRICS = {"acc_calibrated": "calibrated accuracy", "acc": "accuracy", "exact_match": "exact match"}


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
    if board.sections:
        _next_steps(console, board.sections[0].group)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def metric_name(metric: str) -> str:
    """A metric in words."""
    return _METRICS.get(metric, metric)


def _section(console: Console, section: Section) -> None:
    group = section.group
    console.print(Text(f"{visible(group.suite)}, version {visible(group.version)}", style="bold"))
    facts = f"model {visible(group.model)}, {group.source} records, δ = {group.delta:g}"
    console.print(Text(f"{facts}, neighbours: add or remove one record"))
    for table in section.tables:
        _task(console, table)
    if section.overall:
        _overall(console, section.overall, len(section.tables))
    _notes(console, section.notes)
    console.print()


def _task(console: Console, table: TaskTable) -> None:
    console.print()
    console.print(Text(f"{table.task}: {metric_name(table.metric)}, {table.documents} test records", style="bold"))
    grid = _grid("mechanism", "ε", "proved ε", "claimed ε", "score", "95% interval", "recovery", "Q", "seeds")
    for row in table.in_order:
        grid.add_row(*_cells(row), style="dim" if row.is_end else None)
    for name in ("zero_shot", "real_demonstrations"):
        if not any(row.mechanism == name for row in table.in_order):
            grid.add_row(name, "0" if name == "zero_shot" else "∞", "missing", *["–"] * 6, style="yellow")
    console.print(grid)
    reasons = {row.recovery_note: None for row in table.in_order if row.recovery_note}
    _notes(console, [f"recovery n/a: {reason}." for reason in reasons])
    for missing in table.missing:
        _notes(console, [f"missing: {missing.what}. Make it with:"], style="yellow")
        console.print(Padding(Text(missing.command), (0, 0, 0, 4)), soft_wrap=True)
    if table.paper:
        console.print()
        console.print(Text(f"{table.task}, as the authors account for it (not proved, not ranked)", style="bold"))
        paper = _grid("mechanism", "ε", "proved ε", "claimed ε", "score", "95% interval", "recovery", "Q", "seeds")
        for row in table.paper:
            paper.add_row(*_cells(row))
        console.print(paper)


def _overall(console: Console, overall: Overall, total: int) -> None:
    console.print()
    names = names_text(overall.tasks) or "none yet"
    console.print(Text(f"all tasks: mean recovery over {len(overall.tasks)} of {total} tasks ({names})", style="bold"))
    grid = _grid("mechanism", "ε", "rank", "proved ε", "recovery", "score", "seeds")
    for one in overall.standings:
        grid.add_row(
            _label(one.label),
            epsilon_text(one.epsilon),
            "–" if one.rank is None else str(one.rank),
            epsilon_text(one.proved),
            recovery_text(one.recovery),
            "–" if one.score is None else score_text(one.score),
            seeds_text(one.seeds),
        )
    console.print(grid)
    _notes(console, [f"{task} is not in the mean: {reason}." for task, reason in overall.left_out])


def _cells(row: Row) -> list[Text | str]:
    return [
        _label(row.label),
        epsilon_text(row.epsilon),
        epsilon_text(row.proved),
        epsilon_text(row.claimed),
        score_text(row.score),
        f"{row.low:.3f}–{row.high:.3f}",
        recovery_text(row.recovery),
        queries_text(row.queries),
        seeds_text(row.seeds),
    ]


def _label(label: str) -> Text:
    shown = visible(label)
    return Text(shown if len(shown) <= _LABEL_WIDTH else shown[: _LABEL_WIDTH - 1] + "…")


def _grid(*names: str) -> Table:
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for name in names:
        left = name == "mechanism"
        grid.add_column(name, justify="left" if left else "right", no_wrap=left, overflow="ellipsis")
    return grid


def _notes(console: Console, notes: Iterable[str], style: str = "dim") -> None:
    for note in notes:
        console.print(Padding(Text("• " + visible(note), style=style), (0, 0, 0, 2)))


def _next_steps(console: Console, group: Group) -> None:
    suite = shlex.quote(visible(group.suite))
    console.print(Text("Next", style="bold"))
    for command, what in (
        (f"dpicl board {suite} --html site", "this board as a page, with plots and released texts"),
        (f"dpicl plan {suite}", "which cells are done, which are left, and what they cost"),
        ("dpicl list mechanisms", "what else can be compared; docs/board.md says how to read the columns"),
    ):
        console.print(Text(f"  {command:<36}  {what}"))
