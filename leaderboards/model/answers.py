"""The answer of a board: at one ε who is best, who is tied with the best, and which simple control beats them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dpicl.leaderboards.model.marks import BY_EMBEDDINGS
from dpicl.leaderboards.model.ranks import PUBLIC, compared, ranked
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import Ranking, Standing, TaskTable
from dpicl.leaderboards.model.text import epsilon_text, names_text, recovery_text, score_text

T = TypeVar("T")

#: The ε that is answered first, where a board has it.
_USUAL = 1.0
#: Rows that are named with their numbers; of more the first ones.
_NAMED = 6


@dataclass(frozen=True)
class Best:
    """A row that may be the best, or a control. number: its score, or its mean recovery, in words."""

    label: str
    number: str


@dataclass(frozen=True)
class BoardAnswer:
    """Who is best at an ε. where: a task, or the tasks of a ranking. tasks: these. of: how many rows are ranked.

    first: those that may be the best, the highest first. above: controls at ε = 0 that are at least as good as every
    ranked row. embeddings: rows of ``first`` that are a control without a language model. prompting: where ``first``
    has no other, those of the other rows, prompting_of in number, that none of these is significantly above. public:
    the score of the public control, "" without one; beat_it: how many ranked rows are significantly above it. untold:
    rows with too few seeds to be compared, which are not in ``first``. unrewarded: why nobody is ranked, "" where
    somebody is.
    """

    epsilon: float
    where: str
    first: tuple[Best, ...]
    of: int
    tasks: tuple[str, ...]
    above: tuple[Best, ...] = ()
    embeddings: tuple[str, ...] = ()
    prompting: tuple[Best, ...] = ()
    prompting_of: int = 0
    public: str = ""
    beat_it: int = 0
    untold: tuple[str, ...] = ()
    unrewarded: str = ""

    @property
    def verdict(self) -> str:
        """What is said of ``first``, after their names."""
        if self.unrewarded:
            return f"nobody is ranked: {self.unrewarded}"
        if self.of == 1:
            return "is the only row"
        if len(self.first) == 1:
            return f"is first of {self.of}"
        if len(self.first) == self.of:
            return f"are tied with the best (95%): {'both' if self.of == 2 else f'all {self.of}'} rows"
        return f"are tied with the best (95%), of {self.of}"

    @property
    def names(self) -> str:
        """'tang (0.650), pta (0.640) and 3 more'."""
        return named([f"{one.label} ({one.number})" for one in self.first])

    @property
    def controls(self) -> str:
        """The simple controls beside them, as a sentence without its full stop, or ""."""
        said = []
        if self.above:
            which = names_text(f"{one.label} ({one.number})" for one in self.above)
            who = "which reads no private record" if len(self.above) == 1 else "which read no private record"
            said.append(f"{which}, {who}, {'is' if len(self.above) == 1 else 'are'} at least as good as all of them")
        elif self.public:
            count = f"{self.beat_it} of {self.of}" if self.beat_it else "no row"
            verb = "is" if self.beat_it in (0, 1) else "are"
            said.append(f"{count} {verb} significantly above {PUBLIC} ({self.public}), which reads no private record")
        if self.embeddings:
            verb = "is a control that needs" if len(self.embeddings) == 1 else "are controls that need"
            said.append(f"{names_text(self.embeddings)} {verb} no language model")
        if self.prompting:
            which = named([f"{one.label} ({one.number})" for one in self.prompting])
            verb = "is first" if len(self.prompting) == 1 else "are tied with the best of them (95%)"
            said.append(f"of the {self.prompting_of} that prompt one, {which} {verb}")
        if self.untold:
            said.append(f"{names_text(self.untold)} {'has' if len(self.untold) == 1 else 'have'} too few seeds to rank")
        return "; ".join(said)

    @property
    def says(self) -> str:
        """'At ε = 1, agnews: tang (0.650) is first of 4; no row is significantly above …'."""
        said = "; ".join(filter(None, (f"{self.names} {self.verdict}".strip(), self.controls)))
        return f"At ε = {epsilon_text(self.epsilon)}, {self.where}: {said}."


def answers(tables: Sequence[TaskTable], rankings: Sequence[Ranking]) -> tuple[BoardAnswer, ...]:
    """At every ε with ranked rows: over several tasks first, then on every task. ε = 1, or the one nearest to it, comes
    first, then the others, rising."""
    found: list[BoardAnswer | None] = []
    for epsilon in levels(tables):
        found += [_over_tasks(ranking, epsilon) for ranking in rankings if len(ranking.tasks) > 1]
        found += [_on_task(table, ranked(table).get(epsilon, [])) for table in tables]
    return tuple(answer for answer in found if answer is not None)


def named(rows: Sequence[str]) -> str:
    """'tang, pta and 3 more': the first ones by name."""
    more = len(rows) - _NAMED
    return names_text([*rows[:_NAMED], f"{more} more"] if more > 0 else rows)


def overall(answers: Sequence[BoardAnswer]) -> list[BoardAnswer]:
    """What a board says in one breath, at its first ε: over several tasks where it can, else on every task."""
    first = [one for one in answers if one.epsilon == answers[0].epsilon]
    return [one for one in first if len(one.tasks) > 1] or first


def levels(tables: Sequence[TaskTable]) -> list[float]:
    """Every ε with ranked rows: 1, or the one nearest to it, first; then the others, rising."""
    found = sorted({epsilon for table in tables for epsilon in ranked(table)})
    finite = [epsilon for epsilon in found if math.isfinite(epsilon)]
    if not finite:
        return found
    first = min(finite, key=lambda epsilon: abs(math.log(epsilon / _USUAL)))
    return [first, *(epsilon for epsilon in found if epsilon != first)]


def _over_tasks(ranking: Ranking, epsilon: float) -> BoardAnswer | None:
    own = [one for one in ranking.standings if one.epsilon == epsilon and one.rank is not None]
    own.sort(key=lambda one: -(one.recovery or 0))
    if not own:
        return None
    told = [one for one in own if compared(ranking, (one.label, epsilon))] or own
    first = tuple(Best(one.label, recovery_text(one.recovery)) for one in told if one.rank and one.rank.first)
    where = f"{ranking.scope}, by mean recovery"
    above = [
        Best(one.label, recovery_text(one.recovery))
        for one in ranking.standings
        if one.epsilon == 0
        and not one.is_baseline
        and one.recovery is not None
        and one.recovery >= (own[0].recovery or 0)
    ]
    untold = tuple(one.label for one in own if one not in told)
    names = {one.label for one in first}
    embeddings = tuple(one.label for one in told if one.label in names and BY_EMBEDDINGS.sign in one.signs)
    embeddings = embeddings if len(first) < len(own) else ()
    others = [one for one in told if BY_EMBEDDINGS.sign not in one.signs]
    rivals: dict[Hashable, Standing] = {(one.label, epsilon): one for one in others}
    prompting = _unbeaten(ranking, rivals) if len(embeddings) == len(first) else []
    return BoardAnswer(
        epsilon=epsilon,
        where=where,
        first=first,
        of=len(own),
        tasks=ranking.tasks,
        above=tuple(above),
        embeddings=embeddings,
        prompting=tuple(Best(one.label, recovery_text(one.recovery)) for one in prompting),
        prompting_of=len(others),
        untold=untold,
    )


def _on_task(table: TaskTable, rows: Sequence[Row]) -> BoardAnswer | None:
    if not rows:
        return None
    if table.unrewarded:
        unrewarded = table.unrewarded
        return BoardAnswer(rows[0].epsilon, table.task, (), len(rows), (table.task,), unrewarded=unrewarded)
    sign = 1 if table.lower_is_better(table.metric) else -1
    rows = sorted(rows, key=lambda row: sign * row.score)
    controls = [row for row in table.rows if row.epsilon == 0 and not row.unranked]
    public = next((row for row in controls if row.mechanism == PUBLIC), None)
    untold = [row for row in rows if not compared(table, row.key)] if len(rows) > 1 else []
    first = [row for row in rows if row.rank is not None and row.rank.first and row not in untold]
    if not first:
        first, untold = rows, []
    embeddings = [row for row in first if BY_EMBEDDINGS in row.marks] if len(first) < len(rows) else []
    others = [row for row in rows if BY_EMBEDDINGS not in row.marks and row not in untold]
    rivals: dict[Hashable, Row] = {row.key: row for row in others}
    prompting = _unbeaten(table, rivals) if len(embeddings) == len(first) else []
    return BoardAnswer(
        epsilon=rows[0].epsilon,
        where=table.task,
        first=tuple(map(_best, first)),
        of=len(rows),
        tasks=(table.task,),
        above=tuple(_best(row) for row in controls if sign * row.score <= sign * rows[0].score),
        embeddings=tuple(row.label for row in embeddings),
        prompting=tuple(map(_best, prompting)),
        prompting_of=len(others),
        public="" if public is None else score_text(public.score),
        beat_it=sum(not row.not_above for row in rows),
        untold=tuple(row.label for row in untold),
    )


def _unbeaten(where: TaskTable | Ranking, rivals: Mapping[Hashable, T]) -> list[T]:
    """Those of some ranked rows or standings of one ε, by their names in families, that none of them is significantly
    above; none where there are no two to compare."""
    family = next((one for one in where.families if rivals.keys() <= one.places.keys()), None)
    if family is None or len(rivals) < 2:
        return []
    places = [family.places[name] for name in rivals]
    return [
        rival for rival, at in zip(rivals.values(), places, strict=True) if not family.sets.better[places, at].any()
    ]


def _best(row: Row) -> Best:
    return Best(row.label, score_text(row.score))
