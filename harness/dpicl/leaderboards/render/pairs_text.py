"""Two named rows side by side: in a terminal, as JSON, and as lines of a table."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from dpicl.core.vocabulary import model_name
from dpicl.leaderboards.compare.named_rows import RowComparison, RowPair, row_name
from dpicl.leaderboards.model.families import Difference
from dpicl.leaderboards.model.metrics import metric_name
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.text import epsilon_text, score_text, signed_text, visible
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
    for mean in found.means:
        _verdict(console, f"mean recovery over {len(mean.ranking.tasks)} tasks", mean.says, mean.found)
    for pair in found.pairs:
        where = (
            f"{pair.table.task}, {model_name(pair.group.model)}, {pair.group.source}" if several else pair.table.task
        )
        _verdict(console, where, pair.says, pair.found)
    console.print()
    print_tables(console, _HEAD, [_line(pair) for pair in found.pairs], keep=2)
    lower = any(pair.table.lower_is_better(pair.table.metric) for pair in found.pairs)
    print_notes(console, [_READING, *(["Where lower is better the sign is turned."] if lower else [])])
    return text()


def _verdict(console: Console, where: str, says: str, found: Difference | None) -> None:
    style = "bold" if found is not None and found.verdict != "inconclusive" else ""
    console.print(Text(f"{visible(where, 200)}: {visible(says, 400)}.", style=style))


def _line(pair: RowPair) -> list[str]:
    found = pair.found
    numbers = ["–", "–", "–"]
    if found is not None:
        interval = f"{signed_text(found.low)} to {signed_text(found.high)}"
        numbers = [signed_text(found.value), interval, f"{found.p:.3f}" if found.p >= 0.001 else "<0.001"]
    levels = dict.fromkeys(epsilon_text(row.epsilon) for row in (pair.one, pair.other))
    rest = [*map(score_text, (pair.one.score, pair.other.score)), str(len(pair.seeds)), str(pair.table.documents)]
    family = "–" if found is None else f"{found.family} × {found.tables}"
    return [pair.table.task, ", ".join(levels), *numbers, *rest, family]


def pairs_json(found: RowComparison) -> dict[str, Any]:
    """Everything that the terminal shows."""
    return {
        "suite": found.suite,
        "rows": [found.one, found.other],
        "pairs": [pair_json(pair) for pair in found.pairs],
        "means": [
            {"ranking": mean.ranking.title, "tasks": list(mean.ranking.tasks), "first": mean.one, "second": mean.other}
            | _difference_json(mean.found)
            for mean in found.means
        ],
    }


def pair_json(pair: RowPair) -> dict[str, Any]:
    """One line: both rows, and the difference of their scores."""
    group = pair.group
    return {
        "task": pair.table.task,
        "metric": pair.table.metric,
        "metric_name": metric_name(pair.table.metric),
        "higher_is_better": not pair.table.lower_is_better(pair.table.metric),
        **{name: getattr(group, name) for name in ("model", "source", "delta", "notion")},
        "first": _row_json(pair.one),
        "second": _row_json(pair.other),
        **_difference_json(pair.found),
        "seeds": list(pair.seeds),
        "documents": pair.table.documents,
    }


def _row_json(row: Row) -> dict[str, Any]:
    return {
        "row": row_name(row),
        **{
            name: getattr(row, name)
            for name in ("label", "mechanism", "mode", "epsilon", "proved", "score", "recovery")
        },
        "epsilon_text": epsilon_text(row.epsilon),
        "unranked": row.unranked,
    }


def _difference_json(found: Difference | None) -> dict[str, Any]:
    """verdict: better (of which: the first or the second), equivalent, inconclusive, or not tested."""
    names = ("better", "difference", "low", "high", "p_adjusted", "family", "tables", "margin", "excluded")
    if found is None:
        return {"verdict": "not tested", **dict.fromkeys(names)}
    better = None if found.verdict != "better" else "first" if found.value > 0 else "second"
    numbers = (better, found.value, found.low, found.high, found.p, found.family, found.tables, found.margin)
    return {"verdict": found.verdict, **dict(zip(names, (*numbers, found.excluded), strict=True))}
