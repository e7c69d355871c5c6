"""Defines the columns of rows, each once, for terminals, pages, downloads and trackers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from dpicl.attacks.results import ATTAINED
from dpicl.core.messages import epsilon_text, score_text
from dpicl.core.printable import make_visible, quote_formula
from dpicl.evaluation.statistics import Difference
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
    group, submission = section.group, row.submission
    shown = {name: value for column in ROWS if column is not NAME for name, value in column.fields(row).items()}
    return {
        **{name: value for name, value in vars(group).items() if name not in ("delta", "asked")},
        "task": row.task,
        "metric": table.metric,
        "reader": row.reader,
        "documents": table.documents,
        "label": row.label,
        "mechanism": row.mechanism,
        "delta": group.delta,
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

    metrics = sorted({name for section in board.sections for row in section.rows for name in row.numbers})
    places = Addresses(board)
    lines = [
        {"row": places.of(row)}
        | record(section, table, row)
        | {f"metric {name}": row.numbers.get(name) for name in metrics}
        for section in board.sections
        for table in section.tables
        for row in table.in_order
    ]
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
    first = row.rank is not None and row.rank.first
    return "flagged" if row.audit.flag else "end" if row.is_baseline else "first" if first else ""


def row_data(row: Row) -> dict[str, str]:
    """What a filter can ask of a row; its task and model are the table's. row: the label first (filter.js)."""
    return {
        "row": f"{row.label} {row.mechanism}",
        "epsilon": epsilon_text(row.epsilon),
        "kind": "reference baselines" if row.is_baseline else row.results[0].kind,
        "queries": "any" if row.queries is None else "finite",
        "origin": "ours" if row.submission is None else "submitted",
    }


def _audit_cell(row: Row) -> tuple[float, str] | None:
    found = audited_text(row.audit.best, row.audit.powers)
    return found and (found[0], f"{found[1]} {row.audit.kind}{' !' if row.audit.flag else ''}")


def _verdict(found: Difference) -> str:
    if found.verdict == "better":
        return "better" if found.better else f"{PUBLIC} is better"
    return found.verdict if found.verdict == "equivalent" else f"inconclusive, up to {score_text(found.excluded)}"


NAME = Column("row", "mechanism", row_label, help="the row's name in the suite; its link leads to what it released")
EPSILON = Column(
    "epsilon", "ε", attrgetter("epsilon"), epsilon_text, help="target ε, the same for every mechanism: smaller is more"
    " private",
)  # fmt: skip
SCORE = Column("score", "score", attrgetter("score"), score_text, "mean of the main metric over seeds", best="high")
PROVED = Column(
    "proved",
    "proved ε",
    attrgetter("proved"),
    epsilon_text,
    "upper bound from the ledger of what the run really did, for all Q queries together",
)
CLAIMED = Column(
    "claimed",
    "claimed ε",
    attrgetter("claimed"),
    epsilon_text,
    "what the authors' own formula gives for the same noise",
    optional=True,
)
AUDITED = Column(
    "audited",
    "audited ε",
    _audit_cell,
    itemgetter(1),
    "the largest lower bound: exact (" + ATTAINED + "), or sampled (at 95% confidence)",
    optional=True,
)
#: Of a table of the rows of one task.
ROWS = (
    NAME,
    EPSILON,
    Column(
        "rank",
        "rank",
        lambda row: row.rank and (row.rank.low, row.rank.high, str(row.rank)),
        lambda own: own[-1],
        "the ranks that it may have at this ε and Q on this task, all rows together at 95%",
        optional=True,
        parts=("rank", "rank_high"),
    ),
    SCORE,
    Column(
        "score_low",
        "95% interval",
        lambda row: (row.low, row.high),
        lambda own: f"{own[0]:.3f}–{own[1]:.3f}",
        "of the score, over seeds (Student); of one seed: over its test records",
        parts=("score_low", "score_high"),
    ),
    Column(
        "recovery",
        "recovery",
        lambda row: None if row.is_baseline else row.recovery,  # that of a baseline says nothing
        recovery_text,
        "(score − zero-shot) / (real demonstrations − zero-shot), each over the row's own seeds",
        optional=True,
    ),
    Column(
        "recovery_low",
        "its 95% interval",
        attrgetter("recovery_interval"),
        lambda own: " to ".join(map(recovery_text, own)),
        "of the recovery, over the row's seeds (Fieller)",
        optional=True,
        page=True,
        parts=("recovery_low", "recovery_high"),
    ),
    Column(
        "against_public",
        "against public",
        lambda row: row.against_public and (row.against_public.value, _verdict(row.against_public)),
        lambda own: own[1],
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
        attrgetter("epsilon_per_query"),
        epsilon_text,
        "what one answer alone would cost",
        optional=True,
    ),
    Column(
        "queries",
        "Q",
        lambda row: (math.inf if row.queries is None else row.queries, queries_text(row.queries)),
        lambda own: own[1],
        "how many queries this ε covers",
    ),
    Column(
        "failures",
        "unanswered",
        lambda row: sum((row.failures or {}).values()) or None,
        help="prompts of slots to which the model gave no answer, over all seeds",
        optional=True,
        page=True,
    ),
    Column(
        "unranked",
        "no rank",
        lambda row: None if row.is_baseline else row.no_rank or None,
        help="why it has no rank",
        wide=True,
        optional=True,
    ),
)


def row_facts(row: Row) -> dict[str, str]:
    """Everything of a row that is a number, as name -> text."""
    metric = f"{metric_name(row.metric)}, {row.reader}"
    metric += ", lower is better" if row.lower_is_better(row.metric) else ""
    found = {one.name: one.text(one.of(row)) for one in ROWS if one is not NAME}
    best = (f"{row.control_name}, the best control without records,", row.control)
    baselines = (("zero-shot", row.zero_shot), best, ("real demonstrations", row.real_data))
    said = {f"{name} over its seeds": "–" if score is None else score_text(score) for name, score in baselines}
    return {f"score ({metric})": found.pop("score"), **found, **said}
