"""`dpicl plot`: draws the recovery or the scores of a suite's rows, as a figure for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Unpack

from dpicl.api.parameters import Flag, OnePath, Rows, SuiteName, Tasks, as_list, verb
from dpicl.cli.output import Answer
from dpicl.core.errors import UsageError
from dpicl.core.messages import count, epsilon_text, names_text
from dpicl.core.vocabulary import model_name
from dpicl.leaderboards.cli.board import OfBoard, view
from dpicl.leaderboards.model.board import Section, choose_part
from dpicl.leaderboards.render.board_view import first_level
from dpicl.leaderboards.render.charts import (
    LONG,
    Spec,
    contrast_panel,
    figure,
    recovered_rows,
    recovery_panel,
    render,
    score_panel,
    tested_claims,
)
from dpicl.leaderboards.render.page import write_file

ENDINGS = ("pdf", "png", "svg", "json")
#: What may differ between sections; the panels' titles then name it.
_NAMES = ("model", "weights", "source", "delta")


def _figure(name: Any) -> Path:
    path = Path(name)
    if path.suffix.removeprefix(".") not in ENDINGS:
        raise ValueError(
            f"must be a figure, whose name ends in .{', .'.join(ENDINGS)}, not '{name}'"
        )
    return path


Kind = Literal["scores", "recovery", "claims"]


@verb("dpicl plot ginc --out figure.pdf")
def plot(
    suite: SuiteName,
    *,
    kind: Kind = "scores",
    task: Tasks = (),
    mechanism: Rows = (),
    out: Annotated[OnePath, Flag(check=_figure)],
    **options: Unpack[OfBoard],
) -> Answer:
    """Writes a figure: a panel for each task. Raises UsageError for what is not on the board.

    kind: scores against epsilon, recovery at the first epsilon, or the differences of planned claims.
    mechanism: row of the board; may be repeated (or A,B).
    out: figure to write: pdf, png, svg, or json, which is its Vega-Lite specification.
    """
    file = Path(out)
    board = choose_part(view(suite, options).board, as_list(task), as_list(mechanism))
    sections = [section for section in board.sections if section.tables]
    groups = [vars(section.group) for section in sections]
    differing = [name for name in _NAMES if len({group[name] for group in groups}) > 1]
    panels: list[tuple[str, Spec]] = []
    for section, group in zip(sections, groups, strict=True):
        names = [model_name(str(group[name])) for name in differing]
        for where, panel in _panels(section, kind):
            panels.append((", ".join([where, *names]), panel))
    if not panels:
        raise UsageError(
            "No planned claim has a test here; `dpicl board SUITE --full` says why."
            if kind == "claims"
            else "No row has a recovery here, since real demonstrations gain too little; plot --kind scores."
        )
    about = names_text(dict.fromkeys(model_name(section.group.model) for section in sections))
    write_file(
        file,
        render(figure(panels, about, 1 if kind == "claims" else 3), file.suffix.removeprefix(".")),
    )
    document = {"figure": file, "panels": [title for title, _ in panels]}
    return Answer(document, [f"Figure: {file} ({count(len(panels), 'panel')})"])


def _panels(section: Section, kind: Kind) -> list[tuple[str, Spec]]:
    """(title, panel) of every table that has one."""
    if kind == "scores":
        return [(table.task, score_panel(table)) for table in section.tables]
    if kind == "claims":
        claims = tested_claims(section.contrasts)
        suite = f"{section.group.suite} {section.group.version}"
        return [(suite, contrast_panel(claims, LONG))] if claims else []
    level = first_level(section)
    return [
        (f"{table.task}, ε = {epsilon_text(level)}", recovery_panel(table, level))
        for table in section.tables
        if recovered_rows(table, level)
    ]
