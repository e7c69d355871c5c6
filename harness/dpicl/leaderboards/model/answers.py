"""Determines the best rows of a board at one ε and Q, and compares them with the controls."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpicl.core.messages import capitalize, epsilon_text, join_names, names_text, queries_words, score_text
from dpicl.evaluation.statistics import FEWEST_SEEDS, RankSets
from dpicl.leaderboards.model.marks import FIXED_DRAW, OWN_READER
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.task_table import TaskTable
from dpicl.leaderboards.model.text import metrics_text

#: The ε that is answered first, where a board has it.
_USUAL = 1.0
#: Rows that are named with their numbers; of more the first ones.
_NAMED = 3
#: The verdict on a row that is compared with none.
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

    best: the methods that no other is better than, the highest first; verdict: what is said of them, or where nobody is
    ranked the reason. controls: those at ε = 0, without a language model, or with records (`Row.is_control`), that
    score at least as much as each of them. to_beat: the highest row that reads no record. beating: the methods that
    are better than it, at 95% for all rows together; None where they were not compared.
    not_compared: rows that read no record and score at least as much as `to_beat`, in no rank set. metric, reader: of
    the scores. own_readers: rows that use the embeddings that the metric reads and score at
    least as much as the best, which therefore have no rank.
    """

    epsilon: float
    task: str
    queries: str
    best: tuple[Best, ...]
    verdict: str
    controls: tuple[Best, ...] = ()
    to_beat: Best | None = None
    beating: tuple[str, ...] | None = None
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
        return bool(self.best) and self.verdict != _ALONE and not self.verdict.endswith(_NOT_COMPARED)

    @property
    def texts(self) -> tuple[str, str]:
        """The best rows and the controls, in words; '–' for none."""
        best, controls = (join_names(map(str, own), _NAMED) or "–" for own in (self.best, self.controls))
        return best, controls

    @property
    def useful(self) -> list[Best]:
        """Of the best rows those to use: all that were not found to be no better than a row that reads no record."""
        return [one for one in self.best if self.beating is None or one.label in self.beating]

    @property
    def line(self) -> str:
        """The verdict in one line: what is better than every row that reads no record, or that nothing is."""
        if not self.best:
            return f"{self.where}: no verdict, {self.verdict}"
        if self.beating is None:
            return f"{self.where}: {_list_rows(self.best)}, {self.verdict}"
        if not self.useful:
            return f"{self.where}: nothing is shown to be better than {self.to_beat}, which reads no record"
        verb = "is" if len(self.useful) == 1 else "are"
        return f"{self.where}: {_list_rows(self.useful)} {verb} better than {self.to_beat}, which reads no record"

    @property
    def sentence(self) -> str:
        """What to use, what beats it, and what it is tied with."""
        said = f"At ε = {epsilon_text(self.epsilon)} on {self.where}"
        if not self.best:
            return f"{said}: {self.verdict}.{self._as_good}"
        beating = self.useful
        tied = [one for one in self.best if one not in beating]
        verdict = self.verdict + (" (95%)" if self.compared else "")
        if not beating:
            said += f", no method is shown to be better than {self.to_beat}, which reads no record."
            return f"{said} Best: {_list_rows(tied)}, {verdict}.{self._as_good}"
        said += f", use {_list_rows(beating, 'or')}"
        if self.beating is not None:
            said += f", better than {self.to_beat}, which reads no record"
        it = "it" if len(beating) == 1 else "them"
        rest = f"Tied with {it} (95%): {_list_rows(tied)}" if tied else capitalize(verdict)
        return f"{said}. {rest}.{self._as_good}"

    @property
    def _as_good(self) -> str:
        others = [one for one in self.controls if one != self.to_beat]
        said = f" Controls that score as much or more: {_list_rows(others)}." if others else ""
        if self.not_compared:
            said += f" Not compared ({FIXED_DRAW.name}): {_list_rows(self.not_compared)}, without records."
        if self.own_readers:
            rows = _list_rows(self.own_readers)
            said += f" As much or more, without a rank ({OWN_READER.name}): {rows}."
        return f"{said} Scores: {self.metrics}."

    def __str__(self) -> str:
        return f"ε = {epsilon_text(self.epsilon)}, {self.where}: {self.texts[0]}, {self.verdict}; {self.metrics}"


def _list_rows(rows: Sequence[Best], last: str = "and") -> str:
    """Rows with their numbers; of many the first and the last number."""
    if len(rows) <= _NAMED:
        return names_text(map(str, rows), last)
    return f"{names_text([one.name for one in rows], last)} ({rows[0].number} to {rows[-1].number})"


def answers(tables: Sequence[TaskTable]) -> tuple[BoardAnswer, ...]:
    """On every task at every ε with ranked rows. ε = 1, or the one nearest to it, comes first, then the others,
    rising."""
    return tuple(answer for epsilon in levels(tables) for table in tables for answer in _answer_at(table, epsilon))


def _answer_at(table: TaskTable, epsilon: float) -> Iterator[BoardAnswer]:
    """An answer for each Q of which rows are ranked, or one that says that nobody is."""
    own = {queries: rows for (level, queries), rows in table.levels.items() if level == epsilon}
    if table.ranks_nobody:
        if own:
            yield BoardAnswer(epsilon, table.task, "", (), "no headroom", metric=table.metric, reader=table.reader)
        return
    if own and (reason := table.unranked_levels.get(epsilon)):
        fixed = tuple(map(_best, table.not_compared))
        answer = BoardAnswer(epsilon, table.task, "", (), reason, not_compared=fixed)
        yield replace(answer, metric=table.metric, reader=table.reader)
        return
    for queries, rows in own.items():
        yield _answer(table, epsilon, queries_words(queries) if len(own) > 1 else "", rows)


def levels(tables: Sequence[TaskTable]) -> list[float]:
    """Every ε with ranked rows: 1, or the one nearest to it, first; then the others, rising."""
    found = sorted({epsilon for table in tables for epsilon, _ in table.levels})
    finite = [epsilon for epsilon in found if math.isfinite(epsilon)]
    if not finite:
        return found
    first = min(finite, key=lambda epsilon: abs(math.log(epsilon / _USUAL)))
    return [first, *(epsilon for epsilon in found if epsilon != first)]


def _answer(table: TaskTable, epsilon: float, queries: str, rows: Sequence[Row]) -> BoardAnswer:
    """The answer for the rows of one level: where some are methods, these are ranked, and the others are controls."""
    told = [row for row in rows if any(_is_comparable(family, row) for family in table.families)] or rows
    methods = [row for row in told if not row.is_control] or told
    family = next((one for one in table.families if {row.key for row in methods} <= one.places.keys()), None)
    best = sorted(_list_unbeaten(family, methods), key=lambda row: -row.worth)
    others = [*table.controls, *(row for row in told if row not in methods)]
    as_good = sorted((one for one in others if one.worth >= best[0].worth), key=lambda one: -one.worth)
    verdict = _verdict(family, best, len(methods))
    own_readers = table.list_own_readers(epsilon)
    control = max(table.without_records, key=lambda one: one.worth, default=None)
    beside, beating = table.beside_ends.get(epsilon), None
    if control is not None and beside is not None:
        below = beside.places[control.key]
        above_it = [row for row in methods if beside.better[beside.places[row.key], below]]
        beating = tuple(row.label for row in sorted(above_it, key=lambda row: -row.worth))
    return BoardAnswer(
        epsilon=epsilon,
        task=table.task,
        queries=queries,
        best=tuple(map(_best, best)),
        verdict=verdict,
        controls=tuple(map(_best, as_good)),
        to_beat=None if control is None else _best(control),
        beating=beating,
        not_compared=tuple(_best(one) for one in table.not_compared if control is None or one.worth >= control.worth),
        metric=table.metric,
        reader=table.reader,
        own_readers=tuple(_best(row) for row in own_readers if row.worth >= best[0].worth),
    )


def _is_comparable(family: RankSets, row: Row) -> bool:
    """Whether it shares enough seeds with some other one."""
    return row.key in family.places and bool(family.comparable[family.places[row.key]].any())


def _list_unbeaten(family: RankSets | None, rows: Sequence[Row]) -> Sequence[Row]:
    """Those that none of the others is better than; all of them where there are no two to compare."""
    if family is None or len(rows) < 2:
        return rows
    places = [family.places[row.key] for row in rows]
    return [row for row, at in zip(rows, places, strict=True) if not family.better[places, at].any()]


def _verdict(family: RankSets | None, best: Sequence[Row], of: int) -> str:
    """What is said of the best rows of so many."""
    if len(best) == 1:
        return _ALONE if of == 1 else "better than the other" if of == 2 else f"better than all {of - 1} others"
    equivalent = False
    if family is not None:
        pairs = np.ix_(*[[family.places[row.key] for row in best]] * 2)
        known = family.comparable[pairs]
        if not known.any():
            return f"{len(best)} of {of} {_NOT_COMPARED}"
        equivalent = bool(family.equivalent[pairs][known].all())
    return f"{len(best)} of {of} {'equivalent' if equivalent else 'tied'}"


def _best(one: Row) -> Best:
    return Best(one.label, score_text(one.score), one.name)
