"""Writing for people and for programs: answers on stdout, messages on stderr."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpicl.core.json_text import plain as plain
from dpicl.core.messages import count as count
from dpicl.core.messages import duration as duration
from dpicl.core.messages import message as message
from dpicl.core.printable import printable

if TYPE_CHECKING:
    from dpicl.results.store import Damaged

#: Columns of tables where stdout is no terminal and $COLUMNS does not say it, as of boards.
_WIDTH = 80
#: Rows from which a table is laid out by its widest cells.
_LONG = 100


def emit(text: str, styled: bool = False) -> None:
    """The answer, for people. styled: it is a board with colours, whose names are safe already."""
    sys.stdout.write(printable(text.rstrip("\n"), styled) + "\n")


def emit_json(document: Any) -> None:
    """The answer as one JSON document; infinity and NaN are texts, as in result files."""
    sys.stdout.write(json.dumps(plain(document), indent=1) + "\n")


@dataclass(frozen=True)
class Answer:
    """What a verb answers that returns no object of its own: a JSON document, how people see it, and the exit code."""

    document: Any
    show: Callable[[], None]
    code: int = 0


def emit_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """A plain table as wide as the terminal (or $COLUMNS) at most; what is longer in a column goes on below."""
    from rich.console import Console
    from rich.table import Table

    title = printable(title)
    width = shutil.get_terminal_size((_WIDTH, 24)).columns
    if len(rows) > _LONG and not title and _emit_long(columns, rows, width):
        return
    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    cells = [[printable(cell) for cell in row] for row in rows]
    for name, own in zip(columns, _widths([columns, *cells], width), strict=True):
        table.add_column(name, overflow="fold", width=own)
    for row in cells:
        table.add_row(*row)
    Console(file=sys.stdout, width=width).print(table, markup=False, highlight=False)


def _widths(lines: Sequence[Sequence[str]], width: int) -> list[int]:
    """Of each column, so that a line has room: the widest are made narrower, down to their longest words, and words are
    broken only where the longest of all columns have no room."""
    from rich.cells import cell_len

    columns = list(zip(*lines, strict=True))
    room = width - 2 * (len(columns) - 1)
    widths = [max(cell_len(part) for cell in column for part in cell.split("\n")) for column in columns]
    words = [max(map(cell_len, " ".join(column).split()), default=0) for column in columns]
    for least in (words, [1] * len(words)):
        while sum(widths) > room and (wide := [i for i, own in enumerate(widths) if own > least[i]]):
            widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


def _emit_long(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> bool:
    """The same, a tenth of the time, where every cell has room in one line; False, without it, where one has not."""
    from rich.cells import cell_len
    from rich.console import Console
    from rich.text import Text

    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(columns, *cells, strict=True)]
    if sum(widths) + 2 * (len(widths) - 1) > width or any("\n" in cell for row in cells for cell in row):
        return False
    Console(file=sys.stdout, width=width).print(Text(_line(columns, widths), style="bold"), soft_wrap=True)
    sys.stdout.write("".join(f"{_line(row, widths)}\n" for row in cells))
    return True


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    from rich.cells import cell_len

    return "  ".join(cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True))


def report_damaged(damaged: list[Damaged], moved: bool) -> None:
    """One sentence about the files that are no results."""
    from dpicl.results.store import describe_damaged

    if damaged:
        message(describe_damaged(damaged, moved))
