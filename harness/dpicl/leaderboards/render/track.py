"""Scores across releases in a terminal, as JSON, and as the page `track.html` (page.py says what a page may hold)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup
from rich.text import Text

from dpicl.leaderboards.compare.track import Point, Track, significant_steps
from dpicl.leaderboards.model.metrics import metric_name
from dpicl.leaderboards.model.notes import Note, Weight, gathered
from dpicl.leaderboards.model.text import counted, epsilon_text, visible
from dpicl.leaderboards.render import page
from dpicl.leaderboards.render.board_charts import track_plot, track_words
from dpicl.leaderboards.render.charts import fixed_looks, key
from dpicl.leaderboards.render.console import grid, plain_console, print_heading, print_notes, wrapped

#: Width of a score with its interval and marks, and of what stands before the scores.
_SCORE_WIDTH, _BEFORE = 22, 42
_LONGEST = 100
_READING = (
    "A score and its 95% interval for each release, oldest first. ▲ better, ▼ worse than the release before (paired"
    " on the seeds that both have, Holm over all steps, at least 0.01). ≠: may not be compared with it."
)


def render_terminal(tracks: Sequence[Track], color: bool | None = None) -> str:
    """The lines as tables. color: None means: when standard output is a terminal."""
    console, text = plain_console(color)
    if not tracks:
        console.print("There are no results yet; make some with: dpicl run quick", soft_wrap=True)
        return text()
    steps = significant_steps(tracks)
    console.print(Text(f"{counted(steps, 'step')} better or worse, in {counted(len(tracks), 'line')}", style="bold"))
    releases = tracks[0].releases
    for release in releases:
        line = f"  {release.number}  {visible(release.created[:19])}  {visible(release.title, _LONGEST)}"
        console.print(Text(line), soft_wrap=True)
    for suite, task in dict.fromkeys((track.suite, track.task) for track in tracks):
        own = [track for track in tracks if (track.suite, track.task) == (suite, task)]
        for names in wrapped({str(release.number): _SCORE_WIDTH for release in releases}, _BEFORE, console):
            title = f"{visible(task, _LONGEST)} ({visible(suite, _LONGEST)}): {metric_name(own[0].metric)}"
            title += " (lower is better)" if own[0].lower_is_better else ""
            print_heading(console, title)
            there = [track for track in own if any(str(point.release.number) in names for point in track.points)]
            if there:
                console.print(
                    grid(["mechanism", "ε", *names], [_line(track, names) for track in there], columns=console.width)
                )
    print_notes(console, [_READING, *track_notes(tracks)])
    return text()


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


def _line(track: Track, names: Sequence[str]) -> list[str]:
    points = {str(point.release.number): point for point in track.points}
    mode = "" if track.mode == "proved" else " (paper)"
    scores = [_score(points[name]) if name in points else "–" for name in names]
    return [track.label, epsilon_text(track.epsilon) + mode, *scores]


def _score(point: Point) -> str:
    score = f"{'≠ ' if point.broken else ''}{point.score:.3f} {point.low:.3f}–{point.high:.3f}"
    return f"{score} {point.sign}".rstrip()


def track_notes(tracks: Sequence[Track]) -> tuple[str, ...]:
    """Where lines break, and which results are in none; each once, with the rows of which it is said."""
    found: list[Note] = []
    several = len({track.suite for track in tracks}) > 1
    for track in tracks:
        suite = f" ({track.suite})" if several else ""
        name = f"{track.label} on {track.task}{suite} at ε = {epsilon_text(track.epsilon)}"
        for point in track.points:
            if point.broken:
                said = f"at release {point.release.number}: {point.broken}"
                found.append(Note(Weight.DOUBT, name, f" breaks {said}", f" break {said}", "lines"))
        found += [Note(Weight.LEFT_OUT, name, f", {note}", unit="lines") for note in track.notes]
    return gathered(found)


def render_page(tracks: Sequence[Track], links: Sequence[tuple[str, str]] = ()) -> str:
    """The whole page as text. links: (name, address) of pages beside it."""
    styles = fixed_looks(track.label for track in tracks)
    return page.render(
        "track.html",
        tracks=tracks,
        releases=tracks[0].releases if tracks else (),
        by_commit=any(release.commit for track in tracks for release in track.releases),
        steps=significant_steps(tracks),
        legend=[(label, key(style)) for label, style in styles.items()],
        plots=list(_plots(tracks, styles)),
        point_of=lambda track, release: next((p for p in track.points if p.release == release), None),
        hint=track_words,
        notes=track_notes(tracks),
        nav=links,
    )


def write_page(tracks: Sequence[Track], folder: Path) -> Path:
    """Writes ``folder/track.html`` and returns its path. Raises ResultError when it cannot."""
    target = Path(folder) / "track.html"
    links = [("Board", "index.html")] if target.with_name("index.html").is_file() else []
    page.write_file(target, render_page(tracks, links))
    return target


def _plots(tracks: Sequence[Track], styles: dict[str, int]) -> Iterator[tuple[str, Markup]]:
    """(caption, plot) for every suite, task and epsilon."""
    for suite, task, epsilon in dict.fromkeys((track.suite, track.task, track.epsilon) for track in tracks):
        own = [track for track in tracks if (track.suite, track.task, track.epsilon) == (suite, task, epsilon)]
        caption = f"{task} at ε = {epsilon_text(epsilon)} ({suite})"
        yield caption, track_plot(own, styles, f"{caption}: score against release, with 95% intervals")
