"""Two rows beside each other: the verdict, the difference with its interval, and p, as columns of a table."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from dpicl.core.vocabulary import model_name
from dpicl.evaluation.statistics import Difference
from dpicl.leaderboards.compare.named_rows import RowComparison, RowPair, full_name, row_name
from dpicl.leaderboards.model.marks import FIXED_DRAW
from dpicl.leaderboards.model.metrics import metric_name
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import Ranking, TaskTable
from dpicl.leaderboards.model.text import epsilon_text, names_text, p_number, score_text, signed_text
from dpicl.tables.document import Column, Table, make_table

_READING = (
    "Differences are first minus second, paired on the seeds and documents that both rows have; positive: the first"
    " row is better, also where lower scores are. Intervals cover together, and p is adjusted, for all pairs of rows ×"
    " tasks that are compared."
)
#: A difference, and the names of the two rows.
Compared = tuple[Difference | None, str, str]


def difference_columns(of: Callable[[Any], Compared]) -> tuple[Column, ...]:
    """Verdict, difference, interval and p of items that are pairs of rows."""

    def verdict(item: Any) -> str:
        found, one, other = of(item)
        if found is None:
            return "not compared: too few common seeds or test records"
        if found.verdict == "better":
            return f"{one if found.value > 0 else other} is better"
        if found.verdict == "equivalent":
            return f"equivalent, within {score_text(found.margin)}"
        return f"inconclusive, up to {score_text(found.excluded)} not excluded"

    def number(value: Callable[[Difference], Any]) -> Callable[[Any], Any]:
        return lambda item: None if (found := of(item)[0]) is None else value(found)

    return (
        Column("verdict", "verdict", verdict, wide=True),
        Column("value", "difference", number(attrgetter("value")), signed_text),
        Column(
            "interval",
            "95% interval",
            number(attrgetter("low", "high")),
            lambda own: f"{signed_text(own[0])} to {signed_text(own[1])}",
            "simultaneous for all pairs",
        ),
        Column("p", "adjusted p", number(attrgetter("p")), p_number),
    )


def pairs_table(found: RowComparison) -> Table:
    """A line for the mean over tasks where there is one, then one a task."""
    several = len({pair.group for pair in found.pairs}) > 1
    pairs: list[RowPair[Any]] = [*found.means, *found.pairs]
    compared = {(full_name(pair.one), full_name(pair.other)) for pair in pairs}
    heads = next(iter(compared)) if len(compared) == 1 else None  # two rows: their names, once
    first, second = heads or ("first", "second")

    def rows(pair: RowPair[Any]) -> str | None:
        return None if heads else f"{full_name(pair.one)}, {full_name(pair.other)}"

    def section(pair: RowPair[Any]) -> str | None:
        return f"{model_name(pair.group.model)}, {pair.group.source}" if several else None

    def where(pair: RowPair[Any]) -> str:
        if isinstance(pair.where, Ranking):
            return f"mean recovery over {len(pair.where.tasks)} tasks"
        return str(pair.where.task)

    def of_task(name: str) -> Callable[[RowPair[Any]], Any]:
        return lambda pair: None if isinstance(pair.where, Ranking) else attrgetter(name)(pair)

    columns = (
        Column("where", "where", where),
        Column("rows", "rows", rows, optional=True),
        *difference_columns(lambda pair: (pair.found, full_name(pair.one), full_name(pair.other))),
        Column("first", first, of_task("one.score"), score_text),
        Column("second", second, of_task("other.score"), score_text),
        Column("seeds", "seeds", lambda pair: len(pair.seeds)),
        Column("documents", "records", of_task("where.documents")),
        Column("section", "model, records", section, wide=True, optional=True),
        Column("family", "compared", lambda p: p.found and f"{p.found.family} × {p.found.tables}", help="rows × tasks"),
    )
    fixed = {full_name(row) for pair in found.pairs for row in (pair.one, pair.other) if FIXED_DRAW in row.marks}
    notes = [f"{names_text(sorted(fixed))}: {FIXED_DRAW.name}, which the intervals leave out."] if fixed else []
    return make_table(
        f"{found.one} and {found.other}", columns, pairs, keep=1 if heads else 2, notes=(*notes, _READING)
    )


def pairs_json(found: RowComparison) -> dict[str, Any]:
    """Everything that the terminal shows."""
    means = [
        {"ranking": mean.where.title, "tasks": list(mean.where.tasks)}
        | {"first": full_name(mean.one), "second": full_name(mean.other)}
        | _difference_json(mean.found)
        for mean in found.means
    ]
    pairs = [pair_json(pair) for pair in found.pairs]
    return {"suite": found.suite, "rows": [found.one, found.other], "pairs": pairs, "means": means}


def pair_json(pair: RowPair[TaskTable]) -> dict[str, Any]:
    """One line: both rows, and the difference of their scores."""
    group, table = pair.group, pair.where
    return {
        "task": table.task,
        "metric": table.metric,
        "metric_name": metric_name(table.metric),
        "higher_is_better": not table.lower_is_better(table.metric),
        **{name: getattr(group, name) for name in ("model", "source", "delta", "notion")},
        "first": _row_json(pair.one),
        "second": _row_json(pair.other),
        **_difference_json(pair.found),
        "seeds": list(pair.seeds),
        "documents": table.documents,
    }


def _row_json(row: Row) -> dict[str, Any]:
    names = ("label", "mechanism", "mode", "epsilon", "proved", "score", "recovery", "unranked")
    own = {name: getattr(row, name) for name in names}
    return {"row": row_name(row), **own, "epsilon_text": epsilon_text(row.epsilon)}


def _difference_json(found: Difference | None) -> dict[str, Any]:
    """verdict: better (of which: the first or the second), equivalent, inconclusive, or not tested."""
    names = ("better", "difference", "low", "high", "p_adjusted", "family", "tables", "margin", "excluded")
    if found is None:
        return {"verdict": "not tested", **dict.fromkeys(names)}
    better = None if found.verdict != "better" else "first" if found.value > 0 else "second"
    numbers = (found.value, found.low, found.high, found.p, found.family, found.tables, found.margin, found.excluded)
    return {"verdict": found.verdict, **dict(zip(names, (better, *numbers), strict=True))}
