"""The three ε of every row of a task on one axis, as inline SVG: claimed, proved, audited.

Audited (a lower bound) and proved (an upper one) enclose the truth: the bar between them is what nobody knows. A row
that nobody attacked has a dashed bar from 0. Colours and markers are CSS classes; shapes differ as well as colours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.text import bound_text, epsilon_text, visible
from dpicl.leaderboards.render import svg
from dpicl.leaderboards.render.attack_plots import Axis

WIDTH = 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 186, 18, 10, 44
_STEP = 21  # between rows
_LONGEST = 27  # characters of a row's name
_SMALLEST = 1e-3
#: What a page shows as the key: (class of the marker, name).
MARKS = (("claimed", "claimed by its authors"), ("proved", "proved from the ledger"), ("audited", "audited"))


def shown(row: Row) -> bool:
    """Whether a row has a place: its proved ε is above 0 and finite."""
    return 0 < row.proved < math.inf


def three_epsilons_svg(rows: Sequence[Row], title: str) -> Markup | None:
    """One line a row, in the given order; None without a row that has a place. title: what a screen reader says."""
    rows = [row for row in rows if shown(row)]
    if not rows:
        return None
    axis = _axis(rows)
    height = _TOP + _STEP * len(rows) + _BOTTOM
    parts = [_ground(axis, height)]
    for i, row in enumerate(rows):
        parts.append(_line(axis, row, _TOP + _STEP * (i + 0.5)))
    return svg.figure(WIDTH, height, title, parts)


def key(kind: str) -> Markup:
    """The marker of one of `MARKS`, for a legend."""
    return Markup('<svg class="key" viewBox="0 0 14 14" aria-hidden="true">{}</svg>').format(_marker(kind, 7.0, 7.0))


def _axis(rows: Sequence[Row]) -> Axis:
    numbers = [number for row in rows for number in (row.proved, row.claimed, row.audit.epsilon) if number is not None]
    positive = [max(number, _SMALLEST) for number in numbers if 0 < number < math.inf]
    return Axis(min(positive), max(positive) * 1.1, any(map(math.isinf, numbers)))


def _x(axis: Axis, epsilon: float) -> float:
    return _LEFT + axis.share(epsilon) * (WIDTH - _RIGHT - _LEFT)


def _ground(axis: Axis, height: int) -> Markup:
    bottom = height - _BOTTOM
    parts = [svg.line("axis", _LEFT, bottom, WIDTH - _RIGHT, bottom)]
    for tick in axis.ticks():
        x = _x(axis, tick)
        parts += [
            svg.line("grid", x, _TOP, x, bottom),
            svg.line("axis", x, bottom, x, bottom + 5),
            svg.text("tick", x, bottom + 18, epsilon_text(tick), "middle"),
        ]
    kind = "logarithmic" if axis.logarithmic else "linear"
    parts.append(svg.text("name", (_LEFT + WIDTH - _RIGHT) / 2, height - 8, f"ε ({kind})", "middle"))
    return Markup("").join(parts)


def _line(axis: Axis, row: Row, y: float) -> Markup:
    audited = row.audit.epsilon
    name = visible(row.title, 4 * _LONGEST)
    name = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
    ends = sorted((_x(axis, audited or 0.0), _x(axis, row.proved)))
    parts = [
        svg.text("tick", _LEFT - 8, y + 4, name, "end"),
        svg.line("unknown" if audited is not None else "unknown unseen", ends[0], y, ends[1], y),
        _marker("proved", _x(axis, row.proved), y),
    ]
    if row.claimed is not None:
        parts.append(_marker("claimed", _x(axis, row.claimed), y))
    if audited is not None:
        parts.append(_marker("audited", _x(axis, audited), y))
    hint = (
        f"{row.title} on {row.task}: claimed ε {epsilon_text(row.claimed)}, proved ε {epsilon_text(row.proved)},"
        f" audited ε {bound_text(audited)}"
    )
    return Markup("<g><title>{}</title>{}</g>").format(visible(hint), Markup("").join(parts))


def _marker(kind: str, x: float, y: float) -> Markup:
    """claimed: a hollow diamond; proved: a disc; audited: a triangle that points to the right."""
    if kind == "proved":
        return Markup('<circle class="mark {}" cx="{:.1f}" cy="{:.1f}" r="4.5"/>').format(kind, x, y)
    corners = {
        "claimed": [(0.0, -6.5), (6.5, 0.0), (0.0, 6.5), (-6.5, 0.0)],
        "audited": [(-4.0, -5.0), (5.0, 0.0), (-4.0, 5.0)],
    }[kind]
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return Markup('<polygon class="mark {}" points="{}"/>').format(kind, points)
