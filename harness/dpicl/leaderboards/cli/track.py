"""`dpicl track`: a score across the releases of a model and the commits of the code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from dpicl.api import parameters as p
from dpicl.cli.output import Answer
from dpicl.core.errors import ResultError
from dpicl.core.messages import count, message
from dpicl.core.paths import real_path
from dpicl.leaderboards.compare.reading import choose, read_results
from dpicl.leaderboards.compare.track import build_tracks
from dpicl.results.schema import Result


def _name(given: Any) -> tuple[str, str]:
    if isinstance(given, tuple):
        return given
    release, equals, name = str(given).rpartition("=")
    if not equals or not release.strip() or not name.strip():
        raise ValueError(f"must be RELEASE=NAME, such as hf:team/model@1a2b=v2, not '{str(given)[:100]}'")
    return release.strip(), name.strip()


@p.verb("dpicl track results/open --by model --task agnews")
def track(
    results: Annotated[p.Paths, p.Flag(metavar="RESULTS...")],
    *,
    task: p.Tasks = (),
    mechanism: p.Rows = (),
    epsilon: p.EpsilonsOfResults = (),
    model: p.Models = (),
    by: Literal["commit", "model"] = "commit",
    name: Annotated[Sequence[str], p.each(_name, divided=False), p.Flag(metavar="RELEASE=NAME")] = (),
) -> Answer:
    """Scores across the releases of a model and commits of the code. Raises ResultError where there is no result.

    results: result files or folders.
    epsilon: target epsilon; may be repeated (or A,B).
    by: a release is a model at one commit (default), or a model at any commit.
    name: what a release is called; RELEASE: how its model, weights or commit begin; may be repeated.
    """
    places = [Path(one) for one in p.as_list(results)]
    read_all: list[Result] = []
    read: set[Path] = set()
    for path in places:
        if (own := real_path(path)) in read:
            continue
        read.add(own)
        found, foreign = read_results(path)
        read_all += found
        if foreign:
            message(f"dpicl: left out {count(len(foreign), 'JSON file')} under {path} that are no results.")
    folders = ", ".join(map(str, places))
    if not read_all:
        raise ResultError(f"There is no result under {folders}; run more, or give another folder.")
    wanted = map(p.as_list, (task, mechanism, epsilon, model))
    kept = choose(read_all, f"the results {folders}", *wanted)
    tracks = build_tracks(kept, by, dict(map(_name, name)))
    return Answer(tracks.document(), tracks.blocks())
