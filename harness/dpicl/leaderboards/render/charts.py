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
from functools import cache
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, Final, cast

import vl_convert
from markupsafe import Markup

from dpicl.core.messages import epsilon_text, score_text
from dpicl.core.printable import make_visible
from dpicl.leaderboards.model.contrasts import JudgedContrast
from dpicl.leaderboards.model.rows import Row, by_worth
from dpicl.leaderboards.model.task_table import TaskTable
from dpicl.leaderboards.render.methods import CONTROL, Style, style_of
from dpicl.tables.document import Figure

_TEMPLATES = Path(__file__).resolve().parent / "templates"
#: A Vega-Lite specification. `templates/*.vl.json` are those of a figure and of its two kinds of panels, in which
#: "$name" stands for a value.
Spec = dict[str, Any]
#: Lines of a panel of scores: of more rows those with the best scores. Tables have them all.
MOST_LINES: Final = 24
#: Recoveries that have room; an arrow stands for those beyond.
_LOWEST, _HIGHEST = -1.0, 1.75
#: Pixels: the height of a line of recovery; the least height of a panel of scores, and the distance of its labels.
_LINE, _SHORTEST, _LABEL = 18, 170, 13
#: Pixels: of a panel with the words on both sides of it; of the names of rows beside their recovery; of the axis of
#: scores; of the longest name of a claim.
_TOTAL, _NAMES, AXIS, CLAIM = 404, 146, 50, 210
#: Pixels of the longest name of a claim with its task.
LONG = 320
_INK, _QUIET, _RULE = "#1b1f24", "#5b6470", "#8a929c"


def figure(panels: Sequence[tuple[str, Spec]], about: str = "", columns: int = 3) -> Spec:
    """(title, panel) side by side, so many in a line. about: the title of the figure."""
    titled = [{"title": _cut(title, 60), **panel} for title, panel in panels]
    return _fill("figure", title=_cut(about, 80), panels=titled, columns=columns)


def _fill(template: str, **values: Any) -> Spec:
    """A template with these values in it."""

    def fill(part: Any) -> Any:
        match part:
            case dict():
                return {name: fill(value) for name, value in part.items()}
            case list():
                return [fill(value) for value in part]
            case str() if part.startswith("$"):
                return values[part[1:]]
        return part

    return cast(Spec, fill(json.loads(_read(template))))


@cache
def _read(template: str) -> str:
    return (_TEMPLATES / f"{template}.vl.json").read_text("utf-8")


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


def page_figure(caption: str, panel: Spec, task: str = "", left: int = _NAMES) -> Figure:
    """A panel as an image that a page holds itself, without a ground of its own. All are equally wide, so that their
    words are equally large. left: pixels of what stands on the left of the panel."""
    data = {"task": task} if task else {}
    total = max(_TOTAL, left + panel["width"] + 128)
    right = total - left - panel["width"]
    padding = {"left": left, "right": right, "top": 34, "bottom": 34}
    frame = {"autosize": "none", "padding": padding, "background": None}
    whole = {**panel, **frame, "config": figure([])["config"]}
    content = base64.b64encode(render(whole, "svg")).decode()
    address = Markup(f"data:image/svg+xml;base64,{content}")  # has no markup
    return Figure(caption, address, (total, round(panel["height"]) + 68), data)


def _row_style(row: Row) -> Style:
    """Grey for what is no method."""
    return CONTROL if row.is_reference or row.is_control_with_records else style_of(row.mechanism)


# Recovery.


def recovered_rows(table: TaskTable, epsilon: float) -> list[Row]:
    """The rows at an ε that have a recovery: methods, then controls, each the best first. None where the task ranks
    nobody, so that a recovery would be mostly noise, and where no method has one."""
    if table.ranks_nobody:
        return []
    rows = [row for row in table.rows if row.epsilon == epsilon and row.recovery is not None]
    rows.sort(key=lambda row: (row.is_control_with_records, -(row.recovery or 0.0), row.label))
    return [] if all(row.is_control_with_records for row in rows) else rows


def recovery_panel(table: TaskTable, epsilon: float) -> Spec:
    """The recovery of every row of a task at an ε with its 95% interval: 0 is the best control without records, 1 what
    real demonstrations reach. A line each, methods first."""
    rows = recovered_rows(table, epsilon)
    methods = sum(not row.is_control_with_records for row in rows)
    points = [
        _recovery_point(row, line if line < methods else line + 0.5)  # controls stand apart
        for line, row in enumerate(rows)
    ]
    lines = len(rows) + 0.5
    ends = [
        {"x": 0, "align": "right", "text": _end_text("best control", rows, "control")},
        {"x": 1, "align": "left", "text": _end_text("real records", rows, "real_data")},
    ]
    return _forest(points, ends, (_LOWEST, _HIGHEST), [-1, 0, 1], "%", lines)


def _forest(
    points: Sequence[Mapping[str, Any]],
    ends: Sequence[Mapping[str, Any]],
    domain: tuple[float, float],
    ticks: Sequence[float],
    unit: str,
    lines: float,
    longest: int = _NAMES - 18,
) -> Spec:
    """Points with their intervals, a line each. ends: lines down, with their names. longest: pixels of a row's name."""
    return _fill(
        "forest",
        points=points,
        ends=ends,
        domain=domain,
        ticks=ticks,
        unit=unit,
        height=_LINE * lines,
        lines=[-0.5, lines - 0.5],
        longest=longest,
    )


def _recovery_point(row: Row, line: float) -> dict[str, Any]:
    """What is drawn of a row."""
    style = _row_style(row)
    recovery = row.recovery or 0.0
    low, high = row.recovery_interval or (recovery, recovery)
    shape = style.shape
    if not _LOWEST <= recovery <= _HIGHEST:
        shape = "triangle-left" if recovery < _LOWEST else "triangle-right"
    text = f"{round(100 * recovery)}%"
    if row.recovery_interval is not None:
        text += f" ({round(100 * low)} to {round(100 * high)})"
    return {
        "y": line,
        "name": _cut(row.name, 40),
        "text": text.replace("-", "−"),
        "x": _within(recovery),
        "low": _within(low),
        "high": _within(high),
        "colour": style.colour,
        "shape": shape,
        "ink": _QUIET if row.is_control_with_records else _INK,
    }


def _within(recovery: float) -> float:
    return round(min(max(recovery, _LOWEST), _HIGHEST), 4)


def _end_text(name: str, rows: Sequence[Row], end: str) -> str:
    """What a line stands for, with its score at the seeds of the row that has most."""
    if not rows:
        return name
    longest = max(rows, key=lambda row: len(row.seeds))
    return f"{name}\n{score_text(getattr(longest, end))}"


# Planned claims.


def tested_claims(contrasts: Sequence[JudgedContrast]) -> list[tuple[str, JudgedContrast]]:
    """(claim and task, claim) of those that have a test."""
    return [(f"{claim.name}, {claim.task}", claim) for claim in contrasts if claim.test]


def contrast_panel(claims: Sequence[tuple[str, JudgedContrast]], longest: int = CLAIM - 12) -> Spec:
    """The differences of claims that have a test, with their 95% intervals: black where one is shown, grey where not.

    claims: (name, claim). longest: pixels of a name.
    """
    points = []
    widest = 0.0
    for line, (name, claim) in enumerate(claims):
        assert claim.test is not None, name
        low, high = claim.test.interval
        widest = max(widest, -low, high)
        ink = _QUIET if claim.verdict == "inconclusive" else _INK
        points.append(
            {
                "y": line,
                "name": _cut(name, longest // 6),
                "text": f"{claim.test.mean:z.2f} ({low:z.2f} to {high:z.2f})".replace("-", "−"),
                "x": claim.test.mean,
                "low": low,
                "high": high,
                "colour": ink,
                "shape": "circle",
                "ink": ink,
            }
        )
    limit = math.ceil(10 * widest + 0.1) / 10
    ends = [{"x": 0, "align": "center", "text": "no difference"}]
    lines = len(points) + 0.5
    return _forest(points, ends, (-limit, limit), [-limit, 0, limit], ".1f", lines, longest)


# Scores against ε.


def score_panel(table: TaskTable) -> Spec:
    """Score against ε: a line with 95% intervals for each row; the best control without records and real
    demonstrations are grey lines across. Levels of ε are equally far apart; rows that share one stand side by side."""
    methods = _best(table)
    levels = sorted({row.epsilon for rows in methods.values() for row in rows})
    points: list[dict[str, Any]] = []
    labels: list[dict[str, Any]] = []
    for number, (name, rows) in enumerate(sorted(methods.items())):
        shift = 0.5 * ((number + 0.5) / len(methods) - 0.5)
        style = _row_style(rows[0])
        look = {"name": _cut(name, 40), "colour": style.colour, "shape": style.shape}
        for row in rows:
            x = round(levels.index(row.epsilon) + shift, 4)
            points.append({"x": x, "y": row.score, "low": row.low, "high": row.high, **look})
        labels.append({"y": rows[-1].score, "ink": style.colour, **look})
    across: list[dict[str, Any]] = [
        {
            "y": row.score,
            "name": _cut(row.name, 40),
            "ink": _QUIET,
            "colour": _RULE,
            "shape": "stroke",
        }
        for row in (*by_worth(table.without_records)[:1], table.real_data)
        if row is not None
    ]
    labels += across
    ends = [end for point in points for end in (point["low"], point["high"])]
    ends += [row["y"] for row in across]
    low = math.floor(10 * min(ends, default=0.0)) / 10
    high = max(math.ceil(10 * max(ends, default=1.0)) / 10, low + 0.1)
    height = max(_SHORTEST, _LABEL * len(labels))
    _spread(labels, low, high, height)
    texts = [epsilon_text(level) for level in levels]
    return _fill(
        "scores",
        points=points,
        labels=labels,
        across=across,
        height=height,
        range=[low, high],
        sides=[-0.5, max(len(levels), 1) - 0.5],
        ticks=[*range(len(levels))],
        levels=f"{texts}[datum.value]",
        metric=_cut(table.metric, 40),
    )


def _best(table: TaskTable) -> Mapping[str, list[Row]]:
    """Name -> its rows by ε, of the names with the best scores."""
    rows = [row for row in table.rows if not row.is_reference]
    best = dict.fromkeys(row.name for row in by_worth(rows))
    lines: dict[str, list[Row]] = {name: [] for name in list(best)[:MOST_LINES]}
    for row in sorted(rows, key=attrgetter("epsilon")):
        if row.name in lines:
            lines[row.name].append(row)
    return lines


def _spread(labels: list[dict[str, Any]], low: float, high: float, height: float) -> None:
    """Gives every label a `place`, in pixels from the top: that of its score, moved where two would overlap."""
    labels.sort(key=itemgetter("y"), reverse=True)
    free = -math.inf
    for label in labels:
        label["place"] = max(height * (high - label["y"]) / (high - low), free)
        free = label["place"] + _LABEL
    limit = height
    for label in reversed(labels):
        label["place"] = round(min(label["place"], limit), 2)
        limit = label["place"] - _LABEL


def _cut(text: str, longest: int) -> str:
    """A name that has room."""
    whole = make_visible(text)
    return whole if len(whole) <= longest else f"{whole[: longest - 1]}…"
