"""`dpicl compare`: tests which of two rows is better, or whether a release of a model made anything worse.

Two rows of the board of a suite (`dpicl compare tang pta --suite ginc`) are compared as its rank sets are; without a
suite two folders of results are two releases of one model, compared cell by cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Unpack

from pydantic import Field

from dpicl.api import parameters as p
from dpicl.api.verbs import parameters
from dpicl.cli.output import Answer
from dpicl.core.errors import UsageError
from dpicl.core.field_types import Number
from dpicl.leaderboards.cli.board import view
from dpicl.leaderboards.compare.reading import read_side
from dpicl.leaderboards.compare.releases import Comparison, Settings
from dpicl.leaderboards.compare.releases import compare as compare_sides
from dpicl.leaderboards.compare.rows import RowComparison, compare_named

#: Exit code where something got worse or is missing, and `--fail-on-regression` is given.
REGRESSED = 1
_OF_ROWS = ("results", "plugins", "source", "test_records", "model")
_OF_RELEASES = ("fail_on_regression", "allow_missing", "alpha", "min_effect", "mechanism")


def _answer(comparison: RowComparison | Comparison, arguments: Mapping[str, Any]) -> Answer:
    code = 0
    if (
        isinstance(comparison, Comparison)
        and comparison.regressed
        and arguments.get("fail_on_regression")
    ):
        code = REGRESSED
    return Answer(comparison.document(), comparison.blocks(), code)


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
    mechanism: p.Rows = (),
    **options: Unpack[p.OfResults],
) -> RowComparison | Comparison:
    """Two rows of a board: which is better on each task, by how much, and how sure that is. Or two releases of a model.

    Raises UsageError for what is not known, with the closest names, and ResultError where there is no result.

    base: a row (tang, tang@1), or result file or folder of what is there.
    candidate: another row, or result file or folder of what is to come.
    epsilon: target epsilon; may be repeated (or A,B).
    suite: of the board; without it two releases are compared.
    fail_on_regression: exit code 1 when a cell got worse or is missing.
    allow_missing: the candidate may lack rows and seeds of the base.
    alpha: family-wise error over all cells (default: 0.05).
    min_effect: smallest change that counts (default: 0.01).
    """
    _refuse_flags({**locals(), **options})
    tasks, epsilons = p.as_list(task), p.as_list(epsilon)
    if suite:
        board = view(str(suite), options).board  # type: ignore[arg-type]
        return compare_named(board, str(suite), base, candidate, tasks, epsilons)
    return compare_sides(
        read_side("base", Path(base)),
        read_side("candidate", Path(candidate)),
        Settings(alpha=alpha, min_effect=min_effect, allow_missing=allow_missing),
        tasks=tasks,
        mechanisms=p.as_list(mechanism),
        epsilons=epsilons,
    )


def _refuse_flags(arguments: Mapping[str, Any]) -> None:
    """Raises UsageError for a flag of the other kind of comparison."""
    if arguments["suite"]:
        names, owners, compared = _OF_RELEASES, "of two releases", "two rows"
    else:
        names, owners, compared = _OF_ROWS, "of two rows of a board", "two result folders"
    known = parameters(compare)
    for name in names:
        if p.as_list(arguments.get(name) or ()) not in ([], [known[name].default]):
            flag = known[name].written
            raise UsageError(
                f"{flag} is a flag {owners}, and {compared} are compared here; leave it out."
            )
