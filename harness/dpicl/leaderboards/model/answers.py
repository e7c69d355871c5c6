"""The answer of a board: at one ε and Q the rows that no other is better than, and controls at least as good."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dpicl.evaluation.statistics import Difference
from dpicl.leaderboards.model.marks import BY_EMBEDDINGS
from dpicl.leaderboards.model.ranks import between, compared, levels_of, ranked
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import Level, Ranking, Standing, TaskTable
from dpicl.leaderboards.model.text import epsilon_text, names_text, queries_words, recovery_text, score_text

T = TypeVar("T", Row, Standing)

#: The ε that is answered first, where a board has it.
_USUAL = 1.0
#: Rows that are named with their numbers; of more the first ones.
_NAMED = 3
#: The verdict on a row that is compared with none.
_ALONE = "the only row"


@dataclass(frozen=True)
class Best:
    """A row. name: the label, with Q. number: its score, or its mean recovery, in words."""

    label: str
    number: str
    name: str


@dataclass(frozen=True)
class BoardAnswer:
    """Who is best at an ε. where: a task, or the tasks of a ranking, and Q where several are ranked. tasks: these.

    best: the rows that prompt a language model and that none of these is better than, the highest first; verdict: what
    is said of them, or 'no headroom' where nobody is ranked. controls: those at ε = 0, or without a language model,
    that are at least as good as each of them.
    """

    epsilon: float
    where: str
    tasks: tuple[str, ...]
    best: tuple[Best, ...]
    verdict: str
    controls: tuple[Best, ...] = ()

    @property
    def compared(self) -> bool:
        """Whether it is about more than one row."""
        return bool(self.best) and self.verdict != _ALONE

    @property
    def texts(self) -> tuple[str, str]:
        """The best rows and the controls, in words; '–' for none."""
        best, controls = (named([f"{one.name} ({one.number})" for one in own]) for own in (self.best, self.controls))
        return best or "–", controls or "–"

    def __str__(self) -> str:
        return f"ε = {epsilon_text(self.epsilon)}, {self.where}: {self.texts[0]}, {self.verdict}"


def answers(tables: Sequence[TaskTable], rankings: Sequence[Ranking]) -> tuple[BoardAnswer, ...]:
    """At every ε with ranked rows: over several tasks first, then on every task. ε = 1, or the one nearest to it, comes
    first, then the others, rising."""
    found: list[BoardAnswer | None] = []
    for epsilon in levels(tables):
        for ranking in (one for one in rankings if len(one.tasks) > 1):
            own_levels = {level: own for level, own in levels_of(ranking).items() if level[0] == epsilon}
            found += [_over_tasks(ranking, level, own, own_levels) for level, own in own_levels.items()]
        for table in tables:
            rows = {level: own for level, own in ranked(table).items() if level[0] == epsilon}
            said = list(rows.items())[:1] if table.unrewarded else rows.items()  # of all Q the same
            found += [_on_task(table, level, own, rows) for level, own in said]
    return tuple(answer for answer in found if answer is not None)


def _queries(level: Level, all_of: Mapping[Level, object]) -> str:
    """', 100 queries': where rows of other Q are ranked apart."""
    queries = [queries_words(one) for one in level[1]]
    return f", {names_text(queries)}" if len(all_of) > 1 else ""


def named(rows: Sequence[str]) -> str:
    """'tang, pta and 3 more': the first ones by name."""
    more = len(rows) - _NAMED
    return names_text([*rows[:_NAMED], f"{more} more"] if more > 0 else rows)


def overall(answers: Sequence[BoardAnswer]) -> list[BoardAnswer]:
    """What is said of a board in brief: at each ε over several tasks where it can, else on every task."""
    several = {one.epsilon for one in answers if len(one.tasks) > 1}
    return [one for one in answers if len(one.tasks) > 1 or one.epsilon not in several]


def levels(tables: Sequence[TaskTable]) -> list[float]:
    """Every ε with ranked rows: 1, or the one nearest to it, first; then the others, rising."""
    found = sorted({epsilon for table in tables for epsilon, _ in ranked(table)})
    finite = [epsilon for epsilon in found if math.isfinite(epsilon)]
    if not finite:
        return found
    first = min(finite, key=lambda epsilon: abs(math.log(epsilon / _USUAL)))
    return [first, *(epsilon for epsilon in found if epsilon != first)]


def _over_tasks(
    ranking: Ranking, level: Level, own: Sequence[Standing], all_of: Mapping[Level, object]
) -> BoardAnswer | None:
    rows: dict[Hashable, Standing] = {(one.label, level[0]): one for one in own if one.rank is not None}
    controls = [one for one in ranking.standings if one.epsilon == 0 and not one.is_baseline]
    where = f"{ranking.scope}{_queries(level, all_of)}, by mean recovery"
    return _answer(ranking, level[0], where, ranking.tasks, rows, controls, _recovery)


def _recovery(one: Standing) -> float:
    return one.recovery or 0.0


def _on_task(table: TaskTable, level: Level, own: Sequence[Row], all_of: Mapping[Level, object]) -> BoardAnswer | None:
    where = table.task + _queries(level, all_of)
    if own and table.unrewarded:
        return BoardAnswer(level[0], table.task, (table.task,), (), "no headroom")
    sign = -1 if table.lower_is_better(table.metric) else 1
    controls = [row for row in table.rows if row.epsilon == 0 and not row.unranked]
    rows: dict[Hashable, Row] = {row.key: row for row in own}

    def worth(row: Row) -> float:
        return sign * row.score

    return _answer(table, level[0], where, (table.task,), rows, controls, worth)


def _answer(
    place: TaskTable | Ranking,
    epsilon: float,
    where: str,
    tasks: tuple[str, ...],
    rows: Mapping[Hashable, T],
    controls: Sequence[T],
    worth: Callable[[Any], float],
) -> BoardAnswer | None:
    """The answer for some ranked rows of one level, by their names in families. worth: the larger, the better."""
    if not rows:
        return None
    told: Mapping[Hashable, T] = {name: row for name, row in rows.items() if compared(place, name)} or rows
    prompting: Mapping[Hashable, T] = {name: row for name, row in told.items() if not _by_embeddings(row)} or told
    best = dict(sorted(_unbeaten(place, prompting).items(), key=lambda item: -worth(item[1])))
    most = max(map(worth, best.values()))
    others = [*controls, *(row for row in told.values() if row not in prompting.values())]
    verdict = _verdict(len(best), len(prompting), between(place, list(best)))
    above = sorted((one for one in others if worth(one) >= most), key=lambda one: -worth(one))
    return BoardAnswer(epsilon, where, tasks, tuple(map(_best, best.values())), verdict, tuple(map(_best, above)))


def _verdict(best: int, of: int, differences: Sequence[Difference]) -> str:
    """What is said of the best rows of so many. differences: of all pairs of them."""
    if best == 1:
        return _ALONE if of == 1 else f"better than all {of - 1} others"
    equivalent = differences and all(one.verdict == "equivalent" for one in differences)
    return f"{best} of {of} {'equivalent' if equivalent else 'tied'}"


def _by_embeddings(one: Row | Standing) -> bool:
    return BY_EMBEDDINGS.sign in one.signs if isinstance(one, Standing) else BY_EMBEDDINGS in one.marks


def _unbeaten(place: TaskTable | Ranking, rows: Mapping[Hashable, T]) -> Mapping[Hashable, T]:
    """Those that none of the others is better than; all of them where there are no two to compare."""
    family = next((one for one in place.families if rows.keys() <= one.places.keys()), None)
    if family is None or len(rows) < 2:
        return rows
    places = [family.places[name] for name in rows]
    return {name: own for name, own in rows.items() if not family.better[places, family.places[name]].any()}


def _best(one: Row | Standing) -> Best:
    number = score_text(one.score) if isinstance(one, Row) else recovery_text(one.recovery)
    return Best(one.label, number, one.name)
