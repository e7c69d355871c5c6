"""`dpicl plot`: privacy against utility of a suite's rows, as a figure for a paper."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dpicl.harness.cli import output
from dpicl.harness.cli.arguments import Subparsers, add_command
from dpicl.harness.core.errors import require_known
from dpicl.leaderboards.cli import board
from dpicl.leaderboards.model.standings import TaskTable
from dpicl.leaderboards.render.board_charts import printed
from dpicl.leaderboards.render.charts import in_print
from dpicl.leaderboards.render.page import write_file

ENDINGS = ("pdf", "png", "svg")
#: What may differ between sections; the panels' titles then name it.
_NAMES = ("model", "weights", "source", "delta")


def add(subparsers: Subparsers) -> None:
    """Adds the command."""
    parser = add_command(
        subparsers,
        "plot",
        "dpicl plot classification --task agnews --task dbpedia --out figure.pdf",
        _plot,
    )
    board.add_flags(parser)
    parser.repeated("--task", "T", "task")
    parser.add_argument(
        "--mechanism", action="append", default=[], dest="labels", metavar="M", help="row of the board; may be repeated"
    )
    parser.add_argument(
        "--out", type=_figure, required=True, metavar="FILE", help=f"figure to write: {', '.join(ENDINGS)}"
    )


def _figure(text: str) -> Path:
    path = Path(text)
    if path.suffix.removeprefix(".") not in ENDINGS:
        raise argparse.ArgumentTypeError(f"a figure's name ends in .{', .'.join(ENDINGS)}, not '{text}'")
    return path


def _plot(arguments: argparse.Namespace) -> int:
    sections = board.view(arguments).board.sections
    tables = [(section.group, table) for section in sections for table in section.tables]
    require_known("task", arguments.task, {table.task for _, table in tables})
    require_known("mechanism", arguments.labels, {row.label for _, table in tables for row in table.rows})
    differs = [name for name in _NAMES if len({vars(section.group)[name] for section in sections}) > 1]
    panels = [
        (", ".join([table.task, *(str(vars(group)[name]) for name in differs)]), _only(table, arguments.labels))
        for group, table in tables
        if not arguments.task or table.task in arguments.task
    ]
    write_file(arguments.out, in_print(printed(panels).file)(arguments.out.suffix.removeprefix(".")))
    if arguments.json:
        output.emit_json({"figure": arguments.out, "panels": [title for title, _ in panels]})
    else:
        output.emit(f"Figure: {arguments.out} ({output.count(len(panels), 'panel')})")
    return 0


def _only(table: TaskTable, labels: Sequence[str]) -> TaskTable:
    return replace(table, rows=tuple(row for row in table.rows if not labels or row.label in labels))
