"""`dpicl compare`: which of two rows of a board is better, and did a release make anything worse?

Two rows (`dpicl compare tang pta --suite ginc`) are compared as the rank sets of their board are; two folders of
results are two releases of one model, cell by cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Unpack

from pydantic import Field

from dpicl.api import parameters as p
from dpicl.api.verbs import parameters
from dpicl.cli.output import Answer
from dpicl.core.errors import UsageError, require_known
from dpicl.core.field_types import Number
from dpicl.core.messages import count, message
from dpicl.core.paths import shipped_suites, slug
from dpicl.leaderboards.cli.board import view
from dpicl.leaderboards.compare.reading import read_side
from dpicl.leaderboards.compare.releases import Comparison, Settings
from dpicl.leaderboards.compare.releases import compare as compare_sides
from dpicl.leaderboards.compare.rows import RowComparison, compare_named, parse_name
from dpicl.results.store import Store

#: Exit code where something got worse or is missing, and `--fail-on-regression` is given.
REGRESSED = 1
_OF_ROWS = ("suite", "results", "plugins", "source", "test_records", "model")
_OF_RELEASES = ("fail_on_regression", "allow_missing", "alpha", "min_effect", "metric", "mechanism")


def _answer(found: RowComparison | Comparison, given: Mapping[str, Any]) -> Answer:
    if isinstance(found, RowComparison):
        return Answer(found.document(), found.blocks())
    failed = bool(given.get("fail_on_regression")) and found.regressed
    return Answer(found.document(), found.blocks(), REGRESSED if failed else 0)


@p.verb(
    "dpicl compare tang pta --suite ginc --epsilon 1",
    answer=_answer,
)
def compare(
    base: Annotated[str, p.Flag(metavar="BASE")],
    candidate: Annotated[str, p.Flag(metavar="CANDIDATE")],
    *,
    task: p.Tasks = (),
    epsilon: p.EpsilonsOfResults = (),
    suite: p.SuiteName | None = None,
    fail_on_regression: bool = False,
    allow_missing: bool = False,
    alpha: Annotated[Number, Field(gt=0, lt=1), p.Flag(metavar="A")] = 0.05,
    min_effect: Annotated[Number, Field(ge=0, lt=1), p.Flag(metavar="X")] = 0.01,
    metric: Annotated[str | None, p.Flag(metavar="M")] = None,
    mechanism: p.Rows = (),
    **given: Unpack[p.OfResults],
) -> RowComparison | Comparison:
    """Two rows of a board: which is better on each task, by how much, and how sure that is. Or two releases of a model.

    Raises UsageError for what is not known, with the closest names, and ResultError where there is no result.

    base: a row (tang, tang@1), or result file or folder of what is there.
    candidate: another row, or result file or folder of what is to come.
    epsilon: target epsilon; may be repeated (or A,B).
    suite: suite of the board (default: the one that has both rows).
    fail_on_regression: exit code 1 when a cell got worse or is missing.
    allow_missing: the candidate may lack rows, seeds and metrics of the base.
    alpha: family-wise error over all cells (default: 0.05).
    min_effect: smallest change that counts (default: 0.01).
    metric: metric to compare (default: the main metric of each task).
    """
    own = locals()
    said = {**own, **given}
    rows = _names_rows(base, candidate, suite)
    flags, whose, what = (_OF_RELEASES, "of two releases", "two rows") if rows else (
        _OF_ROWS, "of two rows of a board", "two result folders"
    )  # fmt: skip
    known = parameters(compare)
    for name in flags:
        if p.as_list(said.get(name) or ()) not in ([], [known[name].default]):
            raise UsageError(f"{known[name].written} is a flag {whose}, and {what} are compared here; leave it out.")
    if rows:
        asked = str(suite) if suite is not None else _suite_with(base, candidate, p.folder_of(given))
        made = view(asked, given)  # type: ignore[arg-type]
        return compare_named(made.board, asked, base, candidate, p.as_list(task), p.as_list(epsilon))
    before, after = read_side("base", Path(base)), read_side("candidate", Path(candidate))
    settings = Settings(alpha=alpha, min_effect=min_effect, allow_missing=allow_missing, metric=metric)
    wanted = {"tasks": p.as_list(task), "mechanisms": p.as_list(mechanism), "epsilons": p.as_list(epsilon)}
    found = compare_sides(before, after, settings, **wanted)
    for side in (before, after):
        if side.foreign:
            message(
                f"dpicl: left out {count(len(side.foreign), 'JSON file')} of {side.name} that are no results,"
                f" for example {side.foreign[0]}."
            )
    return found


def _names_rows(base: str, candidate: str, suite: Any) -> bool:
    """Whether the two are rows: a suite is named, or neither is a path. Raises UsageError for one row twice."""
    paths = [text for text in (base, candidate) if Path(text).exists() or "/" in text or text.endswith(".json")]
    if base == candidate and (suite or not paths):
        raise UsageError(f"'{base}' is one row twice; name two rows, or two ε of one, such as tang@1 tang@8.")
    if suite:
        return True
    if len(paths) == 1:
        (name,) = {base, candidate} - {*paths}
        raise UsageError(f"{paths[0]} is a path and '{name}' is none; give two result folders, or two rows of a board.")
    return not paths


def _suite_with(one: str, other: str, results: Path) -> str:
    """The shipped suite whose results have rows of both names. Raises UsageError where none has, or several have."""
    labels = {
        name: {folder.name for folder in Store(results, name).folder.glob("*/*") if folder.is_dir()}
        for name in shipped_suites()
    }
    every = set().union(*labels.values())
    wanted = {slug(parse_name(text, sorted(every)).label) for text in (one, other)}
    found = [name for name, own in labels.items() if wanted <= own]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{one} and {other} stand on {len(found)} boards; choose one with --suite {'|'.join(found)}.")
    require_known("row", sorted(wanted), every)
    raise UsageError(f"No board under {results} has both {one} and {other}; name a suite with --suite, or run one.")
