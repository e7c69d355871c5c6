"""Draws boards as Vega-Lite specifications, which vl-convert turns into SVG, PNG and PDF without a browser.

A specification holds its numbers and loads nothing. The same numbers are the same specification and the same SVG. Names
are untrusted: they are values of text marks, which Vega never evaluates, and pages hold a chart as an image, which runs
nothing.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final

import vl_convert
from markupsafe import Markup

from dpicl.core.messages import epsilon_text, score_text
from dpicl.core.printable import make_visible
from dpicl.leaderboards.model.rows import Row, by_worth
from dpicl.leaderboards.model.task_table import TaskTable
from dpicl.leaderboards.model.text import recovery_text
from dpicl.leaderboards.render.methods import CONTROL, Style, style_of
from dpicl.tables.document import Figure

#: A Vega-Lite specification.
Spec = dict[str, Any]
#: Lines of a panel of scores: of more rows those with the best scores. Tables have them all.
MOST_LINES: Final = 24
#: Pixels: width of a panel and of the words on both sides of it, height of a line of words.
_WIDTH, _NAMES, _NUMBERS, _LINE = 140, 146, 118, 18
#: Recoveries that have room; an arrow stands for those beyond.
_LOWEST, _HIGHEST = -1.0, 1.75
_INK, _QUIET, _RULE = "#1b1f24", "#5b6470", "#8a929c"
_CONFIG: Final = {
    "aria": False,
    "font": "Liberation Sans, Arial, Helvetica, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "domain": False,
        "grid": False,
        "labelColor": _QUIET,
        "tickColor": _RULE,
        "titleColor": _QUIET,
        "titleFontWeight": "normal",
    },
    "title": {"anchor": "start", "color": _INK, "fontSize": 12, "offset": 8},
    "text": {"fontSize": 11, "color": _INK, "baseline": "middle"},
    "rule": {"strokeCap": "butt"},
}


def figure(panels: Sequence[tuple[str, Spec]], about: str = "") -> Spec:
    """(title, panel) side by side, at most three in a line. about: the title of the figure."""
    titled = [{"title": _cut(title, 60), **panel} for title, panel in panels]
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": _cut(about, 80),
        "concat": titled,
        "columns": min(3, len(panels)),
        "spacing": 24,
        "background": "white",
        "config": _CONFIG,
    }


def render(spec: Spec, kind: str) -> bytes:
    """The content of a file: pdf, png (300 dots an inch), svg, or json, the specification itself. It has no date."""
    if kind == "json":
        return (json.dumps(spec, indent=1, ensure_ascii=False) + "\n").encode()
    svg = vl_convert.vegalite_to_svg(spec)
    match kind:
        case "pdf":
            return vl_convert.svg_to_pdf(svg)
        case "png":
            return vl_convert.svg_to_png(svg, scale=300 / 72)
    return svg.encode()


def page_figure(caption: str, panel: Spec, task: str) -> Figure:
    """A panel as an image that a page holds itself, without a ground of its own. All panels of recovery are equally
    wide, so that their words are equally large."""
    padding = {"left": _NAMES, "right": _NUMBERS, "top": 34, "bottom": 24}
    frame = {"autosize": "none", "padding": padding, "background": None, "config": _CONFIG}
    content = base64.b64encode(render(panel | frame, "svg")).decode()
    address = Markup(f"data:image/svg+xml;base64,{content}")  # has no markup
    width = _NAMES + panel["width"] + _NUMBERS
    height = panel["height"] + padding["top"] + padding["bottom"]
    return Figure(caption, address, (round(width), round(height)), {"task": task})


def style_of_row(row: Row) -> Style:
    """Grey for what is no method."""
    return CONTROL if row.is_reference or row.is_control else style_of(row.mechanism)


# Recovery.


def recovered_rows(table: TaskTable, epsilon: float) -> list[Row]:
    """The rows at an ε that have a recovery: methods, then controls, each the best first. None where the task ranks
    nobody, so that a recovery would be mostly noise, and where no method has one."""
    if table.ranks_nobody:
        return []
    rows = [row for row in table.rows if row.epsilon == epsilon and row.recovery is not None]
    rows.sort(key=lambda row: (row.is_control, -(row.recovery or 0.0), row.label))
    return [] if all(row.is_control for row in rows) else rows


def recovery_panel(table: TaskTable, epsilon: float) -> Spec:
    """The recovery of every row of a task at an ε with its 95% interval: 0 is the best control without records, 1 what
    real demonstrations reach. A line each, methods first."""
    points: list[dict[str, Any]] = []
    for row in recovered_rows(table, epsilon):
        gap = 0.5 if row.is_control and points and not points[-1]["control"] else 0.0
        place = points[-1]["y"] + 1 + gap if points else 0.0
        points.append(_recovery_point(row, place))
    height = points[-1]["y"] + 1 if points else 1
    x = {
        "field": "x",
        "type": "quantitative",
        "scale": {"domain": [_LOWEST, _HIGHEST], "nice": False},
        "axis": {"title": None, "values": [-1, 0, 1], "format": "%"},
    }
    y = {
        "field": "y",
        "type": "quantitative",
        "scale": {"domain": [-0.5, height - 0.5], "reverse": True, "nice": False, "zero": False},
        "axis": None,
    }
    sides = [
        {"x": 0.0, "text": _end_text("best control", table, 0), "align": "right"},
        {"x": 1.0, "text": _end_text("real", table, 1), "align": "left"},
    ]
    ends = {"data": {"values": sides}, "encoding": {"x": x}}
    return {
        "width": _WIDTH,
        "height": _LINE * height,
        "data": {"values": points},
        "layer": [
            {**ends, "mark": {"type": "rule", "color": _RULE}},
            *(
                {
                    **ends,
                    "transform": [{"filter": f"datum.align == '{side}'"}],
                    "mark": {"type": "text", "align": side, "dx": shift, "lineBreak": "\n"},
                    "encoding": {
                        "x": x,
                        "y": {"value": -17},
                        "text": {"field": "text"},
                        "color": {"value": _QUIET},
                    },
                }
                for side, shift in (("right", 6), ("left", -6))
            ),
            _rules({"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y}),
            _shapes({"x": x, "y": y}),
            _words(y, "name", -8, "right"),
            _words(y, "text", _WIDTH + 10, "left", 10),
        ],
    }


def _recovery_point(row: Row, place: float) -> dict[str, Any]:
    """What is drawn of a row. place: its line."""
    style = style_of_row(row)
    recovery = row.recovery or 0.0
    shape, text = style.shape, recovery_text(recovery)
    if not _LOWEST <= recovery <= _HIGHEST:
        shape = "triangle-left" if recovery < _LOWEST else "triangle-right"
    low, high = row.recovery_interval or (recovery, recovery)
    if row.recovery_interval is not None:
        text += f" ({100 * low:.0f} to {100 * high:.0f})"
    return {
        "y": place,
        "name": _cut(row.name, 24),
        "text": text.replace("-", "−"),
        "x": _within(recovery),
        "low": _within(low),
        "high": _within(high),
        **_look(style.colour, shape),
        "ink": _QUIET if row.is_control else _INK,
        "control": row.is_control,
    }


def _within(recovery: float) -> float:
    return round(min(max(recovery, _LOWEST), _HIGHEST), 4)


def _end_text(name: str, table: TaskTable, end: int) -> str:
    """What a line of the axis stands for, with its score over the seeds of the first row that has one."""
    for row in table.rows:
        if row.control is not None and row.real_data is not None:
            return f"{name}\n{score_text((row.control, row.real_data)[end])}"
    return name


# Scores against ε.


def score_panel(table: TaskTable) -> Spec:
    """Score against ε: a line with 95% intervals for each row; the best control without records and real
    demonstrations are grey lines across. Levels of ε are equally far apart; rows that share one stand side by side."""
    lines = _best(table)
    levels = sorted({row.epsilon for rows in lines.values() for row in rows})
    points: list[dict[str, Any]] = []
    for number, (label, rows) in enumerate(sorted(lines.items())):
        shift = 0.5 * ((number + 0.5) / len(lines) - 0.5)
        style = style_of_row(rows[0])
        for row in rows:
            points.append(
                {
                    "x": round(levels.index(row.epsilon) + shift, 4),
                    "y": row.score,
                    "low": row.low,
                    "high": row.high,
                    "label": label,
                    **_look(style.colour, style.shape),
                }
            )
    across: list[dict[str, Any]] = [{"y": row.score, "name": row.name} for row in _find_ends(table)]
    last = {point["label"]: point for point in points}  # that of the largest ε
    names = [
        {"y": point["y"], "name": _cut(label, 40), **_look(point["colour"], point["shape"])}
        for label, point in last.items()
    ]
    names += [
        {"y": row["y"], "name": _cut(row["name"], 40), **_look(_QUIET, "stroke")} for row in across
    ]
    values = [value for point in points for value in (point["low"], point["high"])]
    values += [row["y"] for row in across]
    low = math.floor(10 * min(values, default=0.0)) / 10
    high = math.ceil(10 * max(values, default=1.0)) / 10
    high = max(high, low + 0.1)
    height = max(_PANEL, _LABEL * len(names))
    _spread(names, low, high, height)
    x = {
        "field": "x",
        "type": "quantitative",
        "scale": {"domain": [-0.5, max(len(levels), 1) - 0.5], "nice": False},
        "axis": {
            "title": "target ε",
            "values": list(range(len(levels))),
            "labelExpr": f"{[epsilon_text(level) for level in levels]}[datum.value]",
        },
    }
    y = {
        "field": "y",
        "type": "quantitative",
        "scale": {"domain": [low, high], "nice": False, "zero": False},
        "axis": {"title": _cut(table.metric, 40), "tickCount": 5},
    }
    place = {"field": "place", "type": "quantitative", "scale": None}
    labels = {"values": names}
    return {
        "width": _SCORES,
        "height": height,
        "data": {"values": points},
        "layer": [
            {
                "data": {"values": across},
                "mark": {"type": "rule", "color": _RULE},
                "encoding": {"y": y},
            },
            {
                "mark": {"type": "line", "strokeWidth": 1.5},
                "encoding": {"x": x, "y": y, "detail": {"field": "label"}, "color": _COLOUR},
            },
            _rules({"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}}),
            _shapes({"x": x, "y": y}),
            {"data": labels, **_shapes({"x": {"value": _SCORES + 10}, "y": place})},
            {"data": labels, **_words(place, "name", _SCORES + 18, "left")},
        ],
    }


#: Pixels of a panel of scores: its width and least height, and the distance of its labels.
_SCORES, _PANEL, _LABEL = 210, 170, 13


def _best(table: TaskTable) -> Mapping[str, list[Row]]:
    """Name -> its rows by ε, of the names with the best scores."""
    rows = [row for row in table.rows if not row.is_reference]
    best = dict.fromkeys(row.name for row in by_worth(rows))
    lines: dict[str, list[Row]] = {name: [] for name in list(best)[:MOST_LINES]}
    for row in sorted(rows, key=attrgetter("epsilon")):
        if row.name in lines:
            lines[row.name].append(row)
    return lines


def _find_ends(table: TaskTable) -> list[Row]:
    """The best row that reads no record, and real demonstrations."""
    ends = [*by_worth(table.without_records)[:1], table.real_data]
    return [row for row in ends if row is not None]


def _spread(names: list[dict[str, Any]], low: float, high: float, height: float) -> None:
    """Gives every name a `place`, in pixels from the top: that of its score, moved where two would overlap."""
    names.sort(key=itemgetter("y"), reverse=True)
    free = -math.inf
    for name in names:
        wanted = height * (high - name["y"]) / (high - low)
        name["place"] = max(wanted, free)
        free = name["place"] + _LABEL
    limit = height
    for name in reversed(names):
        name["place"] = round(min(name["place"], limit), 2)
        limit = name["place"] - _LABEL


# Marks.

_COLOUR: Final = {"field": "colour", "scale": None}


def _look(colour: str, shape: str) -> dict[str, str]:
    return {"colour": colour, "shape": shape, "ink": colour}


def _rules(encoding: Spec) -> Spec:
    """Intervals."""
    return {
        "mark": {"type": "rule", "strokeWidth": 1.5, "opacity": 0.7},
        "encoding": {**encoding, "color": _COLOUR},
    }


def _shapes(encoding: Spec) -> Spec:
    return {
        "mark": {"type": "point", "filled": True, "opacity": 1, "size": 55},
        "encoding": {
            **encoding,
            "color": _COLOUR,
            "shape": {"field": "shape", "scale": None},
        },
    }


def _words(y: Spec, field: str, x: float, align: str, size: float = 11) -> Spec:
    """Texts beside a panel. x: pixels from its left side."""
    return {
        "mark": {"type": "text", "align": align, "fontSize": size},
        "encoding": {
            "x": {"value": x},
            "y": y,
            "text": {"field": field},
            "color": {"field": "ink", "scale": None},
        },
    }


def _cut(text: str, longest: int) -> str:
    """A name that has room."""
    whole = make_visible(text)
    return whole if len(whole) <= longest else f"{whole[: longest - 1]}…"
