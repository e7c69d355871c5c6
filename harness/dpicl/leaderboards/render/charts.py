"""Draws privacy against utility with matplotlib, for papers and pages.

Names are untrusted: none is read as mathematics, control characters are written out, and a page's image runs nothing.
The same numbers are drawn to the same bytes.
"""

from __future__ import annotations

import base64
import io
import math
import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from textwrap import fill
from typing import Any
from weakref import WeakKeyDictionary

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.style import context

from dpicl.core.messages import epsilon_text
from dpicl.core.printable import make_visible
from dpicl.leaderboards.model.rows import Row, by_worth
from dpicl.leaderboards.model.task_table import TaskTable

#: Lines of a panel: of more rows those with the best scores. Tables have them all.
MOST_LINES = 24
#: Width of a column and of a page with two columns, in points; height of a panel and of a line of the legend.
_COLUMN, _PAGE, _PANEL, _LEGEND = 252, 504, 135, 12
#: Twelve colours that most kinds of colour vision tell apart (the qualitative schemes of Tol 2021), eight shapes and
#: three dashes: no two lines of a figure look alike.
_COLOURS = (
    *(
        "#332288",
        "#cc6677",
        "#117733",
        "#ee7733",
        "#44aa99",
        "#882255",
        "#0077bb",
        "#999933",
        "#aa4499",
        "#88ccee",
    ),
    *("#661100", "#777777"),
)
_SHAPES = "os^DvPX*"
_DASHES = ("solid", "dashed", "dotted")
_STYLE = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same on every machine
    "font.size": 7,
    "lines.markersize": 4,
    "lines.linewidth": 1.1,
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "dpicl",
    "pdf.fonttype": 42,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#dddddd",
    "legend.frameon": False,
    **dict.fromkeys(("axes.spines.left", "axes.spines.right", "axes.spines.top"), False),
}
_styled = context(["default", _STYLE])
_IMAGES: WeakKeyDictionary[TaskTable, Markup] = WeakKeyDictionary()


@_styled
def privacy_utility(panels: Sequence[tuple[str, TaskTable]], about: str = "") -> Figure:
    """Score against ε: a panel for each (title, table), a line with 95% intervals for each row, one legend.

    Rows without an ε of their own (zero-shot, controls at ε = 0, real demonstrations) are lines across. One panel is as
    wide as a column (3.5 inches), several are as wide as the page (7 inches). about: the title of the legend.
    """
    lines = [_best(table) for _, table in panels]
    across = {row.name for _, table in panels for row in table.references}
    labels = [*sorted(set().union(*lines)), *sorted(across)]
    styles = {label: number for number, label in enumerate(labels)}
    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    width, names_a_line = (_COLUMN, 2) if len(panels) == 1 else (_PAGE, 4)
    height = _PANEL * rows + _LEGEND * (math.ceil(len(labels) / names_a_line) + 1)
    figure = Figure(figsize=(width / 72, height / 72), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    handles: dict[str, Any] = {}
    for panel, (title, table), of_table in zip(axes, panels, lines, strict=False):
        handles |= _panel(panel, table, of_table, styles)
        panel.set(title=_cut(title, 40))
        panel.set_ylabel(fill(_cut(table.describe_metrics(), 80), 28), fontsize=6)
    for panel in axes[len(panels) :]:
        panel.set_axis_off()
    labels = [label for label in labels if label in handles]
    legend = figure.legend(
        [handles[label] for label in labels],
        ["-"] * len(labels),
        loc="outside lower center",
        ncols=names_a_line,
        title=_cut(about, 60),
    )
    for text, label in zip(
        legend.get_texts(), labels, strict=True
    ):  # a name may begin with "_", which is left out
        text.set_text(_cut(label, 40))
    return figure


def _best(table: TaskTable) -> dict[str, list[Row]]:
    """Name -> its rows by ε, of the names with the best scores."""
    rows = [row for row in table.rows if not row.is_reference]
    best = dict.fromkeys(row.name for row in by_worth(rows))
    lines: dict[str, list[Row]] = {name: [] for name in list(best)[:MOST_LINES]}
    for row in sorted(rows, key=attrgetter("epsilon")):
        if row.name in lines:
            lines[row.name].append(row)
    return lines


def _panel(
    axes: Axes,
    table: TaskTable,
    lines: Mapping[str, Sequence[Row]],
    styles: Mapping[str, int],
) -> dict[str, Any]:
    """Draws a table; name -> what stands for it in the legend."""
    places = _places(sorted({row.epsilon for rows in lines.values() for row in rows}))
    ticks = list(places.values())
    gap = min((after - before for before, after in pairwise(ticks)), default=1.0)
    handles: dict[str, Any] = {}
    for number, (label, rows) in enumerate(sorted(lines.items())):
        shift = (
            0.5 * gap * ((number + 0.5) / len(lines) - 0.5)
        )  # lines that share an ε stand side by side
        style = styles[label]
        colour = _COLOURS[style % len(_COLOURS)]
        handles[label] = axes.errorbar(
            [places[row.epsilon] + shift for row in rows],
            [row.score for row in rows],
            yerr=[
                [row.score - row.low for row in rows],
                [row.high - row.score for row in rows],
            ],
            color=colour,
            ecolor=(colour, 0.6),
            marker=_SHAPES[style % len(_SHAPES)],
            linestyle=_DASHES[style // len(_COLOURS) % len(_DASHES)],
        )
    for row in table.references:
        axes.axhspan(row.low, row.high, color="black", alpha=0.05, linewidth=0)
        dashes = (0, (5, 1.5) + (1, 1.5) * (styles[row.name] % 4))
        handles[row.name] = axes.axhline(row.score, color="black", linestyle=dashes, linewidth=0.8)
    axes.set_xlim(min(ticks, default=0) - 0.6 * gap, max(ticks, default=0) + 0.6 * gap)
    axes.set_xticks(ticks, list(map(epsilon_text, places)))
    axes.set_xlabel("target ε (logarithmic)")
    return handles


def _places(epsilons: Sequence[float]) -> dict[float, float]:
    """ε -> its place on the axis: the logarithm, and one step beyond the last for infinity."""
    logs = [math.log10(epsilon) for epsilon in epsilons if math.isfinite(epsilon)]
    step = (logs[-1] - logs[0]) / (len(logs) - 1) if len(logs) > 1 else 1.0
    infinity = (logs[-1] if logs else 0.0) + step
    return dict(zip(epsilons, [*logs, infinity], strict=False))


@_styled
def file_of(figure: Figure, kind: str, transparent: bool = False) -> bytes:
    """The content of a file: pdf, png or svg. It has no date: the same figure is the same bytes."""
    content = io.BytesIO()
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a character that the font lacks
        figure.savefig(content, format=kind, metadata=undated, dpi=300, transparent=transparent)
    return content.getvalue()


def image_address(table: TaskTable) -> Markup:
    """The figure of a table as the address of an image that a page holds itself, without a ground of its own. It is
    drawn once: the first page of a site shows those of its first suite again."""
    if table not in _IMAGES:
        content = base64.b64encode(
            file_of(privacy_utility([("", table)]), "svg", transparent=True)
        ).decode()
        _IMAGES[table] = Markup(f"data:image/svg+xml;base64,{content}")  # has no markup
    return _IMAGES[table]


def _cut(text: str, longest: int) -> str:
    """A name that has room."""
    whole = make_visible(text)
    return whole if len(whole) <= longest else f"{whole[: longest - 1]}…"
