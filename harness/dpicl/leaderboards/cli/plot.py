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


def _figure(name: Any) -> Path:
    path = Path(name)
    if path.suffix.removeprefix(".") not in ENDINGS:
        raise ValueError(
            f"must be a figure, whose name ends in .{', .'.join(ENDINGS)}, not '{name}'"
        )
    return path


@verb("dpicl plot ginc --out figure.pdf")
def plot(
    suite: SuiteName,
    *,
    task: Tasks = (),
    mechanism: Rows = (),
    out: Annotated[OnePath, Flag(check=_figure)],
    **options: Unpack[OfBoard],
) -> Answer:
    """Writes a figure: a panel for each task, a line for each row. Raises UsageError for what is not on the board.

    mechanism: row of the board; may be repeated (or A,B).
    out: figure to write: pdf, png, svg.
    """
    file = Path(out)
    board = choose_part(view(suite, options).board, as_list(task), as_list(mechanism))
    sections = [section for section in board.sections if section.tables]
    groups = [vars(section.group) for section in sections]
    differing = [name for name in _NAMES if len({group[name] for group in groups}) > 1]
    panels = []
    for section, group in zip(sections, groups, strict=True):
        names = [model_name(str(group[name])) for name in differing]
        panels += [(", ".join([table.task, *names]), table) for table in section.tables]
    about = names_text(dict.fromkeys(model_name(section.group.model) for section in sections))
    write_file(file, file_of(privacy_utility(panels, about), file.suffix.removeprefix(".")))
    document = {"figure": file, "panels": [title for title, _ in panels]}
    return Answer(document, [f"Figure: {file} ({count(len(panels), 'panel')})"])
