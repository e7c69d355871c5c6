"""Defines the columns of rows, each once, for terminals, pages, downloads and trackers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from dpicl.attacks.results import ATTAINED
from dpicl.core.messages import epsilon_text, score_text
from dpicl.core.printable import make_visible, quote_formula
from dpicl.leaderboards.model.board import Board, Section
from dpicl.leaderboards.model.marks import Mark, signs
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.task_table import TaskTable
from dpicl.leaderboards.model.text import metric_name, queries_text, recovery_text
from dpicl.leaderboards.render.addresses import Addresses
from dpicl.leaderboards.render.attacks_view import audited_text
from dpicl.plan.headroom import PUBLIC
from dpicl.tables.document import Column

if TYPE_CHECKING:
    import pandas as pd


def record(section: Section, table: TaskTable, row: Row) -> dict[str, Any]:
    """Everything that board.csv and data frames have of a row (docs/reading-the-board.md): its section, names, what its
    columns show, and more numbers. Of a baseline also its recovery, and that it has no rank since it is one."""
    submission = row.submission
    group = vars(section.group).copy()
    delta = group.pop("delta")
    del group["asked"]
    shown: dict[str, Any] = {}
    for column in ROWS:
        if column is not NAME:
            shown |= column.fields(row)
    return {
        **group,
        "task": row.task,
        "metric": table.metric,
        "reader": row.reader,
        "documents": table.documents,
        "label": row.label,
        "mechanism": row.mechanism,
        "delta": delta,
        **shown,
        "recovery": row.recovery,
        "unranked": row.no_rank,
        "zero_shot": row.zero_shot,
        "best_control": row.control,
        "best_control_name": row.control_name,
        "real_demonstrations": row.real_data,
        "marks": "; ".join(mark.name for mark in row.marks),
        "refuted": row.audit.flag,
        "audited_kind": row.audit.kind,
        "submitted_by": submission and submission.name,
        "reported": row.reported,
        "unreliable": submission and submission.card.unreliable,
        "higher_is_better": "no" if table.lower_is_better(table.metric) else "yes",
    }


def rows_frame(board: Board) -> pd.DataFrame:
    """A line a row of all sections, with every number; infinity is `inf`."""
    import pandas as pd

    metrics = sorted({name for row in board.rows for name in row.numbers})
    places = Addresses(board)
    lines = []
    for section in board.sections:
        for table in section.tables:
            for row in table.in_order:
                numbers = {f"metric {name}": row.numbers.get(name) for name in metrics}
                lines.append({"row": places.of(row), **record(section, table, row), **numbers})
    return pd.DataFrame(lines)


def to_csv(frame: pd.DataFrame) -> str:
    """The frame as CSV: nothing is empty, infinity is ``inf``.

    A spreadsheet takes a cell that starts with = + - @ for a formula, so these get an apostrophe in front there (OWASP,
    "CSV injection").
    """

    def cell(value: Any) -> Any:
        return quote_formula(make_visible(value)) if isinstance(value, str) else value

    safe = frame.map(cell).rename(columns=cell)
    return safe.to_csv(index=False, lineterminator="\r\n", float_format="%.10g")


def row_label(row: Row, marks: Iterable[Mark] | None = None) -> str:
    """The row's name, what is known of a submission, marks: 'voting (Q = 100) ◊', 'team/method, submitted †'.

    marks: those to show; None: all of the row."""
    shown = signs(row.marks if marks is None else marks)
    state = ["refuted"] if row.audit.flag else []
    if row.submission is not None:
        state.append("unreliable" if row.submission.card.unreliable else "submitted")
    footnote = " †" if row.submission is not None and row.submission.card.footnote else ""
    return ", ".join([row.name, *state]) + footnote + (f" {shown}" if shown else "")


def row_kind(row: Row) -> str:
    """How its line looks: refuted, a reference baseline, or tied with the best."""
    if row.audit.flag:
        return "flagged"
    if row.is_baseline:
        return "end"
    return "first" if row.rank is not None and row.rank.first else ""


def row_data(row: Row) -> dict[str, str]:
    """What a filter can ask of a row; its task and model are the table's. row: the label first (filter.js)."""
    return {
        "row": f"{row.label} {row.mechanism}",
        "epsilon": epsilon_text(row.epsilon),
        "kind": "reference baselines" if row.is_baseline else row.results[0].kind,
        "queries": "any" if row.queries is None else "finite",
        "origin": "ours" if row.submission is None else "submitted",
    }


def _audited(row: Row) -> tuple[float, str] | None:
    bound = audited_text(row.audit.best, row.audit.powers)
    if bound is None:
        return None
    epsilon, text = bound
    return epsilon, f"{text} {row.audit.kind}{' !' if row.audit.flag else ''}"


def _rank(row: Row) -> tuple[int, int, str] | None:
    rank = row.rank
    return None if rank is None else (rank.low, rank.high, str(rank))


def _recovery(row: Row) -> float | None:
    """That of a baseline says nothing."""
    return None if row.is_baseline else row.recovery


def _recovery_interval_text(interval: tuple[float, float]) -> str:
    return " to ".join(map(recovery_text, interval))


def _against_public(row: Row) -> tuple[float, str] | None:
    difference = row.against_public
    if difference is None:
        return None
    verdict: str = difference.verdict
    if verdict == "better" and not difference.better:
        verdict = f"{PUBLIC} is better"
    elif verdict == "inconclusive":
        verdict += f", up to {score_text(difference.excluded)}"
    return difference.value, verdict


def _queries(row: Row) -> tuple[float, str]:
    return math.inf if row.queries is None else row.queries, queries_text(row.queries)


def _failures(row: Row) -> int | None:
    return sum((row.failures or {}).values()) or None


def _unranked(row: Row) -> str | None:
    return None if row.is_baseline else row.no_rank or None


NAME = Column(
    "row",
    "mechanism",
    row_label,
    help="the row's name in the suite; its link leads to what it released",
)
EPSILON = Column(
    "epsilon",
    "ε",
    show=epsilon_text,
    help="target ε, the same for every mechanism: smaller is more private",
)
SCORE = Column(
    "score", "score", show=score_text, help="mean of the main metric over seeds", best="high"
)
PROVED = Column(
    "proved",
    "proved ε",
    show=epsilon_text,
    help="upper bound from the ledger of what the run really did, for all Q queries together",
)
CLAIMED = Column(
    "claimed",
    "claimed ε",
    show=epsilon_text,
    help="what the authors' own formula gives for the same noise",
    optional=True,
)
AUDITED = Column(
    "audited",
    "audited ε",
    _audited,
    itemgetter(1),
    f"the largest lower bound: exact ({ATTAINED}), or sampled (at 95% confidence)",
    optional=True,
)
#: Of a table of the rows of one task.
ROWS = (
    NAME,
    EPSILON,
    Column(
        "rank",
        "rank",
        _rank,
        itemgetter(2),
        "the ranks that it may have at this ε and Q on this task, all rows together at 95%",
        optional=True,
        parts=("rank", "rank_high"),
    ),
    SCORE,
    Column(
        "score_low",
        "95% interval",
        attrgetter("low", "high"),
        "{0[0]:.3f}–{0[1]:.3f}".format,
        "of the score, over seeds (Student); of one seed: over its test records",
        parts=("score_low", "score_high"),
    ),
    Column(
        "recovery",
        "recovery",
        _recovery,
        recovery_text,
        "(score − best control without records) / (real demonstrations − that control), over the row's own seeds",
        optional=True,
    ),
    Column(
        "recovery_low",
        "its 95% interval",
        "recovery_interval",
        _recovery_interval_text,
        "of the recovery, over the row's seeds (Fieller)",
        optional=True,
        page=True,
        parts=("recovery_low", "recovery_high"),
    ),
    Column(
        "against_public",
        "against public",
        _against_public,
        itemgetter(1),
        f"better or not than {PUBLIC}, which reads no private record, all rows together at 95%",
        wide=True,
        optional=True,
    ),
    Column(
        "beaten_by",
        "control above",
        lambda row: row.beaten_by or None,
        help="the highest control with a higher score: without records, or with records (¢, §) at this ε",
        wide=True,
        optional=True,
    ),
    Column("seeds", "seeds", lambda row: len(row.seeds), help="how many random seeds were run"),
    PROVED,
    AUDITED,
    CLAIMED,
    Column(
        "per_query",
        "per-query ε",
        "epsilon_per_query",
        epsilon_text,
        "what one answer alone would cost",
        optional=True,
    ),
    Column(
        "queries",
        "Q",
        _queries,
        itemgetter(1),
        "how many queries this ε covers",
    ),
    Column(
        "failures",
        "unanswered",
        _failures,
        help="prompts of slots to which the model gave no answer, over all seeds",
        optional=True,
        page=True,
    ),
    Column(
        "unranked",
        "no rank",
        _unranked,
        help="why it has no rank",
        wide=True,
        optional=True,
    ),
)


def row_facts(row: Row) -> dict[str, str]:
    """Every number that a row has, as name -> text."""
    metric = f"{metric_name(row.metric)}, {row.reader}"
    metric += ", lower is better" if row.lower_is_better(row.metric) else ""
    values = {
        f"score ({metric})": SCORE.text(row.score),
        **{column.name: column.text(column.value(row)) for column in ROWS[1:]},
        "zero-shot at its seeds": SCORE.text(row.zero_shot),
        f"{row.control_name}, the best control without records": SCORE.text(row.control),
        "real demonstrations at its seeds": SCORE.text(row.real_data),
    }
    for name in ("score", "Q"):
        del values[name]
    return {name: text for name, text in values.items() if text != "–"}
