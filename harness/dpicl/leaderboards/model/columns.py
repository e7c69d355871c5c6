"""The numbers of a row, each with its name and its text: what terminal, pages, downloads and trackers show of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from dpicl.attacks.results import ATTAINED
from dpicl.leaderboards.model.metrics import metric_name
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.text import (
    bound_text,
    epsilon_text,
    interval_text,
    queries_text,
    recovery_text,
    score_text,
)

Number = float | int | None

#: Key -> number of a row. Scores first, then what they cost; docs/reading-the-board.md lists them for board.csv.
SCORES: Mapping[str, Callable[[Row], Number]] = {
    "score": attrgetter("score"),
    "score_low": attrgetter("low"),
    "score_high": attrgetter("high"),
    "recovery": attrgetter("recovery"),
    "recovery_low": lambda row: row.recovery_interval and row.recovery_interval[0],
    "recovery_high": lambda row: row.recovery_interval and row.recovery_interval[1],
    "zero_shot": attrgetter("zero_shot"),
    "real_demonstrations": attrgetter("real_data"),
}
COSTS: Mapping[str, Callable[[Row], Number]] = {
    "proved": attrgetter("proved"),
    "claimed": attrgetter("claimed"),
    "audited": attrgetter("audit.epsilon"),
    "per_query": attrgetter("epsilon_per_query"),
    "queries": lambda row: math.inf if row.queries is None else row.queries,
    "seeds": lambda row: len(row.seeds),
}
#: What depends on the other rows of the board.
RANKS: Mapping[str, Callable[[Row], Number]] = {
    "rank": lambda row: None if row.rank is None else row.rank.low,
    "rank_high": lambda row: None if row.rank is None else row.rank.high,
    "rank_any_queries": lambda row: None if row.rank_any_queries is None else row.rank_any_queries.low,
    "rank_any_queries_high": lambda row: None if row.rank_any_queries is None else row.rank_any_queries.high,
    "recovery_over_public": attrgetter("over_public"),
}
_NUMBERS: Mapping[str, Callable[[Row], Number]] = {"epsilon": attrgetter("epsilon"), **RANKS, **SCORES, **COSTS}


#: Columns that are left out of a table in which no row has one.
_OPTIONAL = (
    "rank",
    "rank_any_queries",
    "recovery",
    "recovery_low",
    "recovery_over_public",
    "per_query",
    "claimed",
    "audited",
)

#: What a column of a table is, in a few words.
_HINTS = {
    "epsilon": "the target, the same for every mechanism",
    "rank": "the ranks that it may have at this ε and Q on this task, all rows together at 95%",
    "rank_any_queries": "the same among rows of every Q, although an ε for more queries is the stronger promise",
    "score": "mean of the main metric over seeds",
    "score_low": "over seeds and test records",
    "recovery": "(score − zero-shot) / (real demonstrations − zero-shot), each over the row's own seeds",
    "recovery_over_public": "(score − public_demonstrations) / (real demonstrations − public_demonstrations)",
    "recovery_low": "of the recovery, over seeds and test records that the row and the reference baselines share",
    "proved": "upper bound from the ledger of what the run really did, for all Q queries together",
    "per_query": "what one answer alone would cost",
    "claimed": "what the authors' own formula gives for the same noise",
    "audited": "the largest lower bound of ours: exact (" + ATTAINED + "), or sampled (at 95% confidence)",
    "queries": "how many queries this ε covers",
    "seeds": "how many random seeds were run",
}


@dataclass(frozen=True)
class Column:
    """A column of a table of rows. key: of the number that it is sorted by. name: its head. text: what stands in a row.

    full: its name where it stands alone; "": its head. quiet: whether it belongs to the column before.
    """

    key: str
    name: str
    text: Callable[[Row], str]
    full: str = ""
    quiet: bool = False

    @property
    def hint(self) -> str:
        return _HINTS[self.key]

    def value(self, row: Row) -> Number:
        return _NUMBERS[self.key](row)


_ALL = (
    Column("epsilon", "ε", lambda row: epsilon_text(row.epsilon), "target ε"),
    Column("rank", "rank", lambda row: "–" if row.rank is None else str(row.rank), "possible ranks"),
    Column(
        "rank_any_queries",
        "rank, any Q",
        lambda row: "–" if row.rank_any_queries is None else str(row.rank_any_queries),
        "possible ranks among rows of any Q",
    ),
    Column("score", "score", lambda row: score_text(row.score)),
    Column("score_low", "95% interval", lambda row: f"{row.low:.3f}–{row.high:.3f}", "95% interval of the score", True),
    Column("recovery", "recovery", lambda row: recovery_text(row.recovery)),
    Column(
        "recovery_low",
        "its 95% interval",
        lambda row: interval_text(row.recovery_interval),
        "95% interval of the recovery",
        True,
    ),
    Column("recovery_over_public", "over public", lambda row: recovery_text(row.over_public), "recovery over public"),
    Column("proved", "proved ε", lambda row: epsilon_text(row.proved)),
    Column("per_query", "per-query ε", lambda row: epsilon_text(row.epsilon_per_query)),
    Column("claimed", "claimed ε", lambda row: epsilon_text(row.claimed)),
    Column("audited", "audited ε", lambda row: bound_text(row.audit.epsilon)),
    Column("queries", "Q", lambda row: queries_text(row.queries), "queries covered"),
    Column("seeds", "seeds", lambda row: str(len(row.seeds))),
)
#: The order in a terminal, which has no room for the recovery's interval.
TERMINAL = (
    *("epsilon", "rank", "rank_any_queries", "score", "score_low", "recovery", "seeds"),
    *("proved", "audited", "claimed", "per_query", "queries"),
)


def columns(rows: Iterable[Row], keys: Iterable[str] = tuple(_HINTS)) -> list[Column]:
    """The columns of a table of these rows, in the order of ``keys``; some only where a row has one."""
    known = {column.key: column for column in _ALL}
    rows = tuple(rows)
    return [known[key] for key in keys if key not in _OPTIONAL or any(_has(key, row) for row in rows)]


def _has(key: str, row: Row) -> bool:
    """Whether a row has a number of its own; the recovery of a reference baseline says nothing."""
    return _NUMBERS[key](row) is not None and not (key == "recovery" and row.is_baseline)


def numbers(row: Row) -> dict[str, Number]:
    """Every number of a row by its key; None where it has none, infinite queries where they are not limited."""
    return {key: value(row) for key, value in _NUMBERS.items()}


def words(row: Row) -> dict[str, str]:
    """Everything of a row that is a number, as name -> text."""
    found = {column.full or column.name: column.text(row) for column in _ALL}
    metric = metric_name(row.metric) + (", lower is better" if row.lower_is_better(row.metric) else "")
    baselines = (("zero-shot", row.zero_shot), ("real demonstrations", row.real_data))
    said = {f"{name} over its seeds": "–" if score is None else score_text(score) for name, score in baselines}
    return {f"score ({metric})": found.pop("score"), **found, **said}
