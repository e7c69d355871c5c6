"""The privacy-utility plot of one task as inline SVG: score against epsilon, with intervals and both ends of the scale.

Colours and markers are CSS classes (s0, s1, ...), so the page decides how they look on light and on dark ground. Every
mechanism keeps its class on all plots of a page. Nothing is loaded from elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import TaskTable
from dpicl.leaderboards.model.text import epsilon_text, visible
from dpicl.leaderboards.render import svg

WIDTH, HEIGHT = 460, 300
LEFT, RIGHT, TOP, BOTTOM = 46, 16, 16, 44
_INFINITY_GAP = 70  # room at the right for rows that were run without noise
_LINE = 13  # between texts that would hide each other
_ABOVE, _BELOW = -5.0, 13.0  # from a line to its name
_LETTER = 5.6  # pixels, about
_ABOUT = 4.0  # difference of two distances, in pixels, that an eye may not see
_DODGE = 9  # distance between mechanisms at the same epsilon


@dataclass(frozen=True)
class Scale:
    """From data to pixels. epsilons: finite, positive, rising; unlimited: whether infinity has a place."""

    epsilons: tuple[float, ...]
    unlimited: bool
    low: float
    high: float

    def x(self, epsilon: float) -> float:
        """Pixels from the left for an epsilon > 0; logarithmic, infinity at the right edge."""
        right = WIDTH - RIGHT - 30
        if math.isinf(epsilon):
            return right
        left, right = LEFT + 40.0, right - (_INFINITY_GAP if self.unlimited else 10)
        first, last = math.log(self.epsilons[0]), math.log(self.epsilons[-1])
        if first == last:
            return (left + right) / 2
        return left + (math.log(epsilon) - first) / (last - first) * (right - left)

    def y(self, score: float) -> float:
        """Pixels from the top for a score; scores outside of the scale stand on its border."""
        share = (min(max(score, self.low), self.high) - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)


def series_styles(tables: Sequence[TaskTable]) -> dict[str, int]:
    """Label -> number of its style, the same on all plots of a section."""
    labels = sorted({row.label for table in tables for row in table.rows if row.epsilon > 0})
    return {label: i % svg.STYLES for i, label in enumerate(labels)}


def privacy_utility_svg(table: TaskTable, styles: Mapping[str, int]) -> Markup:
    """The plot of one task; text in it is escaped. styles: see `series_styles`."""
    rows = [row for row in table.rows if row.epsilon > 0]
    scale = _scale(rows, table)
    controls = [(row, f"{row.label}, ε = 0") for row in table.rows if row.epsilon == 0]
    ends = [(table.zero_shot, "zero-shot, ε = 0"), (table.real_data, "real demonstrations, ε = ∞")]
    lines = [(row, name) for row, name in (*ends, *controls) if row is not None]
    parts = [_axes(scale, rows), *(_end_line(scale, row) for row, _ in lines)]
    labels = sorted({row.label for row in rows})
    for label, own in groupby(sorted(rows, key=lambda row: (row.label, row.epsilon)), key=lambda row: row.label):
        shift = _DODGE * (labels.index(label) - (len(labels) - 1) / 2)
        parts.append(_series(scale, list(own), styles[label], shift))
    parts += line_names([(scale.y(row.score), f"{name}: {row.score:.3f}") for row, name in lines])
    title = f"{table.task}: score against ε, with 95% intervals"
    return svg.figure(WIDTH, HEIGHT, title, parts)


def _scale(rows: Sequence[Row], table: TaskTable) -> Scale:
    ends = [end for end in (table.zero_shot, table.real_data) if end is not None]
    shown = [*rows, *ends, *(row for row in table.rows if row.epsilon == 0)]
    low = min((row.low for row in shown), default=0.0)
    high = max((row.high for row in shown), default=1.0)
    low, high = math.floor(low * 10 - 0.2) / 10, math.ceil(high * 10 + 0.2) / 10
    finite = sorted({row.epsilon for row in rows if math.isfinite(row.epsilon)})
    unlimited = any(math.isinf(row.epsilon) for row in rows)
    return Scale(tuple(finite) or (1.0,), unlimited, max(low, 0.0), max(min(high, 1.0), max(low, 0.0) + 0.1))


def line_names(lines: Sequence[tuple[float, str]]) -> list[Markup]:
    """The names of lines across a plot: (height in pixels, words) of each. Names stand in the order of their lines.

    The highest line is named above it and the lowest below, so with two lines each name is outside of the other line.
    A name that is about as near to another line is joined to its own by a stroke.
    """
    ordered = sorted(lines)
    middle, places = (LEFT + WIDTH - RIGHT) / 2, _name_places([y for y, _ in ordered])
    parts = []
    for i, ((line, words), y) in enumerate(zip(ordered, places, strict=True)):
        own, others = abs(y - 4 - line), [other for other, _ in (*ordered[:i], *ordered[i + 1 :]) if other != line]
        if own > _BELOW or any(abs(y - 4 - other) < own + _ABOUT for other in others):
            x = max(LEFT + 4, middle - _LETTER * len(words) / 2)
            parts.append(svg.line("stroke", x - 2, y - 4, x - 14, line))
        parts.append(svg.text("end", middle, y, words, "middle"))
    return parts


def _name_places(lines: Sequence[float]) -> list[float]:
    """Heights of the names of lines with these heights, from the top: in the same order, none hides another."""
    last = len(lines) - 1
    wanted = [y + (_BELOW if 0 < i == last else _ABOVE) for i, y in enumerate(lines)]
    placed: list[float] = []
    for y in wanted:
        placed.append(max(y, placed[-1] + _LINE) if placed else y)
    lowest = HEIGHT - BOTTOM - 3.0
    for i in range(last, -1, -1):  # what would leave the plot at the bottom moves up, and what is above it no further
        placed[i] = min(placed[i], lowest)
        lowest = placed[i] - _LINE
    return placed


def _axes(scale: Scale, rows: Sequence[Row]) -> Markup:
    lines = []
    step = 0.1 if scale.high - scale.low <= 0.65 else 0.2
    for i in range(math.ceil(scale.low / step - 1e-9), math.floor(scale.high / step + 1e-9) + 1):
        y = scale.y(i * step)
        lines.append(svg.line("grid", LEFT, y, WIDTH - RIGHT, y))
        lines.append(svg.text("tick", LEFT - 6, y + 4, f"{i * step:.1f}", "end"))
    bottom = HEIGHT - BOTTOM
    for epsilon in sorted({row.epsilon for row in rows}):
        x = scale.x(epsilon)
        lines.append(svg.line("axis", x, bottom, x, bottom + 5))
        lines.append(svg.text("tick", x, bottom + 18, epsilon_text(epsilon), "middle"))
    lines.append(svg.line("axis", LEFT, bottom, WIDTH - RIGHT, bottom))
    lines.append(svg.text("name", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "ε asked for (logarithmic)", "middle"))
    return Markup("").join(lines)


def _end_line(scale: Scale, row: Row) -> Markup:
    """One end of the scale: a line at its score and a band for its interval."""
    y, top, bottom = scale.y(row.score), scale.y(row.high), scale.y(row.low)
    band = Markup('<rect class="band" x="{}" y="{:.1f}" width="{}" height="{:.1f}"/>').format(
        LEFT, top, WIDTH - RIGHT - LEFT, max(bottom - top, 0.0)
    )
    return band + svg.line("end", LEFT, y, WIDTH - RIGHT, y)


def _series(scale: Scale, rows: Sequence[Row], style: int, shift: float) -> Markup:
    points = [(scale.x(row.epsilon) + shift, scale.y(row.score)) for row in rows]
    parts = [
        Markup('<polyline points="{}"/>').format(" ".join(f"{x:.1f},{y:.1f}" for x, y in points)),
    ]
    for row, (x, y) in zip(rows, points, strict=True):
        hint = f"{row.title}: {row.score:.3f} [{row.low:.3f}, {row.high:.3f}], proved ε {epsilon_text(row.proved)}"
        whisker = svg.line("whisker", x, scale.y(row.low), x, scale.y(row.high))
        parts.append(Markup("<g><title>{}</title>{}{}</g>").format(visible(hint), whisker, svg.marker(style, x, y)))
    return Markup('<g class="s{}">{}</g>').format(style, Markup("").join(parts))
