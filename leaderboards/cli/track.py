"""`dpicl track`: a score across the releases of a model and the commits of the code."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from dpicl.harness.cli import output
from dpicl.harness.cli.arguments import Subparsers, add_command, one_of
from dpicl.harness.core.errors import ResultError
from dpicl.leaderboards.cli.compare import add_cell_flags

if TYPE_CHECKING:
    from dpicl.harness.run.results import Result


def add(subparsers: Subparsers) -> None:
    """Adds the command."""
    parser = add_command(
        subparsers,
        "track",
        "show scores across releases of a model and commits of the code",
        "dpicl track results/classification releases/*/classification --task agnews --html site",
        _track,
    )
    parser.add_argument("results", type=Path, nargs="+", metavar="RESULTS", help="result files or folders")
    add_cell_flags(parser)
    parser.add_argument("--model", action="append", default=[], metavar="X", help="model; may be repeated")
    parser.add_argument(
        "--by",
        type=one_of("kind of release", ("commit", "model")),
        default="commit",
        metavar="commit|model",
        help="a release is a model at one commit (default), or a model at any commit",
    )
    parser.add_argument("--html", type=Path, metavar="DIR", help="also write the page DIR/track.html, with plots")


def _track(arguments: argparse.Namespace) -> int:
    from dpicl.harness.mechanism import registry
    from dpicl.leaderboards.compare.pairing import Filter, filtered
    from dpicl.leaderboards.compare.sides import Side, read_results

    results: list[Result] = []
    read: set[Path] = set()
    for path in arguments.results:
        if path.resolve() in read:
            continue
        read.add(path.resolve())
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
    track, text = registry.leaderboards("track"), registry.leaderboards("track_text")
    tracks = track.build_tracks(kept, arguments.by)
    page = registry.leaderboards("track_page").write_page(tracks, arguments.html) if arguments.html else None
    if arguments.json:
        output.emit_json({**text.tracks_json(tracks), "page": page})
        return 0
    output.emit(text.render_terminal(tracks), styled=True)
    if page:
        output.emit(f"Page: {page}")
    return 0
