"""Two named rows side by side: in a terminal, as JSON, and as lines of a table."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from dpicl.core.vocabulary import model_name
from dpicl.evaluation.statistics import Difference
from dpicl.leaderboards.compare.named_rows import RowComparison, RowPair, full_name, row_name
from dpicl.leaderboards.model.metrics import metric_name
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import Ranking, TaskTable
from dpicl.leaderboards.model.text import epsilon_text, p_number, score_text, signed_text, visible
from dpicl.leaderboards.render.console import plain_console, print_notes, print_tables

_HEAD = ("task", "ε", "difference", "95% interval", "adjusted p", "first", "second", "seeds", "records", "compared")
_READING = (
    "Differences are first minus second, paired on the seeds and documents that both rows have; positive: the first"
    " row is better."
    " Intervals cover together, and p is adjusted, for all pairs of rows × tasks that are compared."
)


def render_terminal(found: RowComparison, color: bool | None = None) -> str:
    """The verdicts, then the numbers. color: None means: when standard output is a terminal."""
    console, text = plain_console(color)
    several = len({pair.group for pair in found.pairs}) > 1
    every: list[RowPair[Any]] = [*found.means, *found.pairs]
    for pair in every:
        if isinstance(pair.where, Ranking):
            where = f"mean recovery over {len(pair.where.tasks)} tasks"
        else:
            where = pair.where.task + (f", {model_name(pair.group.model)}, {pair.group.source}" if several else "")
        bold = pair.found is not None and pair.found.verdict != "inconclusive"
        console.print(Text(f"{visible(where, 200)}: {visible(pair.says, 400)}.", style="bold" if bold else ""))
    console.print()
    print_tables(console, _HEAD, [_line(pair) for pair in found.pairs], keep=2)
    lower = any(pair.where.lower_is_better(pair.where.metric) for pair in found.pairs)
    print_notes(console, [_READING, *(["Where lower is better the sign is turned."] if lower else [])])
    return text()


def _line(pair: RowPair[TaskTable]) -> list[str]:
    found = pair.found
    numbers, family = ["–", "–", "–"], "–"
    if found is not None:
        interval = f"{signed_text(found.low)} to {signed_text(found.high)}"
        numbers = [signed_text(found.value), interval, p_number(found.p)]
        family = f"{found.family} × {found.tables}"
    levels = dict.fromkeys(epsilon_text(row.epsilon) for row in (pair.one, pair.other))
    rest = [*map(score_text, (pair.one.score, pair.other.score)), str(len(pair.seeds)), str(pair.where.documents)]
    return [pair.where.task, ", ".join(levels), *numbers, *rest, family]


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
