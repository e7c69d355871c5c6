"""Two named rows side by side: the verdicts, then one table of the numbers."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from dpicl.core.printable import visible
from dpicl.core.vocabulary import model_name
from dpicl.evaluation.statistics import Difference
from dpicl.leaderboards.compare.named_rows import RowComparison, RowPair, full_name, row_name
from dpicl.leaderboards.model.metrics import metric_name
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import Ranking, TaskTable
from dpicl.leaderboards.model.text import epsilon_text, p_number, score_text, signed_text
from dpicl.tables.document import Block, Column, Table, make_table, words

_READING = (
    "Differences are first minus second, paired on the seeds and documents that both rows have; positive: the first"
    " row is better. Intervals cover together, and p is adjusted, for all pairs of rows × tasks that are compared."
)


def _found(key: str, name: str, show: Any, help: str = "") -> Column:
    """A column about the difference, empty where two rows cannot be compared."""
    return Column(key, name, lambda pair: pair.found and attrgetter(key)(pair.found), show, help)


_PAIRS = (
    Column("task", "task", lambda pair: pair.where.task),
    Column("epsilon", "ε", lambda p: ", ".join(dict.fromkeys(epsilon_text(row.epsilon) for row in (p.one, p.other)))),
    _found("value", "difference", signed_text, "of the scores, first minus second"),
    Column(
        "interval",
        "95% interval",
        lambda pair: pair.found and (pair.found.low, pair.found.high),
        lambda own: f"{signed_text(own[0])} to {signed_text(own[1])}",
        "simultaneous for all pairs",
    ),
    _found("p", "adjusted p", p_number),
    Column("first", "first", attrgetter("one.score"), score_text),
    Column("second", "second", attrgetter("other.score"), score_text),
    Column("seeds", "seeds", lambda pair: len(pair.seeds)),
    Column("documents", "records", lambda pair: pair.where.documents),
    Column("family", "compared", lambda p: p.found and f"{p.found.family} × {p.found.tables}", help="rows × tasks"),
)


def pairs_table(found: RowComparison) -> Table:
    """A line a pair."""
    lower = any(pair.where.lower_is_better(pair.where.metric) for pair in found.pairs)
    said = (_READING, *(["Where lower is better the sign is turned."] if lower else []))
    return make_table(f"{found.one} and {found.other}", _PAIRS, found.pairs, keep=2, notes=said)


def pairs_blocks(found: RowComparison) -> list[Block]:
    """The verdicts, then the numbers."""
    several = len({pair.group for pair in found.pairs}) > 1
    blocks: list[Block] = []
    every: list[RowPair[Any]] = [*found.means, *found.pairs]
    for pair in every:
        if isinstance(pair.where, Ranking):
            where = f"mean recovery over {len(pair.where.tasks)} tasks"
        else:
            where = pair.where.task + (f", {model_name(pair.group.model)}, {pair.group.source}" if several else "")
        bold = pair.found is not None and pair.found.verdict != "inconclusive"
        blocks.append(words(f"{visible(where, 200)}: {visible(pair.says, 400)}.", "lead" if bold else ""))
    return [*blocks, pairs_table(found)]


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
