"""Results of two releases for tests: outcomes chosen one by one, on either side."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dpicl.leaderboards.compare.reading import Side
from dpicl.results.schema import Result, to_text
from tests.leaderboards.factory import make_result, with_outcomes


def make_scored(
    outcomes: Sequence[float], mechanism: str = "tang", *, metric: str = "acc", **more: Any
) -> Result:
    """A result whose documents have these outcomes."""
    result = make_result(mechanism, 0.5, documents=len(outcomes), metric=metric, **more)
    return with_outcomes(result, outcomes, metric)


def side(results: Iterable[Result], name: str = "base") -> Side:
    return Side(name, name, tuple(results))


def write_results(folder: Path, results: Iterable[Result]) -> Path:
    """The results as files of a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, result in enumerate(results):
        (folder / f"{number}.json").write_text(to_text(result), encoding="utf-8")
    return folder


def ones(right: int, documents: int) -> list[float]:
    return [1.0] * right + [0.0] * (documents - right)


def plain(mechanism: str = "tang", **more: Any) -> Result:
    """A result that is right on 20 documents of 40."""
    return make_scored(ones(20, 40), mechanism, **more)
