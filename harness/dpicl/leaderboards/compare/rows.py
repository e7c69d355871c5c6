"""Compares two rows of a board on every task.

A row is named by its label, or LABEL@EPSILON: 'tang', 'tang@1'. A mechanism's name will do where it has one label.
Without an ε a row stands for all of its own, and rows are compared within one ε; controls at ε = 0 and the reference
baselines are compared with every ε.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from operator import attrgetter
from statistics import fmean
from typing import TYPE_CHECKING, Any

from dpicl.core.errors import UsageError, unknown_name
from dpicl.core.field_types import parse_number
from dpicl.core.messages import capitalize, epsilon_text, join_names, names_text, score_text, signed_text
from dpicl.core.vocabulary import model_name
from dpicl.evaluation.statistics import Difference
from dpicl.leaderboards.model.board import Board, choose_part
from dpicl.leaderboards.model.comparability import Group
from dpicl.leaderboards.model.marks import FIXED_DRAW, OWN_READER, Mark
from dpicl.leaderboards.model.ranks import Pairs
from dpicl.leaderboards.model.rows import Row, name_of, score_of
from dpicl.leaderboards.model.task_table import TaskTable
from dpicl.leaderboards.model.text import metric_name, p_number
from dpicl.tables.document import Block, Column, make_table
from dpicl.tables.shown import Shown

if TYPE_CHECKING:
    import pandas as pd

_READING = (
    "Scores are means over the seeds and test records that both rows have; differences are first minus second, paired"
    " on the seeds; positive: the first row is better, also where lower scores are. Intervals cover together, and p is"
    " adjusted, for all pairs of one table: this explores. Planned claims are in `dpicl board SUITE --full`."
)
#: A difference, the names of the two rows, and why there is none.
Compared = tuple[Difference | None, str, str, str]


@dataclass(frozen=True)
class RowPair:
    """Two rows of one task. found: the first one's score minus the other's; None where nothing can be said of them.
    reason: then why."""

    group: Group
    table: TaskTable
    one: Row
    other: Row
    found: Difference | None
    reason: str = ""

    @property
    def seeds(self) -> tuple[int, ...]:
        """Those of both rows."""
        return tuple(sorted({*self.one.seeds} & {*self.other.seeds}))

    @property
    def names(self) -> tuple[str, str]:
        """'voting@1 (Q = 100)': both rows as a command names them, with Q."""
        one, other = (name_of(row_name(row), row.queries) for row in (self.one, self.other))
        return one, other

    @cached_property
    def means(self) -> tuple[float | None, float | None]:
        """Both mean scores, over the seeds that the difference is of; None where there are none."""
        if not self.seeds:
            return None, None
        one, other = (
            fmean(score_of(result) for result in row.results if result.cell.seed in self.seeds)
            for row in (self.one, self.other)
        )
        return one, other

    @property
    def verdict_names(self) -> tuple[str, str]:
        """Both names, with the sign of what favours a row: 'private_evolution@1 ¶'."""
        rows = zip(self.names, (self.one, self.other), strict=True)
        one, other = (f"{name} {OWN_READER.sign}" if OWN_READER in row.marks else name for name, row in rows)
        return one, other

    def to_json(self) -> dict[str, Any]:
        """Both rows, and the difference of their scores."""
        table = self.table
        return {
            "task": table.task,
            "metric": table.metric,
            "metric_name": metric_name(table.metric),
            "reader": table.reader,
            "higher_is_better": not table.lower_is_better(table.metric),
            **{name: getattr(self.group, name) for name in ("model", "source", "delta")},
            "first": _row_json(self.one, self.means[0]),
            "second": _row_json(self.other, self.means[1]),
            **_difference_json(self.found),
            "reason": self.reason,
            "seeds": list(self.seeds),
            "documents": table.documents,
        }


@dataclass(frozen=True, repr=False)
class RowComparison(Shown):
    """Everything that two names stand for. suite: as the user wrote it. one, other: the names. pairs: of a task
    each. left_out: tasks that rank nobody, where others do, with the model
    where there are several."""

    suite: str
    one: str
    other: str
    pairs: tuple[RowPair, ...]
    left_out: tuple[str, ...] = ()

    def blocks(self) -> list[Block]:
        """A line a task."""
        several = len({pair.group for pair in self.pairs}) > 1
        compared = {pair.names for pair in self.pairs}
        heads = next(iter(compared)) if len(compared) == 1 else None  # two rows: their names, once
        first, second = heads or ("first", "second")

        def section(pair: RowPair) -> str | None:
            return f"{model_name(pair.group.model)}, {pair.group.source}" if several else None

        columns = (
            Column("task", "task", attrgetter("table.task")),
            Column("rows", "rows", lambda pair: None if heads else ", ".join(pair.names), optional=True),
            *difference_columns(lambda pair: (pair.found, *pair.verdict_names, pair.reason)),
            Column("first", first, lambda pair: pair.means[0], score_text),
            Column("second", second, lambda pair: pair.means[1], score_text),
            Column("seeds", "seeds", lambda pair: len(pair.seeds)),
            Column("documents", "records", attrgetter("table.documents")),
            Column("metric", "scores", lambda pair: pair.table.describe_metrics(), wide=True),
            Column("section", "model, records", section, wide=True, optional=True),
        )
        notes = []
        if fixed := self._list_marked(FIXED_DRAW):
            notes.append(f"{fixed}: {FIXED_DRAW.name}, which the intervals leave out.")
        if own_readers := self._list_marked(OWN_READER):
            notes.append(f"{OWN_READER.sign} {own_readers}: {OWN_READER.name}. {capitalize(OWN_READER.why)}.")
        if self.left_out:
            notes.append(f"Left out, since without headroom nobody is ranked: {join_names(self.left_out, 9)} (--task).")
        title, keep = f"{self.one} and {self.other}", 1 if heads else 2
        return [make_table(title, columns, self.pairs, keep=keep, notes=(*notes, _READING))]

    def _list_marked(self, mark: Mark) -> str:
        """The names of the rows with this mark."""
        pairs = [zip(pair.names, (pair.one, pair.other), strict=True) for pair in self.pairs]
        return names_text(sorted({name for pair in pairs for name, row in pair if mark in row.marks}))

    def to_frame(self) -> pd.DataFrame:
        """One row for each pair of rows: what JSON has of it, with the names of the rows."""
        import pandas as pd

        names = ({"first": row_name(pair.one), "second": row_name(pair.other)} for pair in self.pairs)
        return pd.DataFrame([pair.to_json() | own for pair, own in zip(self.pairs, names, strict=True)])

    def document(self) -> Any:
        """What --json prints."""
        pairs = [pair.to_json() for pair in self.pairs]
        return {"suite": self.suite, "rows": [self.one, self.other], "pairs": pairs, "left_out": list(self.left_out)}


def row_name(row: Row) -> str:
    """'tang@1': how a command names the row; a reference baseline has no ε to name."""
    return row.label if row.is_baseline else f"{row.label}@{epsilon_text(row.epsilon)}"


def _parse_name(text: str, labels: Collection[str]) -> tuple[str, float | None]:
    """(label or mechanism, its ε where one is named). Raises UsageError for an ε that makes no sense."""
    label, at, epsilon = text.rpartition("@")
    if text in labels or not at:
        return text, None
    try:
        value = math.inf if epsilon.strip() == "∞" else parse_number(epsilon)
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise UsageError(f"'{epsilon}' in '{text}' is not an ε; name a row as LABEL or LABEL@EPSILON, such as tang@1.")
    return label, value


def _rows_named(text: str, rows: Sequence[Row]) -> tuple[list[Row], bool]:
    """(the rows that a name stands for, whether it names an ε). Raises UsageError where there is none."""
    labels = {row.label for row in rows}
    name, epsilon = _parse_name(text, labels)
    own = {name} & labels or {row.label for row in rows if row.mechanism == name}
    if len(own) > 1:
        raise UsageError(f"'{name}' has several rows: {', '.join(sorted(own))}; name one of them.")
    if not own:
        raise unknown_name("row", name, sorted(labels))
    there = [row for row in rows if row.label in own]
    found = [row for row in there if epsilon in (None, row.epsilon)]
    if not found:
        has = ", ".join(sorted({row_name(row) for row in there}))
        raise UsageError(f"There is no '{text}' on this board; it has {has}.")
    return found, epsilon is not None


def compare_named(
    board: Board, suite: str, one: str, other: str, tasks: Sequence[str] = (), epsilons: Sequence[float] = ()
) -> RowComparison:
    """Both rows on every task that has them and ranks rows; where none does, on every task that has them.

    Raises UsageError for a row, a task or an ε that the board does not have, with the closest names, and for rows that
    stand nowhere together.
    """
    part = choose_part(board, tasks, (), epsilons)
    rows = [row for section in part.sections for row in section.rows]
    (first, at_one), (second, at_other) = (_rows_named(text, rows) for text in (one, other))

    def pairs_on(table: TaskTable) -> list[tuple[Row, Row]]:
        own = ([row for row in table.in_order if row in each] for each in (first, second))
        return [
            (a, b)
            for a, b in product(*own)
            if a.key != b.key and ((at_one and at_other) or a.epsilon == b.epsilon or a.is_reference or b.is_reference)
        ]

    tables = ((section.group, table) for section in part.sections for table in section.tables)
    both = [(group, table, found) for group, table in tables if (found := pairs_on(table))]
    if not both:
        where = "; ".join(
            join_names(sorted({f"{row_name(row)} on {row.task}" for row in own})) for own in (first, second)
        )
        raise UsageError(f"'{one}' and '{other}' are not two rows of one task and ε: {where}.")
    ranking = [each for each in both if not each[1].ranks_nobody] or both  # none ranks: all of them
    several = len({group for group, _, _ in both}) > 1
    left_out = sorted(
        f"{table.task} ({group.model})" if several else table.task
        for group, table, _ in both
        if table.ranks_nobody and ranking is not both
    )
    pairs = []
    for group, table, found in ranking:
        differences = Pairs(table)
        for a, b in found:
            difference = differences.difference(a, b)
            reason = "" if difference else differences.explain(a, b)
            pairs.append(RowPair(group, table, a, b, difference, reason))
    return RowComparison(suite, one, other, tuple(pairs), tuple(left_out))


def difference_columns(of: Callable[[Any], Compared]) -> tuple[Column, ...]:
    """Verdict, difference, interval and p of items that are pairs of rows."""

    def verdict(item: Any) -> str:
        found, one, other, reason = of(item)
        if found is None:
            return f"no verdict: {reason}"
        if found.verdict == "better":
            return f"{one if found.value > 0 else other} is better"
        if found.verdict == "equivalent":
            return f"equivalent, within {score_text(found.margin)}"
        return f"inconclusive, up to {score_text(found.excluded)} not excluded"

    def number(*names: str) -> Callable[[Any], Any]:
        return lambda item: None if (found := of(item)[0]) is None else attrgetter(*names)(found)

    return (
        Column("verdict", "verdict", verdict, wide=True),
        Column("value", "difference", number("value"), signed_text),
        Column(
            "interval",
            "95% interval",
            number("low", "high"),
            lambda own: " to ".join(map(signed_text, own)),
            "simultaneous for all pairs of the table",
        ),
        Column("p", "adjusted p", number("p"), p_number),
    )


def _row_json(row: Row, mean: float | None) -> dict[str, Any]:
    """score: its mean over what both rows have; score_of_all_seeds: as on the board."""
    names = ("label", "mechanism", "epsilon", "proved", "recovery")
    own = {name: getattr(row, name) for name in names} | {
        "unranked": row.no_rank,
        "score": mean,
        "score_of_all_seeds": row.score,
    }
    own["marks"] = [mark.name for mark in row.marks]
    return {"row": row_name(row), **own, "epsilon_text": epsilon_text(row.epsilon)}


def _difference_json(found: Difference | None) -> dict[str, Any]:
    """verdict: better (of which: the first or the second), equivalent, inconclusive, or not tested."""
    names = ("better", "difference", "low", "high", "p_adjusted", "family", "margin", "excluded")
    if found is None:
        return {"verdict": "not tested", **dict.fromkeys(names)}
    better = None if found.verdict != "better" else "first" if found.value > 0 else "second"
    numbers = (found.value, found.low, found.high, found.p, found.family, found.margin, found.excluded)
    return {"verdict": found.verdict, **dict(zip(names, (better, *numbers), strict=True))}
