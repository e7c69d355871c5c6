"""Writing for people and for programs: answers on stdout, messages on stderr."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from dpicl.harness.core.json_text import plain as plain
from dpicl.harness.core.messages import count as count
from dpicl.harness.core.messages import duration as duration
from dpicl.harness.core.messages import message as message
from dpicl.harness.core.printable import printable

if TYPE_CHECKING:
    from dpicl.harness.run.store import Damaged

#: Width of tables where stdout is no terminal.
_WIDTH = 140


def emit(text: str, styled: bool = False) -> None:
    """The answer, for people. styled: it is a board with colours, whose names are safe already."""
    sys.stdout.write(printable(text.rstrip("\n"), styled) + "\n")


def emit_json(document: Any) -> None:
    """The answer as one JSON document; infinity and NaN are texts, as in result files."""
    sys.stdout.write(json.dumps(plain(document), indent=1) + "\n")


def answer(arguments: argparse.Namespace, document: Any, show: Callable[[], None], good: bool = True) -> int:
    """The answer of a command: as one JSON document with --json, else as ``show`` writes it for people. Returns the
    exit code: 0 for a good one, else 1."""
    if arguments.json:
        emit_json(document)
    else:
        show()
    return 0 if good else 1


def emit_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """A plain table; columns are cut to the terminal's width, never elsewhere."""
    table = Table(
        *columns, title=printable(title) or None, title_justify="left", box=None, pad_edge=False, header_style="bold"
    )
    for row in rows:
        table.add_row(*map(printable, row))
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else _WIDTH, soft_wrap=not sys.stdout.isatty()).print(
        table, markup=False, highlight=False
    )


def report_damaged(damaged: list[Damaged], moved: bool) -> None:
    """One sentence about the files that are no results."""
    from dpicl.harness.run.store import damaged_said

    if damaged:
        message(damaged_said(damaged, moved))
