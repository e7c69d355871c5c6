"""`dpicl track`: a score across the releases of a model and the commits of the code."""

from __future__ import annotations

import argparse
from pathlib import Path

from dpicl.cli import output
from dpicl.cli.arguments import Subparsers, add_command
from dpicl.core.errors import ResultError
from dpicl.core.paths import real_path
from dpicl.leaderboards.cli.compare import add_cell_flags
from dpicl.leaderboards.compare.pairing import Filter, filtered
from dpicl.leaderboards.compare.sides import Side, read_results
from dpicl.leaderboards.compare.track import build_tracks
from dpicl.leaderboards.render import track_view
from dpicl.leaderboards.render.page import refuse_among
from dpicl.results.schema import Result


def add(subparsers: Subparsers) -> None:
    """Adds the command."""
    parser = add_command(
        subparsers,
        "track",
        "dpicl track results/open --by model --task agnews --html site",
        _track,
    )
    parser.add_argument("results", type=Path, nargs="+", metavar="RESULTS", help="result files or folders")
    add_cell_flags(parser)
    parser.repeated("--model", "X", "model")
    parser.choice(
        "--by",
        ("commit", "model"),
        "a release is a model at one commit (default), or a model at any commit",
        kind="kind of release",
        default="commit",
    )
    parser.repeated(
        "--name",
        "RELEASE=NAME",
        "what a release is called; RELEASE: how its model, weights or commit begin",
        _name,
        False,
    )
    parser.add_argument("--html", type=Path, metavar="DIR", help="also write the page DIR/track.html, with plots")


def _name(text: str) -> tuple[str, str]:
    release, equals, name = text.rpartition("=")
    if not equals or not release.strip() or not name.strip():
        raise argparse.ArgumentTypeError(f"write RELEASE=NAME, such as hf:team/model@1a2b=v2, not '{text[:100]}'")
    return release.strip(), name.strip()


def _track(arguments: argparse.Namespace) -> int:
    refuse_among(arguments.results, arguments.html)
    results: list[Result] = []
    read: set[Path] = set()
    for path in arguments.results:
        if (own := real_path(path)) in read:
            continue
        read.add(own)
        found, foreign = read_results(path)
        results += found
        if foreign:
            output.message(
                f"dpicl: left out {output.count(len(foreign), 'JSON file')} under {path} that are no results."
            )
    folders = ", ".join(map(str, arguments.results))
    if not results:
        raise ResultError(f"There is no result under {folders}; run more, or give another folder.")
    wanted = Filter(*map(tuple, (arguments.task, arguments.mechanism, arguments.epsilon, arguments.model)))
    kept = filtered(Side("the results", folders, tuple(results)), wanted).results
    tracks = build_tracks(kept, arguments.by, dict(arguments.name))
    page = track_view.write_page(tracks, arguments.html) if arguments.html else None
    if arguments.json:
        output.emit_json({**track_view.tracks_json(tracks), "page": page})
        return 0
    output.emit(track_view.render_terminal(tracks), styled=True)
    if page:
        output.emit(f"Page: {page}")
    return 0
