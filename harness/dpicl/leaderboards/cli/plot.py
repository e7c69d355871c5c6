"""`dpicl plot`: draws privacy against utility of a suite's rows, as a figure for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Unpack

from dpicl.api.parameters import Flag, OnePath, Rows, SuiteName, Tasks, as_list, verb
from dpicl.cli.output import Answer
from dpicl.core.messages import count, names_text
from dpicl.core.vocabulary import model_name
from dpicl.leaderboards.cli.board import OfBoard, view
from dpicl.leaderboards.model.board import choose_part
from dpicl.leaderboards.render.charts import file_of, privacy_utility
from dpicl.leaderboards.render.page import write_file

ENDINGS = ("pdf", "png", "svg")
#: What may differ between sections; the panels' titles then name it.
_NAMES = ("model", "weights", "source", "delta")


def _figure(given: Any) -> Path:
    path = Path(given)
    if path.suffix.removeprefix(".") not in ENDINGS:
        raise ValueError(f"must be a figure, whose name ends in .{', .'.join(ENDINGS)}, not '{given}'")
    return path


@verb("dpicl plot ginc --out figure.pdf")
def plot(
    suite: SuiteName,
    *,
    task: Tasks = (),
    mechanism: Rows = (),
    out: Annotated[OnePath, Flag(check=_figure)],
    **given: Unpack[OfBoard],
) -> Answer:
    """Writes a figure: a panel for each task, a line for each row. Raises UsageError for what is not on the board.

    mechanism: row of the board; may be repeated (or A,B).
    out: figure to write: pdf, png, svg.
    """
    file = Path(out)
    board = choose_part(view(suite, given).board, as_list(task), as_list(mechanism))
    tables = [(one.group, table) for one in board.sections for table in one.tables]
    differs = [name for name in _NAMES if len({vars(group)[name] for group, _ in tables}) > 1]
    panels = [
        (", ".join([table.task, *(model_name(str(vars(group)[name])) for name in differs)]), table)
        for group, table in tables
    ]
    about = names_text(dict.fromkeys(model_name(group.model) for group, _ in tables))
    write_file(file, file_of(privacy_utility(panels, about), file.suffix.removeprefix(".")))
    said = f"Figure: {file} ({count(len(panels), 'panel')})"
    document = {"figure": file, "panels": [title for title, _ in panels]}
    return Answer(document, [said])
