"""Results of two releases for tests: outcomes chosen one by one, on either side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dpicl.leaderboards.compare.reading import Side
from dpicl.results.schema import Documents, Result, Score, to_text
from tests.leaderboards.factory import make_result


def make_scored(
    outcomes: Sequence[float], mechanism: str = "tang", *, metric: str = "acc", **more: Any
) -> Result:
    """A result whose documents have these outcomes."""
    result = make_result(mechanism, 0.5, documents=len(outcomes), metric=metric, **more)
    values = [float(value) for value in outcomes]
    mean = sum(values) / len(values)
    documents = Documents(ids=result.documents[metric].ids, outcomes=values)
    return result.model_copy(
        update={
            "documents": {**result.documents, metric: documents},
            "scores": {
                **result.scores,
                metric: Score(value=mean, low=max(0.0, mean - 0.1), high=min(1.0, mean + 0.1)),
            },
        }
    )


def replace_cell(result: Result, **changes: Any) -> Result:
    """The result of another cell: its id fits, so the file is a sound one."""
    cell = result.cell.model_copy(update=changes)
    return result.model_copy(update={"cell": cell, "cell_id": cell.id})


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
