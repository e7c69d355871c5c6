"""The answer of a board: at one ε and Q who is better than all others, or may be, and which control beats them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dpicl.leaderboards.model.marks import BY_EMBEDDINGS
from dpicl.leaderboards.model.ranks import PUBLIC, between, compared, first_verdict, levels_of, ranked
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import Level, Ranking, Standing, TaskTable
from dpicl.leaderboards.model.text import epsilon_text, names_text, queries_words, recovery_text, score_text

T = TypeVar("T")

#: The ε that is answered first, where a board has it.
_USUAL = 1.0
#: Rows that are named with their numbers; of more the first ones.
_NAMED = 6


@dataclass(frozen=True)
class Best:
    """A row that may be the best, or a control. name: the label, with Q. number: its score, or its mean recovery, in
    words."""

    label: str
    number: str
    name: str


@dataclass(frozen=True)
class BoardAnswer:
    """Who is best at an ε, among rows of one Q. where: a task, or the tasks of a ranking. tasks: these. of: how many
    rows are ranked.

    first: those that may be the best, the highest first. verdict: what is said of them, after their names. above:
    controls at ε = 0 that are at least as good as every ranked row. embeddings: rows of ``first`` that are a control
    without a language model. prompting: where ``first`` has no other, those of the other rows, prompting_of in number,
    that none of these is better than, and prompting_verdict. public: the score of the public control, "" where none is
    compared; beat_it: how many ranked rows are better than it. untold: rows with too few seeds to be compared, which
    are not in ``first``. unrewarded: why nobody is ranked, "" where somebody is.
    """

    epsilon: float
    where: str
    first: tuple[Best, ...]
    of: int
    tasks: tuple[str, ...]
    verdict: str
    above: tuple[Best, ...] = ()
    embeddings: tuple[str, ...] = ()
    prompting: tuple[Best, ...] = ()
    prompting_of: int = 0
    prompting_verdict: str = ""
    public: str = ""
    beat_it: int = 0
    untold: tuple[str, ...] = ()
    unrewarded: str = ""

    @property
    def names(self) -> str:
        """'tang (0.650), pta (0.640) and 3 more'."""
        return named([f"{one.name} ({one.number})" for one in self.first])

    @property
    def controls(self) -> str:
        """The simple controls beside them, as a sentence without its full stop, or ""."""
        said = []
        if self.above:
            which = names_text(f"{one.name} ({one.number})" for one in self.above)
            who = "which reads no private record" if len(self.above) == 1 else "which read no private record"
            said.append(f"{which}, {who}, {'is' if len(self.above) == 1 else 'are'} at least as good as all of them")
        elif self.public:
            count = f"{self.beat_it} of {self.of}" if self.beat_it else "no row"
            verb = "is" if self.beat_it in (0, 1) else "are"
            said.append(f"{count} {verb} better than {PUBLIC} ({self.public}), which reads no private record")
        if self.embeddings:
            verb = "is a control that needs" if len(self.embeddings) == 1 else "are controls that need"
            said.append(f"{names_text(self.embeddings)} {verb} no language model")
        if self.prompting:
            which = named([f"{one.name} ({one.number})" for one in self.prompting])
            said.append(f"of the {self.prompting_of} that prompt one, {which} {self.prompting_verdict}")
        if self.untold:
            said.append(f"{names_text(self.untold)} {'has' if len(self.untold) == 1 else 'have'} too few seeds to rank")
        return "; ".join(said)

    @property
    def says(self) -> str:
        """'At ε = 1, agnews: tang (0.650) is better than every other row; no row is better than …'."""
        said = "; ".join(filter(None, (f"{self.names} {self.verdict}".strip(), self.controls)))
        return f"At ε = {epsilon_text(self.epsilon)}, {self.where}: {said}."


def answers(tables: Sequence[TaskTable], rankings: Sequence[Ranking]) -> tuple[BoardAnswer, ...]:
    """At every ε with ranked rows: over several tasks first, then on every task. ε = 1, or the one nearest to it, comes
    first, then the others, rising."""
    found: list[BoardAnswer | None] = []
    for epsilon in levels(tables):
        for ranking in (one for one in rankings if len(one.tasks) > 1):
            own_levels = {level: own for level, own in levels_of(ranking).items() if level[0] == epsilon}
            found += [_over_tasks(ranking, own, _queries(level, own_levels)) for level, own in own_levels.items()]
        for table in tables:
            rows = {level: own for level, own in ranked(table).items() if level[0] == epsilon}
            said = list(rows.items())[:1] if table.unrewarded else rows.items()  # of all Q the same
            found += [_on_task(table, own, _queries(level, rows)) for level, own in said]
    return tuple(answer for answer in found if answer is not None)


def _queries(level: Level, all_of: Sequence[Level] | Mapping[Level, object]) -> str:
    """', 100 queries': where rows of other Q are ranked apart."""
    queries = [queries_words(one) for one in level[1]]
    return f", {names_text(queries)}" if len(all_of) > 1 else ""


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
    found = sorted({epsilon for table in tables for epsilon, _ in ranked(table)})
    finite = [epsilon for epsilon in found if math.isfinite(epsilon)]
    if not finite:
        return found
    first = min(finite, key=lambda epsilon: abs(math.log(epsilon / _USUAL)))
    return [first, *(epsilon for epsilon in found if epsilon != first)]


def _over_tasks(ranking: Ranking, own: Sequence[Standing], queries: str) -> BoardAnswer | None:
    epsilon = own[0].epsilon
    own = sorted((one for one in own if one.rank is not None), key=lambda one: -(one.recovery or 0))
    if not own:
        return None
    told = [one for one in own if compared(ranking, (one.label, epsilon))] or own
    first = [one for one in told if one.rank and one.rank.first]
    above = [
        one
        for one in ranking.standings
        if one.epsilon == 0
        and not one.is_baseline
        and one.recovery is not None
        and one.recovery >= (own[0].recovery or 0)
    ]
    embeddings = [one for one in first if BY_EMBEDDINGS.sign in one.signs] if len(first) < len(own) else []
    others = [one for one in told if BY_EMBEDDINGS.sign not in one.signs]
    rivals: dict[Hashable, Standing] = {(one.label, epsilon): one for one in others}
    prompting = _unbeaten(ranking, rivals) if len(embeddings) == len(first) else {}
    return BoardAnswer(
        epsilon=epsilon,
        where=f"{ranking.scope}{queries}, by mean recovery",
        first=tuple(map(_best, first)),
        of=len(own),
        tasks=ranking.tasks,
        verdict=first_verdict(len(first), len(own), between(ranking, [(one.label, epsilon) for one in first])),
        above=tuple(map(_best, above)),
        embeddings=tuple(one.label for one in embeddings),
        prompting=tuple(map(_best, prompting.values())),
        prompting_of=len(others),
        prompting_verdict=first_verdict(len(prompting), len(others), between(ranking, list(prompting))),
        untold=tuple(one.name for one in own if one not in told),
    )


def _on_task(table: TaskTable, rows: Sequence[Row], queries: str) -> BoardAnswer | None:
    if rows and (why := table.unrewarded):
        verdict = f"nobody is ranked: {why}"
        return BoardAnswer(rows[0].epsilon, table.task, (), len(rows), (table.task,), verdict, unrewarded=why)
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
    prompting = _unbeaten(table, rivals) if len(embeddings) == len(first) else {}
    return BoardAnswer(
        epsilon=rows[0].epsilon,
        where=table.task + queries,
        first=tuple(map(_best, first)),
        of=len(rows),
        tasks=(table.task,),
        verdict=first_verdict(len(first), len(rows), between(table, [row.key for row in first])),
        above=tuple(_best(row) for row in controls if sign * row.score <= sign * rows[0].score),
        embeddings=tuple(row.label for row in embeddings),
        prompting=tuple(map(_best, prompting.values())),
        prompting_of=len(others),
        prompting_verdict=first_verdict(len(prompting), len(others), between(table, list(prompting))),
        public="" if public is None else score_text(public.score),
        beat_it=sum(row.against_public is not None and row.against_public.better for row in rows),
        untold=tuple(row.name for row in untold),
    )


def _unbeaten(where: TaskTable | Ranking, rivals: Mapping[Hashable, T]) -> Mapping[Hashable, T]:
    """Those of some ranked rows or standings of one level, by their names in families, that none of them is better
    than; none where there are no two to compare."""
    family = next((one for one in where.families if rivals.keys() <= one.places.keys()), None)
    if family is None or len(rivals) < 2:
        return {}
    places = [family.places[name] for name in rivals]
    return {name: own for name, own in rivals.items() if not family.sets.better[places, family.places[name]].any()}


def _best(one: Row | Standing) -> Best:
    number = score_text(one.score) if isinstance(one, Row) else recovery_text(one.recovery)
    return Best(one.label, number, one.name)
