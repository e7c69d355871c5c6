"""Blocks in a terminal: as wide as it is, aligned, no number cut, plain where there is no terminal."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Iterable, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from dpicl.core.printable import visible
from dpicl.tables.document import Block, Column, Facts, Heading, Part, Table, Words

#: Columns: the most that are used, the fewest that tables are made for, and how many where there is no terminal.
WIDEST, NARROWEST, USUAL = 110, 40, 80
_LONGEST_CELL, _LABEL, _SHORTEST_LABEL, _WIDE = 200, 30, 24, 20
_GAP = 2  # between two columns, one of it the box's
_STYLES = {"first": "green", "end": "dim", "flagged": "bold red", "absent": "yellow", "quiet": "dim"}
_PARAGRAPHS = {"lead": "bold", "quiet": "dim", "flag": "bold red"}


def width() -> int:
    """Columns of the terminal, or $COLUMNS; 80 where nothing says it."""
    return min(WIDEST, max(NARROWEST, shutil.get_terminal_size((USUAL, 24)).columns))


def coloured() -> bool:
    """Whether standard output is a terminal that shows colours, and the user wants them (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in ("dumb", "unknown")


def to_text(blocks: Iterable[Block], color: bool | None = None) -> str:
    """The blocks as text. color: None means: where `coloured`."""
    file = io.StringIO()
    color = coloured() if color is None else color
    console = Console(
        file=file, width=width(), force_terminal=color, color_system="standard" if color else None, highlight=False
    )
    for block in blocks:
        _print(console, block)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()).strip("\n") + "\n"


def _print(console: Console, block: Block) -> None:
    match block:
        case Heading():
            console.print()
            console.print(Text(visible(block.text), style="bold"))
        case Words():
            text = visible("".join(one if isinstance(one, str) else one.text for one in block.parts))
            if block.kind == "note":
                console.print(Padding(Text(f"• {text}", style="dim"), (0, 0, 0, 2)))
            elif block.kind == "command":
                console.print(Text(f"    {text}"), soft_wrap=True)
            else:
                console.print(Text(text, style=_PARAGRAPHS.get(block.kind, "")))
        case Facts():
            facts = [f"{name} {value}" if name else str(value) for name, value in block.items.items()]
            console.print(Text(visible(", ".join(facts))))
        case Table():
            if block.heading:
                _print(console, Heading(block.title))
            _print_table(console, block)
            for note in block.notes:
                _print(console, Words((note,), "note"))
        case Part():
            if block.summary:
                _print(console, Heading(block.summary))
            for one in block.blocks:
                _print(console, one)


def _print_table(console: Console, table: Table) -> None:
    """A table, or several below each other where one would be wider than the terminal."""
    shown = [i for i, column in enumerate(table.columns) if not column.page]
    cells = [[visible(text, _LONGEST_CELL) for text in table.texts(line)] for line in table.lines]
    widths = {i: _width(table.columns[i], [line[i] for line in cells]) for i in shown}
    first, *rest = shown[: table.keep]
    before = min(max(_SHORTEST_LABEL, console.width // 3), widths[first]) + sum(widths[i] + _GAP for i in rest)
    parts: list[list[int]] = []
    left = 0
    for i in shown[table.keep :]:
        if widths[i] + _GAP > left:
            parts.append([])
            left = console.width - before - 2
        parts[-1].append(i)
        left -= widths[i] + _GAP
    styles = [_STYLES.get(line.kind, "") for line in table.lines]
    for part in parts or [[]]:
        console.print(_grid(table, [first, *rest, *part], cells, styles, console.width))


def _width(column: Column, cells: Sequence[str], broken: bool = True) -> int:
    """Of the longest cell and the longest word of the head; words that may go on below need less. broken: False: of
    the whole head."""
    name = visible(column.name, _LONGEST_CELL)
    longest = max(map(cell_len, [*(name.split() if broken else [name]), *cells]), default=0)
    return min(longest, _WIDE) if column.wide else longest


def _grid(table: Table, shown: Sequence[int], cells: Sequence[Sequence[str]], styles: Sequence[str], room: int) -> Grid:
    """Numbers are never cut: heads are broken at spaces where that makes room, the label takes what is left, and words
    go on below."""
    columns = [(table.columns[i], [line[i] for line in cells]) for i in shown]
    for broken in (False, True):
        widths = [_width(column, own, broken) for column, own in columns]
        left = room - sum(own + _GAP for own in widths[1:]) - 2
        if left >= min(_LABEL, widths[0]):
            break
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, _GAP - 1))
    for (column, _), own in zip(columns, widths, strict=True):
        name = visible(column.name, _LONGEST_CELL)
        if not grid.columns:
            label = min(_LABEL, max(left, _LABEL // 2))
            grid.add_column(name, no_wrap=True, overflow="ellipsis", max_width=label)
        elif column.wide:
            grid.add_column(name, overflow="fold", min_width=min(own, _WIDE // 2))
        else:
            grid.add_column(name, justify="right", overflow="fold", width=min(own, room - _SHORTEST_LABEL))
    for line, style in zip(cells, styles, strict=True):
        grid.add_row(*(Text(line[i]) for i in shown), style=style)
    return grid
