"""Tables and notes in a terminal: at most 110 columns, aligned, no number cut, plain where there is no terminal."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dpicl.leaderboards.model.text import visible

WIDTH = 110
LABEL_WIDTH = 30
LONGEST_CELL = 200
_SHORTEST_LABEL = 12
_WIDEST_WORD = 14  # longer ones, which are no numbers, are folded before the table grows too wide
_GAP = 3  # between two columns


def plain_console(color: bool | None) -> tuple[Console, Callable[[], str]]:
    """A console, and a function that gives what was printed to it. color: None means when stdout is a terminal."""
    file = io.StringIO()
    color = sys.stdout.isatty() if color is None else color
    console = Console(
        file=file, width=WIDTH, force_terminal=color, color_system="standard" if color else None, highlight=False
    )
    return console, lambda: "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def grid(names: Sequence[str], lines: Sequence[Sequence[str]], styles: Sequence[str | None] = ()) -> Table:
    """A table whose first column, the label, takes what the numbers leave, so that no number is ever cut.

    Where that is too little for the labels, the heads of the other columns are broken at spaces, then columns move
    closer, then cells are broken at spaces. styles: one a line; none: plain.
    """
    shown = [[visible(cell, LONGEST_CELL) for cell in line] for line in lines]
    labels, *columns = zip(names, *shown, strict=True)
    needed = min(LABEL_WIDTH, max(map(cell_len, labels)))
    widths = [max(map(cell_len, column)) for column in columns]
    gap = _GAP
    if _room(widths, gap) < needed:
        widths = [max(map(cell_len, [*head.split(), *cells])) for head, *cells in columns]
    if _room(widths, gap) < needed:
        gap -= 1
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1) if gap == _GAP else (0, 0, 0, 1))
    room = max(_SHORTEST_LABEL, min(LABEL_WIDTH, _room(widths, gap)))
    table.add_column(names[0], justify="left", no_wrap=True, overflow="ellipsis", max_width=room)
    for name, width, column in zip(names[1:], widths, columns, strict=True):
        word = max(cell_len(word) for cell in column for word in cell.split() or [""])
        table.add_column(name, justify="right", overflow="fold", min_width=min(word, _WIDEST_WORD), max_width=width)
    for line, style in zip(shown, styles or [None] * len(shown), strict=True):
        table.add_row(*map(Text, line), style=style)
    return table


def wrapped(widths: Mapping[str, int], before: int) -> list[list[str]]:
    """Columns of these widths in as many tables as they need, beside columns that take ``before``."""
    tables: list[list[str]] = []
    left = 0
    for name, width in widths.items():
        if width + _GAP > left:
            tables.append([])
            left = WIDTH - before
        tables[-1].append(name)
        left -= width + _GAP
    return tables


def print_heading(console: Console, text: str) -> None:
    """A bold line after an empty one."""
    console.print()
    console.print(Text(text, style="bold"))


def print_notes(console: Console, notes: Iterable[str], style: str = "dim") -> None:
    """A bullet for each note."""
    for note in notes:
        console.print(Padding(Text("• " + visible(note), style=style), (0, 0, 0, 2)))


def _room(widths: Sequence[int], gap: int) -> int:
    """What columns of these widths leave for the label."""
    return WIDTH - sum(width + gap for width in widths) - 2
