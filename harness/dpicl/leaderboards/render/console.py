"""Tables and notes in a terminal: as wide as it is, aligned, no number cut, plain where there is no terminal."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dpicl.leaderboards.model.text import visible

#: Columns: the most that are used, the fewest that tables are made for, and how many where there is no terminal.
WIDEST, NARROWEST, USUAL = 110, 40, 80
LABEL_WIDTH = 30
LONGEST_CELL = 200
_SHORTEST_LABEL = 12
_WIDEST_WORD = 14  # longer ones, which are no numbers, are folded before the table grows too wide
_GAP = 3  # between two columns
_LONG = 100  # lines from which a table is laid out by its widest cells
Name = TypeVar("Name", bound=Hashable)


def width() -> int:
    """Columns of the terminal, or $COLUMNS; 80 where nothing says it."""
    return min(WIDEST, max(NARROWEST, shutil.get_terminal_size((USUAL, 24)).columns))


def coloured() -> bool:
    """Whether standard output is a terminal that shows colours, and the user wants them (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in ("dumb", "unknown")


def plain_console(color: bool | None) -> tuple[Console, Callable[[], str]]:
    """A console, and a function that gives what was printed to it. color: None means: where `coloured`."""
    file = io.StringIO()
    color = coloured() if color is None else color
    console = Console(
        file=file, width=width(), force_terminal=color, color_system="standard" if color else None, highlight=False
    )
    return console, lambda: "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def print_tables(
    console: Console,
    names: Sequence[str],
    lines: Sequence[Sequence[str]],
    styles: Sequence[str | None] = (),
    keep: int = 1,
) -> None:
    """A table, or several below each other where one would be wider than the terminal; each begins with the first
    ``keep`` columns. styles: one a line."""
    cells = [[visible(cell, LONGEST_CELL) for cell in line] for line in lines]
    widths = [max(map(cell_len, [*name.split(), *own])) for name, *own in zip(names, *cells, strict=True)]
    before = min(_longest_label(console), widths[0]) + sum(one + _GAP - 1 for one in widths[1:keep])
    for part in wrapped(dict(enumerate(widths[keep:], keep)), before, console, _GAP - 1) or [[]]:
        chosen = [*range(keep), *part]
        own = [[line[i] for i in chosen] for line in lines]
        _print_grid(console, [names[i] for i in chosen], own, styles or [None] * len(own))


def grid(
    names: Sequence[str], lines: Sequence[Sequence[str]], styles: Sequence[str | None] = (), columns: int = WIDEST
) -> Table:
    """A table whose first column, the label, takes what the numbers leave, so that no number is ever cut.

    Where that is too little for the labels, the heads of the other columns are broken at spaces, then columns move
    closer, then cells are broken at spaces. styles: one a line; none: plain. columns: of the terminal.
    """
    shown = [[visible(cell, LONGEST_CELL) for cell in line] for line in lines]
    _, *others = zip(names, *shown, strict=True)
    widths, gap = _layout(names, shown, columns)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1) if gap == _GAP else (0, 0, 0, 1))
    room = max(_SHORTEST_LABEL, min(LABEL_WIDTH, _room(widths, gap, columns)))
    table.add_column(names[0], justify="left", no_wrap=True, overflow="ellipsis", max_width=room)
    for name, own, column in zip(names[1:], widths, others, strict=True):
        word = max(cell_len(word) for cell in column for word in cell.split() or [""])
        table.add_column(name, justify="right", overflow="fold", min_width=min(word, _WIDEST_WORD), max_width=own)
    for line, style in zip(shown, styles or [None] * len(shown), strict=True):
        table.add_row(*map(Text, line), style=style)
    return table


def _layout(names: Sequence[str], lines: Sequence[Sequence[str]], columns: int) -> tuple[list[int], int]:
    """Widths of the columns after the first, and the gap between two."""
    labels, *others = zip(names, *lines, strict=True)
    needed = min(LABEL_WIDTH, max(map(cell_len, labels)))
    widths = [max(map(cell_len, column)) for column in others]
    if _room(widths, _GAP, columns) >= needed:
        return widths, _GAP
    widths = [max(map(cell_len, [*head.split(), *cells])) for head, *cells in others]
    return widths, _GAP if _room(widths, _GAP, columns) >= needed else _GAP - 1


def _print_grid(
    console: Console, names: Sequence[str], lines: Sequence[Sequence[str]], styles: Sequence[str | None]
) -> None:
    """Prints a `grid`. A long one in which every cell takes one line is laid out by its widest cells alone: that looks
    the same and takes a tenth of the time."""
    if len(lines) > _LONG:
        widest = [max(column, key=cell_len) for column in zip(*lines, strict=True)]
        with console.capture() as capture:
            console.print(grid(names, [widest], columns=console.width))
        *head, longest, end, _ = capture.get().split("\n")
        others, gap = _layout(names, [widest], console.width)
        widths = [max(map(cell_len, (names[0], widest[0]))), *others]
        if Text.from_ansi(longest).plain == _line(widest, widths, gap):
            console.file.write("\n".join([*head, ""]))
            for line, style in zip(lines, styles, strict=True):
                console.print(Text(_line(line, widths, gap), style=style or ""), soft_wrap=True)
            console.file.write(f"{end}\n")
            return
    console.print(grid(names, lines, styles, console.width))


def _line(cells: Sequence[str], widths: Sequence[int], gap: int) -> str:
    """A line of a `grid` whose cells all have room."""
    (label, first), *others = zip(cells, widths, strict=True)
    aligned = (" " * (gap + width - cell_len(cell)) + cell for cell, width in others)
    return f" {label}{' ' * (first - cell_len(label))}{''.join(aligned)} "


def wrapped(widths: Mapping[Name, int], before: int, console: Console, gap: int = _GAP) -> list[list[Name]]:
    """Columns of these widths in as many tables as they need, beside columns that take ``before``."""
    tables: list[list[Name]] = []
    left = 0
    for name, own in widths.items():
        if own + gap > left:
            tables.append([])
            left = console.width - before - 2
        tables[-1].append(name)
        left -= own + gap
    return tables


def print_heading(console: Console, text: str) -> None:
    """A bold line after an empty one."""
    console.print()
    console.print(Text(text, style="bold"))


def print_notes(console: Console, notes: Iterable[str], style: str = "dim") -> None:
    """A bullet for each note."""
    for note in notes:
        console.print(Padding(Text("• " + visible(note), style=style), (0, 0, 0, 2)))


def _longest_label(console: Console) -> int:
    return min(LABEL_WIDTH, max(2 * _SHORTEST_LABEL, console.width // 3))


def _room(widths: Sequence[int], gap: int, columns: int) -> int:
    """What columns of these widths leave for the label."""
    return columns - sum(width + gap for width in widths) - 2
