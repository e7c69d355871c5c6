"""Lines, texts and markers of the page's plots. Their looks are CSS classes, for light and for dark ground."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

from dpicl.leaderboards.model.text import visible

#: Number of distinct series styles (classes s0, s1, ...) in the page's style sheet.
STYLES = 8
_RADIUS = 4.5


def figure(width: int, height: int, title: str, parts: Iterable[Markup]) -> Markup:
    """A plot of this size in pixels. title: what a screen reader says."""
    return Markup('<svg class="plot" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        width, height, visible(title), Markup("").join(parts)
    )


def key(style: int, hollow: bool = False) -> Markup:
    """A marker on its own, for a legend."""
    return Markup('<svg class="key s{}" viewBox="0 0 14 14" aria-hidden="true">{}</svg>').format(
        style, marker(style, 7.0, 7.0, hollow)
    )


def marker(style: int, x: float, y: float, hollow: bool = False) -> Markup:
    """Shapes differ as well as colours: circle, square, triangle, diamond. hollow: an outline alone."""
    r, name = _RADIUS, "marker hollow" if hollow else "marker"
    if style % 4 == 0:
        return Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="{}"/>').format(name, x, y, r)
    corners = {
        1: [(-r, -r), (r, -r), (r, r), (-r, r)],
        2: [(0, -1.2 * r), (1.2 * r, r), (-1.2 * r, r)],
        3: [(0, -1.3 * r), (1.3 * r, 0), (0, 1.3 * r), (-1.3 * r, 0)],
    }[style % 4]
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return Markup('<polygon class="{}" points="{}"/>').format(name, points)


def line(name: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    """A line of a class; coordinates in pixels."""
    return Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(name, x1, y1, x2, y2)


def text(name: str, x: float, y: float, words: str, anchor: str) -> Markup:
    """A text of a class; escaped, with control characters written out."""
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        name, x, y, anchor, escape(visible(words))
    )
