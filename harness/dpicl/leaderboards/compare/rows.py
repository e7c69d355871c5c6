"""Compares two rows of a board on every task.

A row is named by its label, or LABEL@EPSILON: 'tang', 'tang@1'. A mechanism's name will do where it has one label.
Without an ε a row stands for all of its own, and rows are compared within one ε; controls at ε = 0 and the reference
baselines are compared with every ε.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from statistics import fmean
from typing import TYPE_CHECKING, Any

from dpicl.core.errors import UsageError, unknown_name
from dpicl.core.field_types import parse_number
from dpicl.core.grouping import group_by
from dpicl.core.messages import (
    capitalize,
    epsilon_text,
    join_names,
    names_text,
    score_text,
    signed_text,
)
from dpicl.core.vocabulary import model_name
from dpicl.evaluation.statistics import Difference
from dpicl.leaderboards.model.board import Board, choose_part
from dpicl.leaderboards.model.comparability import Group
from dpicl.leaderboards.model.marks import FIXED_DRAW, OWN_READER, Mark
from dpicl.leaderboards.model.ranks import Pairs
from dpicl.leaderboards.model.rows import Row, name_of
from dpicl.leaderboards.model.task_table import TaskTable
from dpicl.leaderboards.model.text import interval_text, metric_name, p_number
from dpicl.tables.document import Block, Column, Table, make_table, words
from dpicl.tables.document import notes as list_notes
from dpicl.tables.shown import Shown

if TYPE_CHECKING:
    import pandas as pd

_READING = (
    "Scores are means over the seeds and test records that both rows have; differences are first minus second, paired"
    " on the seeds; positive: the first row is better, also where lower scores are. Intervals and p are adjusted for"
    " all pairs of one table, since this is exploratory. Claims that a suite plans (`contrasts` in its file) are in"
    " `dpicl board SUITE --full`."
)
#: Characters of a row's name in the head of a column.
_LONGEST_HEAD = 12


@dataclass(frozen=True)
class RowPair:
    """Two rows of one task. difference: the first one's score minus the other's; None without a verdict. reason: then
    why."""

    group: Group
    table: TaskTable
    one: Row
    other: Row
    difference: Difference | None
    reason: str = ""

    @property
    def seeds(self) -> tuple[int, ...]:
        """Those of both rows."""
        return tuple(sorted({*self.one.seeds} & {*self.other.seeds}))

    @property
    def names(self) -> tuple[str, str]:
        """'voting@1 (Q = 100)': both rows as a command names them, with Q."""
        return _name_with_queries(self.one), _name_with_queries(self.other)

    @cached_property
    def means(self) -> tuple[float | None, float | None]:
        """Both mean scores, over the seeds that the difference is of; None where there are none."""
        return _mean(self.one, self.seeds), _mean(self.other, self.seeds)

    @property
    def verdict_names(self) -> tuple[str, str]:
        """Both names, with the sign of what favours a row: 'private_evolution@1 ¶'."""
        one, other = self.names
        return sign_own_reader(one, self.one), sign_own_reader(other, self.other)

    @property
    def section(self) -> str:
        return f"{model_name(self.group.model)}, {self.group.source}"

    @property
    def described(self) -> DescribedDifference:
        return DescribedDifference(self.difference, *self.verdict_names, self.reason)

    @property
    def difference_text(self) -> str | None:
        """'−0.090 (−0.208 to 0.029)'; None without a test."""
        if self.difference is None:
            return None
        interval = interval_text(self.difference.interval)
        return f"{signed_text(self.difference.value)} ({interval})"

    @property
    def size_text(self) -> str:
        """'10 × 40': common seeds, and the test records of each."""
        return f"{len(self.seeds)} × {self.table.documents}"

    @property
    def verdict_line(self) -> str:
        """'trec: tang@1 is better (acc, answered by the model)'."""
        return f"{self.table.task}: {self.described.verdict} ({self.table.describe_metrics()})"

    def to_json(self) -> dict[str, Any]:
        """Both rows, and the difference of their scores."""
        table, group = self.table, self.group
        return {
            "task": table.task,
            "metric": table.metric,
            "metric_name": metric_name(table.metric),
            "reader": table.reader,
            "higher_is_better": not table.lower_is_better(table.metric),
            "model": group.model,
            "source": group.source,
            "delta": group.delta,
            "first": _row_json(self.one, self.means[0]),
            "second": _row_json(self.other, self.means[1]),
            **_difference_json(self.difference),
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
        """A table of every model and source of records: a line a task; and below it a line a verdict."""
        blocks: list[Block] = []
        if self._heads() == ("first", "second"):
            blocks.append(words(f"First {self.one}, second {self.other}."))
        sections = group_by(self.pairs, "section")
        for section, pairs in sections.items():
            if len(sections) > 1:
                blocks.append(words(f"{section}:"))
            blocks.append(self._table(pairs))
            blocks += [words(pair.verdict_line) for pair in pairs]
        notes = []
        if fixed := self._list_marked(FIXED_DRAW):
            notes.append(f"{fixed}: {FIXED_DRAW.name}, which the intervals leave out.")
        if own_readers := self._list_marked(OWN_READER):
            notes.append(
                f"{OWN_READER.sign} {own_readers}: {OWN_READER.name}. {capitalize(OWN_READER.why)}."
            )
        if self.left_out:
            names_left_out = join_names(self.left_out, 9)
            notes.append(
                f"Left out, since without headroom nobody is ranked: {names_left_out} (--task)."
            )
        return [*blocks, *list_notes([*notes, _READING])]

    def _table(self, pairs: Sequence[RowPair]) -> Table:
        """One line for each pair."""
        first, second = self._heads()
        is_one_pair = len({pair.names for pair in self.pairs}) == 1
        columns = [
            Column("task", "task", "table.task"),
            *([] if is_one_pair else [Column("rows", "rows", "names", ", ".join)]),
            Column("first", first, lambda pair: pair.means[0], score_text),
            Column("second", second, lambda pair: pair.means[1], score_text),
            Column("difference", "difference (95%)", "difference_text"),
            Column("p", "p", "described.difference.p", p_number),
            Column("seeds", "seeds × records", "size_text"),
        ]
        title = f"{self.one} and {self.other}"
        return make_table(title, columns, pairs, keep=1 if is_one_pair else 2)

    def _heads(self) -> tuple[str, str]:
        """The heads of the columns of scores: the rows' names, where all pairs have the same and they are short."""
        names = {pair.names for pair in self.pairs}
        if len(names) > 1 or max(map(len, next(iter(names)))) > _LONGEST_HEAD:
            return "first", "second"
        return next(iter(names))

    def _list_marked(self, mark: Mark) -> str:
        """The names of the rows with this mark."""
        rows = [row for pair in self.pairs for row in (pair.one, pair.other)]
        return names_text(sorted({_name_with_queries(row) for row in rows if mark in row.marks}))

    def to_frame(self) -> pd.DataFrame:
        """One row for each pair of rows: what JSON has of it, with the names of the rows."""
        import pandas as pd

        return pd.DataFrame(
            pair.to_json() | {"first": row_name(pair.one), "second": row_name(pair.other)}
            for pair in self.pairs
        )

    def document(self) -> Any:
        """What --json prints."""
        pairs = [pair.to_json() for pair in self.pairs]
        return {
            "suite": self.suite,
            "rows": [self.one, self.other],
            "pairs": pairs,
            "left_out": list(self.left_out),
        }


def row_name(row: Row) -> str:
    """'tang@1': how a command names the row; a reference baseline has no ε to name."""
    return row.label if row.is_baseline else f"{row.label}@{epsilon_text(row.epsilon)}"


def _name_with_queries(row: Row) -> str:
    """'voting@1 (Q = 100)'."""
    return name_of(row_name(row), row.queries)


def sign_own_reader(name: str, row: Row) -> str:
    """The name of a row, with the sign of what favours it."""
    return f"{name} {OWN_READER.sign}" if OWN_READER in row.marks else name


def _mean(row: Row, seeds: Collection[int]) -> float | None:
    """The mean score of a row over these seeds; None without a seed."""
    scores = [result.score for result in row.results if result.cell.seed in seeds]
    return fmean(scores) if scores else None


def _rows_named(text: str, rows: Sequence[Row]) -> tuple[list[Row], bool]:
    """(the rows that a name stands for, whether it names an ε). Raises UsageError where there is none."""
    labels = {row.label for row in rows}
    name, at, epsilon = text.rpartition("@")
    if text in labels or not at:
        name, at = text, ""
    if name not in labels:
        of_mechanism = sorted({row.label for row in rows if row.mechanism == name})
        if len(of_mechanism) > 1:
            raise UsageError(
                f"'{name}' has several rows: {', '.join(of_mechanism)}; name one of them."
            )
        if not of_mechanism:
            raise unknown_name("row", name, sorted(labels))
        name = of_mechanism[0]
    at_every_epsilon = [row for row in rows if row.label == name]
    if not at:
        return at_every_epsilon, False
    value = _parse_epsilon(epsilon, text)
    matching = [row for row in at_every_epsilon if row.epsilon == value]
    if not matching:
        known = ", ".join(sorted({row_name(row) for row in at_every_epsilon}))
        raise UsageError(f"There is no '{text}' on this board; it has {known}.")
    return matching, True


def _parse_epsilon(epsilon: str, name: str) -> float:
    """The ε of a row's name. Raises UsageError for one that makes no sense."""
    try:
        value = math.inf if epsilon.strip() == "∞" else parse_number(epsilon)
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise UsageError(
            f"'{epsilon}' in '{name}' is not an ε; name a row as LABEL or LABEL@EPSILON, such as tang@1."
        )
    return value


def compare_named(
    board: Board,
    suite: str,
    one: str,
    other: str,
    tasks: Sequence[str] = (),
    epsilons: Sequence[float] = (),
) -> RowComparison:
    """Both rows on every task that has them and ranks rows; where none does, on every task that has them.

    Raises UsageError for a row, a task or an ε that the board does not have, with the closest names, and for rows that
    stand nowhere together.
    """
    part = choose_part(board, tasks, (), epsilons)
    rows = list(part.rows)
    first, names_first_epsilon = _rows_named(one, rows)
    second, names_second_epsilon = _rows_named(other, rows)
    at_any_epsilon = names_first_epsilon and names_second_epsilon
    pairs: list[RowPair] = []
    for section in part.sections:
        for table in section.tables:
            differences = Pairs(table)
            ones = [row for row in table.in_order if row in first]
            others = [row for row in table.in_order if row in second]
            for row, rival in product(ones, others):
                is_level = row.epsilon == rival.epsilon or row.is_reference or rival.is_reference
                if row is rival or not (is_level or at_any_epsilon):
                    continue
                difference = differences.difference(row, rival)
                reason = "" if difference else differences.explain(row, rival)
                pairs.append(RowPair(section.group, table, row, rival, difference, reason))
    if not pairs:
        places = [
            sorted({f"{row_name(row)} on {row.task}" for row in named}) for named in (first, second)
        ]
        where = "; ".join(map(join_names, places))
        raise UsageError(f"'{one}' and '{other}' are not two rows of one task and ε: {where}.")
    ranked = [pair for pair in pairs if not pair.table.ranks_nobody] or pairs
    has_several_sections = len({pair.group for pair in pairs}) > 1
    left_out = {
        f"{pair.table.task} ({pair.group.model})" if has_several_sections else pair.table.task
        for pair in pairs
        if pair not in ranked
    }
    return RowComparison(suite, one, other, tuple(ranked), tuple(sorted(left_out)))


@dataclass(frozen=True)
class DescribedDifference:
    """A difference of two rows, their names, and why there is none."""

    difference: Difference | None
    one: str
    other: str
    reason: str

    @property
    def verdict(self) -> str:
        difference = self.difference
        if difference is None:
            return f"no verdict: {self.reason}"
        if difference.verdict == "better":
            return f"{self.one if difference.value > 0 else self.other} is better"
        if difference.verdict == "equivalent":
            return f"equivalent, within {score_text(difference.margin)}"
        return f"inconclusive, up to {score_text(difference.excluded)} not excluded"


def _row_json(row: Row, mean: float | None) -> dict[str, Any]:
    """score: its mean over what both rows have; score_of_all_seeds: as on the board."""
    names = ("label", "mechanism", "epsilon", "proved", "recovery")
    return {
        "row": row_name(row),
        **{name: getattr(row, name) for name in names},
        "unranked": row.no_rank,
        "score": mean,
        "score_of_all_seeds": row.score,
        "marks": [mark.name for mark in row.marks],
        "epsilon_text": epsilon_text(row.epsilon),
    }


#: Name in JSON -> attribute of a difference.
_NUMBERS = {
    "difference": "value",
    "p_adjusted": "p",
    **{name: name for name in ("low", "high", "family", "margin", "excluded")},
}


def _difference_json(difference: Difference | None) -> dict[str, Any]:
    """verdict: better (of which: the first or the second), equivalent, inconclusive, or not tested."""
    numbers = {name: getattr(difference, field, None) for name, field in _NUMBERS.items()}
    better = None
    if difference is not None and difference.verdict == "better":
        better = "first" if difference.value > 0 else "second"
    verdict = "not tested" if difference is None else difference.verdict
    return {"verdict": verdict, "better": better, **numbers}
