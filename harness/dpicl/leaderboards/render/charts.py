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
from textwrap import fill
from typing import Any
from weakref import WeakKeyDictionary

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.style import context

from dpicl.core.messages import epsilon_text
from dpicl.core.printable import make_visible
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.task_table import TaskTable

#: Lines of a panel: of more rows those with the best scores. Tables have them all.
MOST_LINES = 24
#: Width of a column and of a page with two columns, in points; height of a panel and of a line of the legend.
_COLUMN, _PAGE, _PANEL, _LEGEND = 252, 504, 135, 12
#: Twelve colours that most kinds of colour vision tell apart (the qualitative schemes of Tol 2021), eight shapes and
#: three dashes: no two lines of a figure look alike.
_COLOURS = (
    *("#332288", "#cc6677", "#117733", "#ee7733", "#44aa99", "#882255", "#0077bb", "#999933", "#aa4499", "#88ccee"),
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
    shown = [(title, table, _best(table)) for title, table in panels]
    labels = sorted({row.name for _, table, _ in shown for row in _list_across(table)})
    labels = [*sorted({label for _, _, best in shown for label in best}), *labels]
    styles = {label: number for number, label in enumerate(labels)}
    columns, (width, names) = min(3, len(panels)), (_COLUMN, 2) if len(panels) == 1 else (_PAGE, 4)
    rows = math.ceil(len(panels) / columns)
    height = _PANEL * rows + _LEGEND * (math.ceil(len(labels) / names) + 1)
    figure = Figure(figsize=(width / 72, height / 72), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    handles: dict[str, Any] = {}
    for own, (title, table, best) in zip(axes, shown, strict=False):
        handles |= _panel(own, table, best, styles)
        own.set(title=_cut(title, 40))
        own.set_ylabel(fill(_cut(table.describe_metrics(), 80), 28), fontsize=6)
    for own in axes[len(panels) :]:
        own.set_axis_off()
    found = [label for label in labels if label in handles]
    legend = figure.legend(
        [handles[label] for label in found], ["-"] * len(found), loc="outside lower center", ncols=names,
        title=_cut(about, 60),
    )  # fmt: skip
    for text, label in zip(legend.get_texts(), found, strict=True):  # a name may begin with "_", which is left out
        text.set_text(_cut(label, 40))
    return figure


def _list_across(table: TaskTable) -> list[Row]:
    """What is drawn as a line across."""
    return [row for row in table.in_order if row.is_reference]


def _best(table: TaskTable) -> dict[str, list[Row]]:
    """Name -> its rows by ε, of the names with the best scores."""
    lines: dict[str, list[Row]] = {}
    for row in sorted(table.rows, key=lambda row: row.epsilon):
        if not row.is_reference:
            lines.setdefault(row.name, []).append(row)
    best = sorted(lines, key=lambda label: -max(row.worth for row in lines[label]))[:MOST_LINES]
    return {label: lines[label] for label in best}


def _panel(
    axes: Axes, table: TaskTable, lines: Mapping[str, Sequence[Row]], styles: Mapping[str, int]
) -> dict[str, Any]:
    """Draws a table; name -> what stands for it in the legend."""
    epsilons = sorted({row.epsilon for own in lines.values() for row in own})
    places = _places(epsilons)
    gap = min((b - a for a, b in zip(places.values(), list(places.values())[1:], strict=False)), default=1.0)
    handles: dict[str, Any] = {}
    for number, (label, rows) in enumerate(sorted(lines.items())):
        shift = 0.5 * gap * ((number + 0.5) / len(lines) - 0.5)  # lines that share an ε stand side by side
        colour, style = _COLOURS[styles[label] % len(_COLOURS)], _DASHES[styles[label] // len(_COLOURS) % len(_DASHES)]
        handles[label] = axes.errorbar(
            [places[row.epsilon] + shift for row in rows], [row.score for row in rows],
            yerr=[[row.score - row.low for row in rows], [row.high - row.score for row in rows]],
            color=colour, ecolor=(colour, 0.6), marker=_SHAPES[styles[label] % len(_SHAPES)], linestyle=style,
        )  # fmt: skip
    for row in _list_across(table):
        axes.axhspan(row.low, row.high, color="black", alpha=0.05, linewidth=0)
        dashes = (0, (5, 1.5) + (1, 1.5) * (styles[row.name] % 4))
        handles[row.name] = axes.axhline(row.score, color="black", linestyle=dashes, linewidth=0.8)
    axes.set_xlim(min(places.values(), default=0) - 0.6 * gap, max(places.values(), default=0) + 0.6 * gap)
    axes.set_xticks(list(places.values()), [epsilon_text(one) for one in places])
    axes.set_xlabel("target ε (logarithmic)")
    return handles


def _places(epsilons: Sequence[float]) -> dict[float, float]:
    """ε -> its place on the axis: the logarithm, and one step beyond the last for infinity."""
    logs = {epsilon: math.log10(epsilon) for epsilon in epsilons if math.isfinite(epsilon)}
    found = list(logs.values())
    step = (found[-1] - found[0]) / (len(found) - 1) if len(found) > 1 else 1.0
    return {epsilon: logs.get(epsilon, (found[-1] if found else 0.0) + step) for epsilon in epsilons}


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
        content = base64.b64encode(file_of(privacy_utility([("", table)]), "svg", transparent=True)).decode()
        _IMAGES[table] = Markup(f"data:image/svg+xml;base64,{content}")  # has no markup
    return _IMAGES[table]


def _cut(text: str, longest: int) -> str:
    """A name that has room."""
    whole = make_visible(text)
    return whole if len(whole) <= longest else f"{whole[: longest - 1]}…"
