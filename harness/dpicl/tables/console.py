"""Prints blocks in a terminal: fitted to its width, aligned, no number cut; plain text elsewhere."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from dpicl.core.printable import LONGEST_TEXT, make_visible
from dpicl.tables.document import Block, Column, Facts, Heading, Part, Table, Words

#: Columns: the most that are used, the fewest that tables are made for, and how many where there is no terminal.
WIDEST, NARROWEST, USUAL = 110, 40, 80
_LONGEST_CELL, _SHORTEST_LABEL, _WIDE = 200, 24, 20
_GAP = 2  # between two columns, one of it the box's
#: What stays in one line, and the character in the place of its spaces until lines are broken; no text has it.
_NOT_BROKEN = re.compile(
    r"(?:\w+ = )?\S+ [¢§°¶¬◊†‡]+(?!\S)|\[[-−+\d.]+, [-−+\d.]+\]|\(?[-−+\d.%]+ to [-−+\d.%]+\)?|\w+ = \S+"
)
#: What stays in one line of a column's head.
_HEAD_PIECE = re.compile(r"[^\s_]+_*|_+")
_JOINT = "\ue000"
_STYLES = {
    "first": "green",
    "end": "dim",
    "flagged": "bold red",
    "absent": "yellow",
    "quiet": "dim",
}
_PARAGRAPHS = {"lead": "bold", "quiet": "dim", "flag": "bold red"}


def width() -> int:
    """Columns of the terminal, or $COLUMNS; 80 where nothing says it."""
    return min(WIDEST, max(NARROWEST, shutil.get_terminal_size((USUAL, 24)).columns))


def has_colours() -> bool:
    """Whether standard output is a terminal that shows colours, and the user wants them (https://no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown"):
        return False
    return sys.stdout.isatty()


def to_text(blocks: Iterable[Block], color: bool | None = None) -> str:
    """The blocks as text. color: None means: where `has_colours`."""
    file = io.StringIO()
    color = has_colours() if color is None else color
    console = Console(
        file=file,
        width=width(),
        force_terminal=color,
        color_system="standard" if color else None,
        highlight=False,
    )
    for block in blocks:
        _print(console, block)
    text = file.getvalue().replace(_JOINT, " ")
    lines = [line.rstrip() for line in text.splitlines()]
    return "\n".join(lines).strip("\n") + "\n"


def _print(console: Console, block: Block) -> None:
    match block:
        case Heading():
            console.print()
            console.print(Text(make_visible(block.text), style="bold"))
        case Words():
            parts = [part if isinstance(part, str) else part.text for part in block.parts]
            text = make_visible("".join(parts))
            if block.kind == "note":
                console.print(Padding(Text(f"• {text}", style="dim"), (0, 0, 0, 2)))
            elif block.kind == "command":
                console.print(Text(f"    {text}"), soft_wrap=True)
            else:
                console.print(Text(text, style=_PARAGRAPHS.get(block.kind, "")))
        case Facts():
            facts = [
                f"{name} {value}" if name else str(value) for name, value in block.items.items()
            ]
            console.print(Text(make_visible(", ".join(facts))))
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
    longest = [LONGEST_TEXT if column.wide else _LONGEST_CELL for column in table.columns]
    cells = []
    for line in table.lines:
        texts = zip(table.texts(line), longest, strict=True)
        cells.append([_join_units(make_visible(text, most)) for text, most in texts])
    columns = {
        i: _Laid(
            table.columns[i],
            i == shown[0],
            [line[i] for line in cells],
        )
        for i in shown
    }
    first, *rest = shown[: table.keep]
    before = min(max(_SHORTEST_LABEL, console.width // 3), columns[first].least)
    before += sum(columns[i].least + _GAP for i in rest)
    parts: list[list[int]] = []
    left = 0
    for i in shown[table.keep :]:
        if columns[i].least + _GAP > left:
            parts.append([])
            left = console.width - before - (0 if table.dense else 2)
        parts[-1].append(i)
        left -= columns[i].least + _GAP
    styles = [_STYLES.get(line.kind, "") for line in table.lines]
    kinds = [line.kind for line in table.lines]
    controls = kinds.index("end") if "end" in kinds else 0
    for number, part in enumerate(parts or [[]]):
        if table.dense and number:
            console.print()
        console.print(
            _grid(
                [columns[i] for i in (first, *rest, *part)],
                styles,
                console.width,
                controls,
                table.dense,
            )
        )


def _join_units(text: str) -> str:
    """The text with its intervals and equations in one piece: '[0.1, 0.2]', '−0.1 to 0.2', 'ε = 1'."""
    return _NOT_BROKEN.sub(lambda match: match[0].replace(" ", _JOINT), text)


class _Laid:
    """A column and its cells. text: whether its words may go on below. longest: width of all in one line. word: width
    below which a number or a word would be cut. least: what it gets in any table, longer words or not."""

    def __init__(self, column: Column, label: bool, cells: Sequence[str]) -> None:
        self.name, self.cells, self.text = (
            make_visible(column.name, _LONGEST_CELL),
            cells,
            label or column.wide,
        )
        self.longest = max(map(cell_len, [self.name, *cells]))
        whole = [word for text in cells for word in text.split()] if self.text else cells
        self.word = max(map(cell_len, [*_HEAD_PIECE.findall(self.name), *whole]), default=0)
        self.least = min(self.word, _WIDE) if self.text and not label else self.word


def _break_head(name: str, width: int) -> str:
    """The head of a column in lines of this width, broken at spaces and below underscores."""
    lines = [""]
    for piece in re.findall(r" ?[^ _]*_*", name):
        if lines[-1] and cell_len(lines[-1] + piece) > width:
            lines.append(piece.strip())
        else:
            lines[-1] += piece
    return "\n".join(lines)


def _grid(
    columns: Sequence[_Laid],
    styles: Sequence[str],
    room: int,
    ruled: int,
    dense: bool = False,
) -> Grid:
    """The widest columns give way first: heads and texts are broken at spaces, and words only where nothing else makes
    room. Numbers are never cut. ruled: the line above which there is a rule; 0: none. dense: see `Table`."""
    grid = Grid(
        box=box.SIMPLE_HEAD,
        show_edge=not dense,
        pad_edge=False,
        padding=(0, 0, 0, _GAP - 1),
    )
    widths = [one.longest for one in columns]
    room -= _GAP * (len(columns) - dense)
    for least in ([one.word for one in columns], [1 if one.text else one.word for one in columns]):
        while sum(widths) > room and (
            wide := [i for i, width in enumerate(widths) if width > least[i]]
        ):
            widths[max(wide, key=widths.__getitem__)] -= 1
    for one, width in zip(columns, widths, strict=True):
        grid.add_column(
            _break_head(one.name, width),
            justify="left" if one.text else "right",
            overflow="fold",
            width=width,
        )
    for number, style in enumerate(styles):
        if ruled and number == ruled:
            grid.add_row(*(Text("─" * width) for width in widths), style="dim")
        grid.add_row(*(Text(one.cells[number]) for one in columns), style=style)
    return grid
