"""The plot of one task at one epsilon: score against release, a line for each row, broken where nothing compares."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from markupsafe import Markup

from dpicl.leaderboards.compare.track import Point, Track
from dpicl.leaderboards.model.text import visible
from dpicl.leaderboards.render import svg

WIDTH, HEIGHT = 460, 300
LEFT, RIGHT, TOP, BOTTOM = 46, 16, 16, 44
_DODGE = 8  # distance between rows at the same release
_Scale = Callable[[float], float]


def track_styles(tracks: Sequence[Track]) -> dict[str, int]:
    """Row -> number of its style, the same on all plots of a page."""
    return {label: i % svg.STYLES for i, label in enumerate(sorted({track.label for track in tracks}))}


def track_svg(tracks: Sequence[Track], styles: Mapping[str, int], title: str) -> Markup:
    """The plot of tracks that share their releases; text in it is escaped. styles: see `track_styles`."""
    points = [point for track in tracks for point in track.points]
    low = max(0.0, math.floor(min(point.low for point in points) * 10 - 0.2) / 10)
    high = max(min(1.0, math.ceil(max(point.high for point in points) * 10 + 0.2) / 10), low + 0.1)
    releases = tracks[0].releases
    room = (WIDTH - LEFT - RIGHT) / len(releases)

    def x(point: Point, shift: float) -> float:
        return LEFT + room * (point.release.number - 0.5) + shift

    def y(score: float) -> float:
        share = (min(max(score, low), high) - low) / (high - low)
        return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)

    parts = [_axes(low, high, len(releases), room, y)]
    dodge = min(_DODGE, 0.7 * room / len(tracks))
    for i, track in enumerate(tracks):
        shift = dodge * (i - (len(tracks) - 1) / 2)
        places = {point.release: (x(point, shift), y(point.score)) for point in track.points}
        lines = [
            Markup('<polyline points="{}"/>').format(
                " ".join(f"{a:.1f},{b:.1f}" for a, b in (places[one.release], places[other.release]))
            )
            for one, other in pairwise(track.points)
            if not other.broken
        ]
        markers = [_marker(track, point, styles[track.label], *places[point.release], y) for point in track.points]
        parts.append(Markup('<g class="s{}">{}</g>').format(styles[track.label], Markup("").join(lines + markers)))
    return svg.figure(WIDTH, HEIGHT, title, parts)


def hint(track: Track, point: Point) -> str:
    """A point in words."""
    text = f"{track.label}, release {point.release.number}: {point.score:.3f} [{point.low:.3f}, {point.high:.3f}]"
    if point.broken:
        return f"{text}; not comparable with the release before: {point.broken}"
    if point.step:
        return f"{text}; change {point.step.gain:+.3f}, adjusted p {point.step.adjusted:.3f}"
    return text


def _marker(track: Track, point: Point, style: int, x: float, y: float, scale: _Scale) -> Markup:
    """The point with its interval; hollow after a break, with a triangle above a significant step."""
    parts = [svg.line("whisker", x, scale(point.low), x, scale(point.high))]
    parts.append(svg.marker(style, x, y, hollow=bool(point.broken)))
    if point.step and point.step.significant:
        parts.append(svg.text("end", x, max(scale(point.high) - 4, 11), "▲" if point.step.gain > 0 else "▼", "middle"))
    return Markup("<g><title>{}</title>{}</g>").format(visible(hint(track, point)), Markup("").join(parts))


def _axes(low: float, high: float, releases: int, room: float, y: _Scale) -> Markup:
    parts = []
    step = 0.1 if high - low <= 0.65 else 0.2
    for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1):
        parts.append(svg.line("grid", LEFT, y(i * step), WIDTH - RIGHT, y(i * step)))
        parts.append(svg.text("tick", LEFT - 6, y(i * step) + 4, f"{i * step:.1f}", "end"))
    bottom = HEIGHT - BOTTOM
    every = math.ceil(releases / 20)  # labels of many releases would hide each other
    for number in range(1, releases + 1, every):
        x = LEFT + room * (number - 0.5)
        parts.append(svg.line("axis", x, bottom, x, bottom + 5))
        parts.append(svg.text("tick", x, bottom + 18, str(number), "middle"))
    parts.append(svg.line("axis", LEFT, bottom, WIDTH - RIGHT, bottom))
    parts.append(svg.text("name", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "release, oldest first", "middle"))
    return Markup("").join(parts)
