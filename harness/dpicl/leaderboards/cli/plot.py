"""`dpicl plot`: privacy against utility of a suite's rows, as a figure for a paper."""

from __future__ import annotations

import argparse
from pathlib import Path

from dpicl.cli import output
from dpicl.cli.arguments import Subparsers, add_command
from dpicl.core.errors import UsageError, require_known
from dpicl.core.vocabulary import model_name
from dpicl.leaderboards.cli import board
from dpicl.leaderboards.model.text import names_text
from dpicl.leaderboards.render.board_charts import printed
from dpicl.leaderboards.render.charts import in_print
from dpicl.leaderboards.render.page import write_file

ENDINGS = ("pdf", "png", "svg")
#: What may differ between sections; the panels' titles then name it.
_NAMES = ("model", "weights", "source", "delta", "notion")


def add(subparsers: Subparsers) -> None:
    """Adds the command."""
    parser = add_command(
        subparsers,
        "plot",
        "dpicl plot classification --task agnews --task dbpedia --out figure.pdf",
        _plot,
    )
    board.add_flags(parser)
    for flag, kept, letter, what in (
        ("--task", "tasks", "T", "task"),
        ("--mechanism", "labels", "M", "row of the board"),
    ):
        help = f"{what}; may be repeated"  # another `dest` than those of `selected`: the board is the whole suite's
        parser.add_argument(flag, action="append", default=[], dest=kept, metavar=letter, help=help)
    parser.add_argument(
        "--out", type=_figure, required=True, metavar="FILE", help=f"figure to write: {', '.join(ENDINGS)}"
    )


def _figure(text: str) -> Path:
    path = Path(text)
    if path.suffix.removeprefix(".") not in ENDINGS:
        raise argparse.ArgumentTypeError(f"a figure's name ends in .{', .'.join(ENDINGS)}, not '{text}'")
    return path


def _plot(arguments: argparse.Namespace) -> int:
    found = [(one.group, table) for one in board.view(arguments).board.sections for table in one.tables]
    there = list(dict.fromkeys(table.task for _, table in found))
    if absent := [task for task in arguments.tasks if task not in there]:
        raise UsageError(f"Task '{absent[0]}' is not on this board, which has {names_text(there)}.")
    require_known("mechanism", arguments.labels, {row.label for _, table in found for row in table.rows})
    tables = [pair for pair in found if pair[1].task in (arguments.tasks or there)]
    differs = [name for name in _NAMES if len({vars(group)[name] for group, _ in tables}) > 1]
    panels = [
        (
            ", ".join([table.task, *(model_name(str(vars(group)[name])) for name in differs)]),
            table.only(arguments.labels),
        )
        for group, table in tables
    ]
    about = names_text(dict.fromkeys(model_name(group.model) for group, _ in tables))
    write_file(arguments.out, in_print(printed(panels, about).file)(arguments.out.suffix.removeprefix(".")))
    said = f"Figure: {arguments.out} ({output.count(len(panels), 'panel')})"
    document = {"figure": arguments.out, "panels": [title for title, _ in panels]}
    return output.answer(arguments, document, lambda: output.emit(said))
