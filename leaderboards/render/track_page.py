"""The page of scores across releases, `track.html` (see leaderboards/render/page.py for what a page may hold)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from markupsafe import Markup

from dpicl.leaderboards.compare.track import Track, significant_steps
from dpicl.leaderboards.model.text import epsilon_text
from dpicl.leaderboards.render import page
from dpicl.leaderboards.render.board_charts import numbered, track_plot, track_words
from dpicl.leaderboards.render.charts import key
from dpicl.leaderboards.render.track_text import step_sign, track_notes


def render_page(tracks: Sequence[Track], links: Sequence[tuple[str, str]] = (), root: str = "") -> str:
    """The whole page as text. links: (name, address from the site's first page), which is ``root`` away."""
    styles = numbered(track.label for track in tracks)
    return page.render(
        "track.html",
        root,
        tracks=tracks,
        releases=tracks[0].releases if tracks else (),
        by_commit=any(release.commit for track in tracks for release in track.releases),
        steps=significant_steps(tracks),
        legend=[(label, key(style)) for label, style in styles.items()],
        plots=list(_plots(tracks, styles)),
        point_of=lambda track, release: next((p for p in track.points if p.release == release), None),
        hint=track_words,
        sign=step_sign,
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
