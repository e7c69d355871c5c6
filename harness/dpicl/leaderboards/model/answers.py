"""The answer of a board: at one ε and Q the rows that no other is better than, and controls at least as good."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpicl.core.messages import epsilon_text, queries_words
from dpicl.evaluation.statistics import RankSets
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import Level, Ranking, Standing, TaskTable
from dpicl.leaderboards.model.text import named, names_text

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
        shown = ([f"{one.name} ({one.number})" for one in own] for own in (self.best, self.controls))
        best, controls = (named(own, _NAMED) or "–" for own in shown)
        return best, controls

    def __str__(self) -> str:
        return f"ε = {epsilon_text(self.epsilon)}, {self.where}: {self.texts[0]}, {self.verdict}"


def answers(tables: Sequence[TaskTable], rankings: Sequence[Ranking]) -> tuple[BoardAnswer, ...]:
    """At every ε with ranked rows: over several tasks first, then on every task. ε = 1, or the one nearest to it, comes
    first, then the others, rising."""
    places: list[TaskTable | Ranking] = [*(one for one in rankings if len(one.tasks) > 1), *tables]
    return tuple(answer for epsilon in levels(tables) for place in places for answer in _at(place, epsilon))


def _at(place: TaskTable | Ranking, epsilon: float) -> Iterator[BoardAnswer]:
    """An answer for each Q of which rows are ranked, or one that says that nobody is."""
    own: Mapping[Level, Sequence[Row | Standing]] = {
        level: rows for level, rows in place.levels.items() if level[0] == epsilon
    }
    if isinstance(place, TaskTable) and place.ranks_nobody:
        if own:
            yield BoardAnswer(epsilon, place.task, (place.task,), (), "no headroom")
        return
    for (_, queries), rows in own.items():
        where, tasks = (place.task, (place.task,)) if isinstance(place, TaskTable) else (place.scope, place.tasks)
        where += f", {names_text(map(queries_words, queries))}" if len(own) > 1 else ""
        where += "" if isinstance(place, TaskTable) else ", by mean recovery"
        yield _answer(place, epsilon, where, tasks, rows)


def overall(answers: Sequence[BoardAnswer]) -> list[BoardAnswer]:
    """What is said of a board in brief: at each ε over several tasks where it can, else on every task."""
    several = {one.epsilon for one in answers if len(one.tasks) > 1}
    return [one for one in answers if len(one.tasks) > 1 or one.epsilon not in several]


def levels(tables: Sequence[TaskTable]) -> list[float]:
    """Every ε with ranked rows: 1, or the one nearest to it, first; then the others, rising."""
    found = sorted({epsilon for table in tables for epsilon, _ in table.levels})
    finite = [epsilon for epsilon in found if math.isfinite(epsilon)]
    if not finite:
        return found
    first = min(finite, key=lambda epsilon: abs(math.log(epsilon / _USUAL)))
    return [first, *(epsilon for epsilon in found if epsilon != first)]


def _answer(
    place: TaskTable | Ranking, epsilon: float, where: str, tasks: tuple[str, ...], rows: Sequence[Row | Standing]
) -> BoardAnswer:
    """The answer for the rows of one level: where a language model is prompted by some of them, these are ranked, and
    the others are controls."""
    told = [row for row in rows if any(_is_comparable(family, row) for family in place.families)] or rows
    prompting = [row for row in told if row.prompts] or told
    family = next((one for one in place.families if {row.key for row in prompting} <= one.places.keys()), None)
    best = sorted(_unbeaten(family, prompting), key=lambda row: -row.worth)
    others = [*place.controls, *(row for row in told if row not in prompting)]
    above = sorted((one for one in others if one.worth >= best[0].worth), key=lambda one: -one.worth)
    verdict = _verdict(family, best, len(prompting))
    return BoardAnswer(epsilon, where, tasks, tuple(map(_best, best)), verdict, tuple(map(_best, above)))


def _is_comparable(family: RankSets, row: Row | Standing) -> bool:
    """Whether it shares enough seeds with some other one."""
    return row.key in family.places and bool(family.comparable[family.places[row.key]].any())


def _unbeaten(family: RankSets | None, rows: Sequence[Row | Standing]) -> Sequence[Row | Standing]:
    """Those that none of the others is better than; all of them where there are no two to compare."""
    if family is None or len(rows) < 2:
        return rows
    places = [family.places[row.key] for row in rows]
    return [row for row, at in zip(rows, places, strict=True) if not family.better[places, at].any()]


def _verdict(family: RankSets | None, best: Sequence[Row | Standing], of: int) -> str:
    """What is said of the best rows of so many."""
    if len(best) == 1:
        return _ALONE if of == 1 else f"better than all {of - 1} others"
    equivalent = False
    if family is not None:
        pairs = np.ix_(*[[family.places[row.key] for row in best]] * 2)
        known = family.comparable[pairs]
        equivalent = bool(known.any() and family.equivalent[pairs][known].all())
    return f"{len(best)} of {of} {'equivalent' if equivalent else 'tied'}"


def _best(one: Row | Standing) -> Best:
    return Best(one.label, one.number, one.name)
