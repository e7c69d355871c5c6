"""Scores across releases: one table a task, in a terminal and on the page `track.html`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from dpicl.core.printable import visible
from dpicl.leaderboards.compare.track import ModelRelease, Point, Track, significant_steps
from dpicl.leaderboards.model.metrics import metric_name
from dpicl.leaderboards.model.notes import gathered
from dpicl.leaderboards.model.text import counted, epsilon_text
from dpicl.leaderboards.render import page
from dpicl.tables.document import Block, Column, Figure, Heading, Table, make_table, notes, words

_NOTHING = "There are no results yet; make some with: dpicl run quick"
_READING = (
    "A score and its 95% interval for each release, oldest first. ▲ better, ▼ worse than the release before (paired"
    " on the seeds that both have, Holm over all steps, at least 0.01). ≠: may not be compared with it."
)
_RELEASES = (
    Column("number", "release", attrgetter("number")),
    Column("title", "model, weights, dtype and commit", attrgetter("title"), lambda one: visible(one, 100), wide=True),
    Column("created", "first result", attrgetter("created"), lambda one: visible(one[:19])),
)


def track_blocks(tracks: Sequence[Track]) -> list[Block]:
    """Releases, then a table for every suite and task."""
    if not tracks:
        return [words(_NOTHING)]
    steps = significant_steps(tracks)
    blocks: list[Block] = [
        words(f"{counted(steps, 'step')} better or worse, in {counted(len(tracks), 'line')}", "lead"),
        make_table("Releases", _RELEASES, tracks[0].releases),
    ]
    for suite, task in dict.fromkeys((track.suite, track.task) for track in tracks):
        own = [track for track in tracks if (track.suite, track.task) == (suite, task)]
        lower = " (lower is better)" if own[0].lower_is_better else ""
        title = f"{visible(task, 100)} ({visible(suite, 100)}): {metric_name(own[0].metric)}{lower}"
        blocks.append(_table(title, own))
    return [*blocks, *notes([_READING, *track_notes(tracks)])]


def _table(title: str, tracks: Sequence[Track]) -> Table:
    def label(track: Track) -> str:
        return track.label + ("" if track.mode == "proved" else " (paper)")

    names = [Column("row", "mechanism", label), Column("epsilon", "ε", attrgetter("epsilon"), epsilon_text)]
    scores = [_at(release) for release in tracks[0].releases]
    return make_table(title, [*names, *scores], tracks, keep=2, heading=True)


def _at(release: ModelRelease) -> Column:
    def score(track: Track) -> tuple[float, Point] | None:
        point = next((one for one in track.points if one.release.number == release.number), None)
        return None if point is None else (point.score, point)

    return Column(f"release {release.number}", str(release.number), score, lambda own: _score(own[1]), release.title)


def _score(point: Point) -> str:
    score = f"{'≠ ' if point.broken else ''}{point.score:.3f} {point.low:.3f}–{point.high:.3f}"
    return f"{score} {point.sign}".rstrip()


def tracks_json(tracks: Sequence[Track]) -> dict[str, Any]:
    """Releases and lines as JSON: numbers and names, without the results behind them."""
    return {
        "releases": [vars(release) for release in tracks[0].releases] if tracks else [],
        "steps_better_or_worse": significant_steps(tracks),
        "tracks": [
            {
                "mechanism": track.label,
                **{name: value for name, value in vars(track).items() if name not in ("label", "releases")},
                "points": [_point_json(point) for point in track.points],
            }
            for track in tracks
        ],
    }


def _point_json(point: Point) -> dict[str, Any]:
    step = point.step
    return {
        "release": point.release.number,
        "score": point.score,
        "interval": [point.low, point.high],
        "seeds": point.seeds,
        "broken": point.broken,
        "step": step
        and {"gain": step.gain, "adjusted": step.test.adjusted, "seeds": step.seeds, "verdict": step.verdict},
        "cells": [result.cell_id for result in point.results],
    }


def track_notes(tracks: Sequence[Track]) -> tuple[str, ...]:
    """Where lines break, and which results are in none; each once, with the rows of which it is said."""
    found: list[tuple[str, str]] = []
    several = len({track.suite for track in tracks}) > 1
    for track in tracks:
        suite = f" ({track.suite})" if several else ""
        name = f"{track.label} on {track.task}{suite} at ε = {epsilon_text(track.epsilon)}"
        broken = (point for point in track.points if point.broken)
        found += [(f"break at release {point.release.number}, {point.broken}", name) for point in broken]
        found += [(note, name) for note in track.notes]
    return gathered(found)


def render_page(tracks: Sequence[Track], links: Sequence[tuple[str, str]] = ()) -> str:
    """The whole page as text. links: (name, address) of pages beside it."""
    blocks = [Heading("Scores across releases", 1), *track_blocks(tracks), *_plots(tracks)]
    return page.render("Private in-context learning: releases", blocks, here="track.html", nav=links)


def write_page(tracks: Sequence[Track], folder: Path) -> Path:
    """Writes ``folder/track.html`` and returns its path. Raises ResultError when it cannot."""
    target = Path(folder) / "track.html"
    links = [("Board", "index.html")] if target.with_name("index.html").is_file() else []
    page.write_file(target, render_page(tracks, links))
    return target


def _plots(tracks: Sequence[Track]) -> Iterator[Figure]:
    """One for every suite, task and epsilon."""
    from dpicl.leaderboards.render.board_charts import track_plot  # matplotlib, which a terminal has no need of
    from dpicl.leaderboards.render.charts import fixed_looks

    looks = fixed_looks(track.label for track in tracks)
    for suite, task, epsilon in dict.fromkeys((track.suite, track.task, track.epsilon) for track in tracks):
        own = [track for track in tracks if (track.suite, track.task, track.epsilon) == (suite, task, epsilon)]
        caption = f"{task} at ε = {epsilon_text(epsilon)} ({suite})"
        yield Figure(caption, track_plot(own, looks, f"{caption}: score against release, with 95% intervals"))
