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
    mechanism: p.Rows = (),
    **given: Unpack[p.OfResults],
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
    own = locals()
    said = {**own, **given}
    flags, whose, what = (_OF_RELEASES, "of two releases", "two rows") if suite else (
        _OF_ROWS, "of two rows of a board", "two result folders"
    )  # fmt: skip
    known = parameters(compare)
    for name in flags:
        if p.as_list(said.get(name) or ()) not in ([], [known[name].default]):
            raise UsageError(f"{known[name].written} is a flag {whose}, and {what} are compared here; leave it out.")
    if suite:
        made = view(str(suite), given)  # type: ignore[arg-type]
        return compare_named(made.board, str(suite), base, candidate, p.as_list(task), p.as_list(epsilon))
    before, after = read_side("base", Path(base)), read_side("candidate", Path(candidate))
    settings = Settings(alpha=alpha, min_effect=min_effect, allow_missing=allow_missing)
    wanted = {"tasks": p.as_list(task), "mechanisms": p.as_list(mechanism), "epsilons": p.as_list(epsilon)}
    return compare_sides(before, after, settings, **wanted)
