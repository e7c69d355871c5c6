"""Determines the best rows of a board at one ε and Q, and compares them with the controls."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np

from dpicl.core.messages import (
    epsilon_text,
    join_names,
    names_text,
    queries_words,
    score_text,
)
from dpicl.evaluation.statistics import FEWEST_SEEDS, RankSets
from dpicl.leaderboards.model.rows import Row, by_worth
from dpicl.leaderboards.model.task_table import NOBODY, TaskTable
from dpicl.leaderboards.model.text import metrics_text

#: The ε that is answered first, where a board has it.
_USUAL = 1.0
#: Rows that are named with their numbers; of more the first ones.
_NAMED = 3
#: The verdict on a row without rivals.
_ALONE = "the only row"
#: The verdict on rows of which no two share enough seeds.
_NOT_COMPARED = f"not compared: they have fewer than {FEWEST_SEEDS} seeds in common"


@dataclass(frozen=True)
class Best:
    """A row. name: the label, with Q. number: its score, in words."""

    label: str
    number: str
    name: str

    def __str__(self) -> str:
        return f"{self.name} ({self.number})"


@dataclass(frozen=True)
class BoardAnswer:
    """Who is best on a task at an ε. queries: Q in words, where rows of several are ranked apart.

    best: the methods that no other is better than, the highest first; verdict: how they compare, or why nobody is
    ranked. controls: those at ε = 0, without a language model, or with records (`Row.is_control_with_records`), that
    score at least as much as each of them. to_beat: the highest row that reads no record. beating, equivalent,
    inconclusive, worse: the methods that are so beside it, at 95% for all rows together, the highest first; beating is
    None where they were not compared.
    not_compared: rows that read no record and score at least as much as `to_beat`, in no rank set. metric, reader: of
    the scores. own_readers: rows that use the embeddings that the metric reads and score at
    least as much as the best, which therefore have no rank.
    """

    epsilon: float
    task: str
    queries: str = ""
    best: tuple[Best, ...] = ()
    verdict: str = ""
    controls: tuple[Best, ...] = ()
    to_beat: Best | None = None
    beating: tuple[str, ...] | None = None
    equivalent: tuple[str, ...] = ()
    inconclusive: tuple[str, ...] = ()
    worse: tuple[str, ...] = ()
    not_compared: tuple[Best, ...] = ()
    metric: str = ""
    reader: str = ""
    own_readers: tuple[Best, ...] = ()

    @property
    def metrics(self) -> str:
        """What the scores are, and who reads what was released."""
        return metrics_text([(self.metric, self.reader)])

    @property
    def where(self) -> str:
        """'agnews', 'agnews, 20 queries'."""
        return f"{self.task}, {self.queries}" if self.queries else self.task

    @property
    def compared(self) -> bool:
        """Whether it is about more than one row."""
        return (
            bool(self.best) and self.verdict != _ALONE and not self.verdict.endswith(_NOT_COMPARED)
        )

    @property
    def texts(self) -> tuple[str, str]:
        """The best rows and the controls, in words; '–' for none."""
        return _join_rows(self.best), _join_rows(self.controls)

    @property
    def line(self) -> str:
        """The verdict in one line: which methods beat the best row that reads no record, and how many do not."""
        if self.no_verdict:
            return f"{self.where}: no verdict ({self.no_verdict})"
        if self.beating is None or self.to_beat is None:
            return f"{self.where}: {_list_rows(self.best)}, {self.verdict}"
        others = {
            "equivalent": self.equivalent,
            "inconclusive": self.inconclusive,
            "worse": self.worse,
        }
        counts = ", ".join(f"{len(labels)} {name}" for name, labels in others.items() if labels)
        end = f" {self.to_beat}" + (f"; {counts}" if counts else "")
        if not self.beating:
            return f"{self.where}: none shown to beat{end}"
        shown = _NAMED if len(self.beating) <= _NAMED else 1
        verb = "beats" if len(self.beating) == 1 else "beat"
        if len(self.best) == 1 and self.verdict != _ALONE:
            end += f"; {self.best[0].name} is {self.verdict}"
        return f"{self.where}: {join_names(self.beating, shown)} {verb}{end}"

    @property
    def no_verdict(self) -> str:
        """Why there is no verdict; "" where there is one."""
        if not self.best:
            return self.verdict.removeprefix(f"{NOBODY}, because ")
        compared = (self.equivalent, self.inconclusive, self.worse)
        if self.to_beat and self.beating == () and not any(compared):
            return f"fewer than {FEWEST_SEEDS} seeds in common with {self.to_beat.name}"
        return ""

    def __str__(self) -> str:
        return f"ε = {epsilon_text(self.epsilon)}, {self.where}: {self.texts[0]}, {self.verdict}; {self.metrics}"


def _list_rows(rows: Sequence[Best]) -> str:
    """Rows with their numbers; of many the first and the last number."""
    if len(rows) <= _NAMED:
        return names_text(map(str, rows))
    return f"{names_text(row.name for row in rows)} ({rows[0].number} to {rows[-1].number})"


def _join_rows(rows: Iterable[Best]) -> str:
    """Rows with their numbers, the first few; '–' for none."""
    return join_names(map(str, rows), _NAMED) or "–"


def answers(tables: Sequence[TaskTable]) -> tuple[BoardAnswer, ...]:
    """On every task at every ε with ranked rows. ε = 1, or the one nearest to it, comes first, then the others,
    rising."""
    return tuple(
        answer
        for epsilon in levels(tables)
        for table in tables
        for answer in _answers_at(table, epsilon)
    )


def _answers_at(table: TaskTable, epsilon: float) -> Iterator[BoardAnswer]:
    """An answer for each Q of which rows are ranked, or one that says that nobody is."""
    by_queries = table.levels.get(epsilon, {})
    answer = BoardAnswer(
        epsilon, table.task, metric=table.metric, reader=table.reader, verdict="no headroom"
    )
    reason = table.unranked_levels.get(epsilon)
    if by_queries and table.ranks_nobody:
        yield answer
    elif by_queries and reason:
        yield replace(answer, verdict=reason, not_compared=_make_best(table.not_compared))
    else:
        for queries, rows in by_queries.items():
            words = queries_words(queries) if len(by_queries) > 1 else ""
            yield replace(answer, queries=words, **_judge(table, epsilon, rows))


def levels(tables: Sequence[TaskTable]) -> list[float]:
    """Every ε with ranked rows: 1, or the one nearest to it, first; then the others, rising."""
    epsilons = sorted({epsilon for table in tables for epsilon in table.levels})
    finite = filter(math.isfinite, epsilons)
    first = min(finite, key=lambda epsilon: abs(math.log(epsilon / _USUAL)), default=None)
    return sorted(epsilons, key=lambda epsilon: epsilon != first)


def _judge(table: TaskTable, epsilon: float, rows: Sequence[Row]) -> dict[str, Any]:
    """The verdict on the rows of one level: where some are methods, these are ranked, and the others are controls."""
    comparable = [row for row in rows if _is_comparable(table.families, row)] or rows
    methods = [row for row in comparable if not row.is_control_with_records] or comparable
    family = _find_family(table.families, methods)
    best = by_worth(_list_unbeaten(family, methods))
    least = best[0].worth
    controls = [*table.controls, *(row for row in comparable if row not in methods)]
    to_beat = max(table.without_records, key=attrgetter("worth"), default=None)
    floor = -math.inf if to_beat is None else to_beat.worth
    beside = None
    whole = table.with_reference_rows.get(epsilon)
    if to_beat is not None and whole is not None:
        beside = _compare_with(whole, to_beat, by_worth(methods))
    return {
        "best": _make_best(best),
        "verdict": _verdict(family, best, len(methods)),
        "controls": _make_best(by_worth(controls), least),
        "to_beat": None if to_beat is None else _make_best([to_beat])[0],
        **(beside or {}),
        "not_compared": _make_best(table.not_compared, floor),
        "own_readers": _make_best(table.list_own_readers(epsilon), least),
    }


def _compare_with(
    family: RankSets, control: Row, rows: Sequence[Row]
) -> dict[str, tuple[str, ...]]:
    """The labels of rows by what they are beside a control of their family, of those that can be compared."""
    labels: dict[str, list[str]] = {
        "beating": [],
        "equivalent": [],
        "inconclusive": [],
        "worse": [],
    }
    at = family.places[control.key]
    for row in rows:
        place = family.places[row.key]
        if not family.comparable[place, at]:
            continue
        if family.better[place, at]:
            labels["beating"].append(row.label)
        elif family.better[at, place]:
            labels["worse"].append(row.label)
        else:
            labels["equivalent" if family.equivalent[place, at] else "inconclusive"].append(
                row.label
            )
    return {name: tuple(of_name) for name, of_name in labels.items()}


def _is_comparable(families: Iterable[RankSets], row: Row) -> bool:
    """Whether it shares enough seeds with some other row of a family."""
    own_families = (family for family in families if row.key in family.places)
    return any(family.comparable[family.places[row.key]].any() for family in own_families)


def _find_family(families: Iterable[RankSets], rows: Iterable[Row]) -> RankSets | None:
    """The first family that has all of these rows."""
    keys = {row.key for row in rows}
    return next((family for family in families if keys <= family.places.keys()), None)


def _list_unbeaten(family: RankSets | None, rows: Sequence[Row]) -> Sequence[Row]:
    """The rows that no other is better than; all of them where there are no two to compare."""
    if family is None or len(rows) < 2:
        return rows
    places = [family.places[row.key] for row in rows]
    return [
        row
        for row, place in zip(rows, places, strict=True)
        if not family.better[places, place].any()
    ]


def _verdict(family: RankSets | None, best: Sequence[Row], rows: int) -> str:
    """The verdict on the best of this number of rows."""
    if len(best) == 1:
        if rows == 1:
            return _ALONE
        return "better than the other" if rows == 2 else f"better than all {rows - 1} others"
    equivalent = False
    if family is not None:
        places = [family.places[row.key] for row in best]
        pairs = np.ix_(places, places)
        comparable = family.comparable[pairs]
        if not comparable.any():
            return f"{len(best)} of {rows} {_NOT_COMPARED}"
        equivalent = bool(family.equivalent[pairs][comparable].all())
    return f"{len(best)} of {rows} {'equivalent' if equivalent else 'tied'}"


def _make_best(rows: Iterable[Row], least: float = -math.inf) -> tuple[Best, ...]:
    """The rows that are worth at least so much."""
    good = (row for row in rows if row.worth >= least)
    return tuple(Best(row.label, score_text(row.score), row.name) for row in good)
