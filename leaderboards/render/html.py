"""The static site of a suite, and of all suites: render/site says what pages show, page.py what they may hold.

`pages` makes every file of a site as text, from a board alone; the rest writes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpicl.harness.core.plugins import Registered
from dpicl.leaderboards.compare.track import Track, build_tracks
from dpicl.leaderboards.model.attack_board import AttackBoard
from dpicl.leaderboards.model.board import Board
from dpicl.leaderboards.model.text import PER_QUERY_NOTE
from dpicl.leaderboards.render import page, track_page
from dpicl.leaderboards.render.attack_page import attacks_page, write_attacks_html
from dpicl.leaderboards.render.site.addresses import Addresses, mechanism_file
from dpicl.leaderboards.render.site.comparison import comparison
from dpicl.leaderboards.render.site.downloads import board_csv, board_json_text
from dpicl.leaderboards.render.site.mechanism_page import labels_of, mechanism_view
from dpicl.leaderboards.render.site.row_page import MOST_ANSWERS, row_view
from dpicl.leaderboards.render.site.sections import filters, section_view
from dpicl.leaderboards.render.site.suites_page import suites_json, suites_page

__all__ = ["MOST_ANSWERS", "pages", "suites_json", "write_all", "write_attacks_html", "write_html"]

#: (name, address from the site's first page)
Link = tuple[str, str]
#: A mechanism that cannot do a task: label, task, reason.
Skipped = Mapping[str, str]


def write_html(
    board: Board,
    folder: Path,
    mechanisms: Mapping[str, Registered] | None = None,
    skipped: Sequence[Skipped] = (),
    attacks: AttackBoard | None = None,
) -> Path:
    """Writes the site of a suite and returns the path of its first page. Raises ResultError when it cannot.

    mechanisms: the registry, for what mechanisms are. attacks: of all suites, for a page of its own.
    """
    links = [] if attacks is None else [("All attacks", "attacks/index.html")]
    files = pages(board, mechanisms or {}, skipped, links)
    if attacks is not None:
        files["attacks/index.html"] = attacks_page(attacks, [("Board", "index.html")], "../")
    return page.write(files, folder)


def write_all(
    boards: Mapping[str, Board],
    folder: Path,
    mechanisms: Mapping[str, Registered],
    skipped: Mapping[str, Sequence[Skipped]],
    attacks: AttackBoard,
) -> Path:
    """Writes the list of suites, the site of each in a folder of its name, and the page of all attacks.

    boards, skipped: by the suite's name, which is the name of its folder. Raises ResultError when it cannot.
    """
    folder = Path(folder)
    links = [("All suites", "../index.html"), ("All attacks", "../attacks/index.html")]
    for name, board in boards.items():
        page.write(pages(board, mechanisms, skipped.get(name, ()), links), folder / name)
    shared = {
        "attacks/index.html": attacks_page(attacks, [("All suites", "index.html")], "../"),
        "index.html": suites_page(boards, [("All attacks", "attacks/index.html")]),
    }
    return page.write(shared, folder)


def pages(
    board: Board,
    mechanisms: Mapping[str, Registered] | None = None,
    skipped: Sequence[Skipped] = (),
    links: Sequence[Link] = (),
) -> dict[str, str]:
    """Every file of the site of a suite: path -> text. links: more places, named on every page."""
    addresses = Addresses(board)
    nav = [("Board", "index.html"), ("Compare rows", "compare.html")]
    nav += [("Retired versions", "retired.html")] if board.retired else []
    tracks = _tracks(board)
    nav += [("Across releases", "track.html")] if tracks else []
    shared: dict[str, Any] = {"nav": [*nav, *links], "downloads": True}
    files = {
        "index.html": page.render(
            "board.html",
            board=board,
            views=[section_view(section, addresses) for section in board.sections],
            filters=filters(board.sections),
            mechanisms=[(label, mechanism_file(label)) for label in labels_of(board)],
            skipped=skipped,
            per_query_note=PER_QUERY_NOTE,
            **shared,
        ),
        "compare.html": page.render("compare.html", compared=comparison(board, addresses), **shared),
        "board.csv": board_csv(board, addresses),
        "board.json": board_json_text(board),
    }
    if board.retired:
        views = [section_view(section, addresses) for section in board.retired]
        files["retired.html"] = page.render("retired.html", views=views, per_query_note=PER_QUERY_NOTE, **shared)
    if tracks:
        files["track.html"] = track_page.render_page(tracks, shared["nav"])
    for label in labels_of(board):
        view = mechanism_view(board, label, addresses, mechanisms or {})
        files[mechanism_file(label)] = page.render("mechanism.html", "../", view=view, **shared)
    for section in (*board.sections, *board.retired):
        for table in section.tables:
            for row in table.all_rows:
                view = row_view(section, table, row, addresses, frozen=section in board.retired)
                files[addresses.page(row)] = page.render("row.html", "../", view=view, **shared)
    return files


def _tracks(board: Board) -> tuple[Track, ...]:
    """Scores across releases of the model; none where no row was run with two of them."""
    results = [result for section in board.sections for row in section.rows for result in row.results]
    models = [(result.manifest.model, result.manifest.dtype) for result in results]
    if len({(model.name, model.sha256, model.revision, dtype) for model, dtype in models}) < 2:
        return ()
    tracks = build_tracks(results, by="model")
    return tracks if any(len(track.points) > 1 for track in tracks) else ()
