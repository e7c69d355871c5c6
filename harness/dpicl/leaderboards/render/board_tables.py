"""Defines the tables of a board, each once: answers, methods × tasks, headroom, rows, claims."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter, itemgetter
from statistics import fmean

from dpicl.core.grouping import group_by
from dpicl.core.messages import count, epsilon_text, join_names, names_text, score_text, signed_text
from dpicl.core.printable import make_visible
from dpicl.data.task_file import CARRIED
from dpicl.leaderboards.model.answers import BoardAnswer
from dpicl.leaderboards.model.board import Section
from dpicl.leaderboards.model.contrasts import JudgedContrast
from dpicl.leaderboards.model.marks import (
    BY_EMBEDDINGS,
    CHANGED_CODE,
    CONTROL,
    FIXED_DRAW,
    OWN_READER,
    Mark,
    signs,
)
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.task_table import TaskTable
from dpicl.leaderboards.model.text import (
    interval_text,
    metric_name,
    metrics_text,
    p_number,
    recovery_text,
    scored_thing,
)
from dpicl.leaderboards.render.addresses import Addresses, claim_page
from dpicl.leaderboards.render.attacks_view import audited_text, share_text
from dpicl.leaderboards.render.columns import (
    AUDITED,
    CLAIMED,
    EPSILON,
    PROVED,
    ROWS,
    SCORE,
    row_data,
    row_kind,
    row_label,
)
from dpicl.leaderboards.render.guide import Guide
from dpicl.plan.headroom import PUBLIC, REAL, headroom_columns
from dpicl.tables.document import Column, Table, make_table

#: Characters of a task's name, and of a metric's, in the head of a column.
_TASK = 14


def answers_table(section: Section, epsilon: float | None = None) -> Table:
    """Who is best at an ε (None: at every one): a line an answer."""
    tables = {table.task: table for table in section.tables}

    def gain(answer: BoardAnswer) -> float | None:
        table = tables.get(answer.task)  # a part of a board may have none
        headroom = table and table.headroom.get(table.metric)
        return headroom.gain if headroom else None

    def list_unranked(answer: BoardAnswer) -> str | None:
        return join_names(map(str, (*answer.own_readers, *answer.not_compared))) or None

    columns = (
        Column("epsilon", "ε", show=epsilon_text),
        Column("where", "where", wide=True),
        Column("best", "best", lambda answer: answer.texts[0], wide=True),
        Column("verdict", "verdict (95%)", wide=True),
        Column("controls", "controls as good", lambda answer: answer.texts[1], wide=True),
        Column("to_beat", "best without records", show=str, wide=True, optional=True),
        Column("unranked", "as good, no rank", list_unranked, wide=True, optional=True),
        Column("metrics", "scores", wide=True),
        Column("headroom", "headroom", gain, signed_text, f"{REAL} − {PUBLIC}", optional=True),
    )
    answers = [answer for answer in section.answers if epsilon in (None, answer.epsilon)]
    return make_table("Best rows at each ε", columns, answers, sortable=False, keep=2)


# Methods × tasks.


@dataclass(frozen=True)
class _Method:
    """The rows of a method at one ε, by task.

    best: tasks on which an answer that compares several rows names it. useful: those on which it is shown to be better
    than the best row that reads no record. apart: those on which it has no rank beside rows that have one.
    """

    label: str
    epsilon: float
    rows: Mapping[str, Row]
    best: Collection[str]
    useful: Collection[str]
    apart: Collection[str]

    @property
    def first(self) -> Row:
        return next(iter(self.rows.values()))

    @property
    def marks(self) -> Collection[Mark]:
        """Those of all its rows; a cell has the others."""
        shared = set.intersection(*(set(row.marks) for row in self.rows.values()))
        return [mark for mark in self.first.marks if mark in shared]

    @property
    def name(self) -> str:
        return row_label(self.first, self.marks)

    @property
    def short_name(self) -> str:
        """The name with the marks that a terminal shows."""
        return row_label(self.first, [mark for mark in self.marks if mark not in _SAID])

    @property
    def is_control(self) -> bool:
        """Whether it reads no record, shows them as they are, or is a control that reads records."""
        return (
            self.first.is_reference
            or math.isinf(self.epsilon)
            or self.first.is_control_with_records
        )

    @property
    def recovery(self) -> tuple[float, str] | None:
        """Its mean over the tasks that have one, and in words with their number; None for controls."""
        recoveries = [row.recovery for row in self.rows.values() if row.recovery is not None]
        if self.is_control or not recoveries:
            return None
        mean = fmean(recoveries)
        return mean, f"{recovery_text(mean)} ({len(recoveries)})"

    @property
    def place(self) -> tuple[object, ...]:
        """Methods first: by the tasks on which they are useful, then by their tasks, since means over few tasks say
        little, then by mean recovery. Then controls and ceilings by ε."""
        if self.is_control:
            return True, self.epsilon, 0, 0.0, self.label
        mean = self.recovery[0] if self.recovery else -math.inf
        return False, -len(self.useful), -len(self.rows), -mean, self.label

    @property
    def kind(self) -> str:
        if any(row.audit.flag for row in self.rows.values()):
            return "flagged"
        if self.is_control:
            return "end"
        return "first" if self.useful else ""


def methods_table(
    section: Section,
    epsilons: Sequence[float],
    places: Addresses | None = None,
    guide: Guide | None = None,
) -> Table:
    """Methods × tasks at these ε. On a page a score with its rank set, the best ones marked; in a terminal the scores
    that are ranked, the others in parentheses, and those that beat every row that reads no record marked.

    places: where pages are; None in a terminal. guide: what a page says of methods and tasks.
    """
    guide = guide or Guide()
    tables = _list_tables(section, epsilons)
    methods = sorted(_methods(section, tables, epsilons), key=attrgetter("place"))
    notes = []
    if places is None:
        tables.sort(key=lambda table: not any(row.rank for row in table.rows))
    else:
        notes = [_RANKED if any(row.rank for table in tables for row in table.rows) else _SCORES]
        if any(method.useful for method in methods):
            notes.append(
                "Green: on some task shown to be better than the best row that reads no record."
            )
        notes.append(describe_columns(section, epsilons))
        if about := [guide.tasks[table.task] for table in tables if guide.tasks.get(table.task)]:
            notes.append(f"Tasks: {'; '.join(about)}.")
    recovery = []
    if any(method.recovery for method in methods):
        recovery.append(_RECOVERY)
    if places is None:
        columns = [Column("method", "method", "short_name"), *map(_score_column, tables)]
    else:
        columns = [
            Column("method", "method", "name", help="its link shows its rows only"),
            EPSILON,
            *recovery,
            *(_task_column(table, guide.tasks.get(table.task, "")) for table in tables),
        ]
    known = [guide.method(method.first.mechanism) for method in methods]
    names = [name for name in ("paper", "code") if any(getattr(one, name) for one in known)]
    sources = {name: number for number, name in enumerate(names, len(columns))}
    columns += [_source_column(name, guide) for name in names]

    def links(method: _Method) -> dict[int, str]:
        if places is None:
            return {}
        addresses = {0: places.board_of_name(method.label)}
        for column, table in enumerate(tables, 2 + len(recovery)):
            if table.task in method.rows:
                addresses[column] = places.page(method.rows[table.task])
        of_method = guide.method(method.first.mechanism)
        for name, column in sources.items():
            if address := getattr(of_method, name):
                addresses[column] = address
        return addresses

    return make_table(
        f"Methods and tasks at ε = {names_text(map(epsilon_text, epsilons))}",
        columns,
        methods,
        kind=attrgetter("kind"),
        links=links,
        data=lambda method: row_data(method.first),
        explain=lambda method: guide.method(method.first.mechanism).summary,
        notes=tuple(notes),
        keep=1 if places is None else 2,
        cards=True,
        dense=places is None,
    )


_RECOVERY = Column(
    "recovery",
    "mean recovery (tasks)",
    show=itemgetter(1),
    help="of the gap between the best control without records and real demonstrations; over tasks that rank methods",
    best="high",
    page=True,
)


def _source_column(name: str, guide: Guide) -> Column:
    """The word that links a method's paper, or its code."""

    def show_source(method: _Method) -> str | None:
        return name if getattr(guide.method(method.first.mechanism), name) else None

    return Column(name, name, show_source, help=f"the {name} of the method", data={"plain": ""})


def carried_table(section: Section, epsilons: Sequence[float]) -> Table | None:
    """What the texts of each method carry, whatever a language model makes of them; None where no row says it."""
    metric = CARRIED[0]
    tables = [
        table for table in section.tables if any(metric in row.aggregates for row in table.rows)
    ]
    methods = [
        method
        for method in _methods(section, tables, epsilons)
        if any(metric in row.aggregates for row in method.rows.values())
    ]
    if not methods:
        return None

    def column(table: TaskTable) -> Column:
        def score(method: _Method) -> float | None:
            row = method.rows.get(table.task)
            return None if row is None else row.aggregates.get(metric)

        return Column(table.task, make_visible(table.task, _TASK), score, score_text, best="high")

    note = (
        "Accuracy, on all test records, of a classifier made of the texts alone: the worse of WordLlama's static"
        " vectors and TF-IDF, which no method uses. It says what texts contain, not what a model learns from them, and"
        " ranks nobody."
    )
    return make_table(
        "What the texts carry",
        [
            Column("method", "method", "name"),
            Column("epsilon", "ε", show=epsilon_text),
            *map(column, tables),
        ],
        sorted(methods, key=attrgetter("place")),
        kind=attrgetter("kind"),
        notes=(note,),
        keep=2,
        heading=True,
    )


def _methods(
    section: Section,
    tables: Sequence[TaskTable],
    epsilons: Sequence[float],
) -> Iterable[_Method]:
    compared = [answer for answer in section.answers if answer.compared]
    best = {(answer.task, row.label, answer.epsilon) for answer in compared for row in answer.best}
    useful = {
        (answer.task, label, answer.epsilon)
        for answer in section.answers
        for label in answer.beating or ()
    }
    apart = {
        (table.task, row.key)
        for table in tables
        for row in table.rows
        if row.no_rank and any(other.rank for other in table.rows if other.epsilon == row.epsilon)
    }
    methods: dict[tuple[str, float], dict[str, Row]] = defaultdict(dict)
    for table in tables:
        for row in table.in_order:
            if row.is_reference or math.isinf(row.epsilon) or row.epsilon in epsilons:
                methods[row.label, row.epsilon][table.task] = row
    for (label, epsilon), rows in methods.items():
        yield _Method(
            label,
            epsilon,
            rows,
            best=[task for task in rows if (task, label, epsilon) in best],
            useful=[task for task in rows if (task, label, epsilon) in useful],
            apart=[task for task, row in rows.items() if (task, row.key) in apart],
        )


def _list_tables(section: Section, epsilons: Sequence[float]) -> list[TaskTable]:
    """The tables with rows at these ε; all where none has one."""
    tables = [
        table for table in section.tables if any(row.epsilon in epsilons for row in table.rows)
    ]
    return tables or list(section.tables)


def describe_columns(section: Section, epsilons: Sequence[float]) -> str:
    """The order of methods, and what the scores of each task are."""
    tasks: dict[tuple[str, str], list[str]] = defaultdict(list)
    for table in _list_tables(section, epsilons):
        arrow = "↓" if table.lower_is_better(table.metric) else ""
        tasks[f"{table.metric}{arrow}", table.reader].append(table.task)
    scores = [
        (f"{metric} ({', '.join(names)})", reader) for (metric, reader), names in tasks.items()
    ]
    lower = " ↓: lower is better." if any("↓" in metric for metric, _ in tasks) else ""
    return f"{_ORDER} Scores: {metrics_text(scores)}.{lower}"


_ORDER = (
    "Methods are sorted by the tasks on which they beat every row that reads no record, then by tasks, then by mean"
    " recovery; controls come last."
)
_SCORES = "A cell is a score."
_RANKED = (
    "A cell is a score and its rank among methods at the same ε and Q: 1–7 is between 1 and 7 (95%); *: no other method"
    " is shown to be better."
)
#: What the place of a row, and the form of its scores, say in a terminal.
_SAID = (BY_EMBEDDINGS, CONTROL, OWN_READER, FIXED_DRAW, CHANGED_CODE)


def explain_cells(section: Section, epsilons: Sequence[float]) -> str:
    """What the signs of the methods in a terminal mean; "" where there are none."""
    methods = list(_methods(section, _list_tables(section, epsilons), epsilons))
    texts = ["* beats every row without records"] if any(one.useful for one in methods) else []
    if any(method.apart for method in methods):
        texts.append("(…) no rank (why: --full)")
    marks = dict.fromkeys(
        mark for one in methods for row in one.rows.values() for mark in row.marks
    )
    texts += [f"{mark.sign} {mark.name}" for mark in marks if mark not in _SAID]
    return "; ".join(texts)


def _score_column(table: TaskTable) -> Column:
    """The scores of a task in a terminal."""

    def cell(method: _Method) -> tuple[float, str] | None:
        row = method.rows.get(table.task)
        if row is None:
            return None
        text = score_text(row.score)
        if table.task in method.useful:
            text += "*"
        if table.task in method.apart:
            text = f"({text})"
        marks = [mark for mark in row.marks if mark not in method.marks and mark not in _SAID]
        return row.score, text + (f" {signs(marks)}" if marks else "")

    name = make_visible(table.task, _TASK) + ("↓" if table.lower_is_better(table.metric) else "")
    return Column(table.task, name, cell, itemgetter(1))


def _task_column(table: TaskTable, meaning: str) -> Column:
    """meaning: what the task asks; "" where that is not known."""

    def cell(method: _Method) -> tuple[float, str] | None:
        row = method.rows.get(table.task)
        if row is None:
            return None
        rank = f" {row.rank}" if row.rank is not None else ""
        best = "*" if table.task in method.best else ""
        marks = signs(mark for mark in row.marks if mark not in method.marks)
        return row.score, f"{score_text(row.score)}{rank}{best}" + (f" {marks}" if marks else "")

    lower = table.lower_is_better(table.metric)
    things = count(table.documents, scored_thing(table.reader))
    about = f"{meaning}; " if meaning else ""
    about += f"{metric_name(table.metric)}, {table.reader}, on {things}"
    about += "; without headroom nobody is ranked" if table.ranks_nobody else ""
    about += "".join(f"; {reason}" for reason in dict.fromkeys(table.unranked_levels.values()))
    name = f"{make_visible(table.task, _TASK)} {make_visible(table.metric, _TASK)}{'↓' if lower else ''}"
    best = "low" if lower else "high"
    return Column(table.task, name, cell, itemgetter(1), about, best, data={"task": table.task})


# Headroom.


def headroom_table(tables: Sequence[TaskTable], places: Addresses | None = None) -> Table:
    """What real demonstrations gain over public ones on every task, whether it ranks anybody, and what it can show."""

    def links(table: TaskTable) -> dict[int, str]:
        address = places.task(table) if places else ""
        return {0: address} if address else {}

    def ranks(table: TaskTable) -> str:
        reasons = set(table.unranked_levels.values())
        if reasons and table.unranked_levels.keys() == table.levels.keys():
            return f"no: {names_text(sorted(reasons))}"
        if table.metric in table.headroom:
            return "no" if table.ranks_nobody else "yes"
        return f"yes, but headroom is unknown: no {PUBLIC if table.real_data is not None else REAL} at a common seed"

    def show_detectable(table: TaskTable) -> str | None:
        texts = [
            f"{score_text(gain)} at ε = {epsilon_text(epsilon)}"
            for epsilon, gain in table.detectable.items()
        ]
        return ", ".join(texts) or None

    columns = (
        Column("task", "task"),
        Column("metric", "metric"),
        Column("reader", "reader", wide=True),
        *headroom_columns(lambda table: table.headroom.get(table.metric)),
        Column("ranks", "ranks", ranks, wide=True),
        Column("detectable", "MDE (80% power)", show_detectable, wide=True, optional=True),
    )
    note = (
        "Where the interval (Student's, over seeds) includes 0 nobody is ranked. Development: on seeds and test records"
        " that no row has. A classifier's headroom is about the texts"
        " that a model writes, and says nothing about how it reads them."
    )
    title = f"Headroom: {REAL} − {PUBLIC}, before any private method"
    return make_table(
        title, columns, tables, links=links, notes=(note,), keep=2, heading=True, sortable=False
    )


# Planned claims.


def contrasts_table(
    section: Section,
    places: Addresses | None = None,
    *,
    claims: str | None = None,
    only: str = "",
) -> Table:
    """The claims that the suite plans, on every task.

    places: where pages are; None in a terminal. claims: the way to the first page of a site with pages of claims. only:
    the name of a claim, "": all of them.
    """
    tasks = {table.task: table for table in section.tables}

    def links(claim: JudgedContrast) -> dict[int, str]:
        addresses = []
        if not only:
            addresses.append("" if claims is None else claims + claim_page(claim.name))
        if places and claim.task in tasks:
            addresses.append(places.task(tasks[claim.task]))
        return {column: address for column, address in enumerate(addresses) if address}

    columns = (
        Column("name", "claim", wide=True),
        Column("task", "task"),
        Column("verdict", "verdict (95%)", wide=True),
        Column("difference", "difference", "test.mean", signed_text),
        Column("interval", "95% interval", "test.interval", interval_text, "not adjusted"),
        Column("p", "p (Holm)", "test.adjusted", p_number),
        Column(
            "flips",
            "p (signs)",
            "test.flips",
            p_number,
            "by flips of signs over seeds, not adjusted",
        ),
        Column("seeds", "seeds"),
        Column("rows", "rows", lambda claim: f"{claim.better} − {claim.than}", wide=True),
    )
    family = section.contrasts[0].family
    note = (
        f"Claims that the suite names before it runs: Student's t of differences by seed and flips of their signs (the"
        f" larger p counts), Holm over all {family}, tested or not. All other comparisons are exploratory (`dpicl"
        " compare`)."
    )
    shown = [claim for claim in section.contrasts if only in ("", claim.name)]
    return make_table(
        "Planned claims",
        columns[1:] if only else columns,
        shown,
        links=links,
        notes=(note,),
        keep=1 if only else 2,
        heading=not only,
        sortable=False,
    )


# The rows of one task.


def rows_table(table: TaskTable, places: Addresses | None) -> Table:
    """The rows of a task."""
    lower = table.lower_is_better(table.metric)
    score = replace(
        SCORE,
        name=f"score{' ↓' if lower else ''}",
        help=f"{SCORE.help}: {table.describe_metrics()}{'; lower is better' if lower else ''}",
        best="low" if lower else "high",
    )
    return make_table(
        f"Results on {table.task}",
        [score if column is SCORE else column for column in ROWS],
        table.in_order,
        kind=row_kind,
        links=lambda row: {0: places.page(row)} if places else {},
        data=row_data,
        keep=2,
    )


def metric_title(table: TaskTable, metric: str) -> str:
    """A metric in words; ↓ where lower is better."""
    return make_visible(metric_name(metric), 80) + (" ↓" if table.lower_is_better(metric) else "")


def metrics_table(table: TaskTable) -> Table:
    """The metrics beside the main one."""

    def column(name: str) -> Column:
        best = "low" if table.lower_is_better(name) else "high"
        return Column(
            name,
            metric_title(table, name),
            lambda row: row.numbers.get(name),
            score_text,
            best=best,
        )

    return make_table(
        f"{table.task}: other metrics",
        [Column("row", "mechanism", "name"), EPSILON, *map(column, table.other_metrics)],
        table.in_order,
        kind=lambda row: "end" if row.is_baseline else "",
        notes=(f"{table.describe_metrics(table.other_metrics)}.",),
        keep=2,
    )


def submitted_table(rows: Iterable[Row]) -> Table:
    """Who submitted which of these rows, what the paper reports, and what others got who ran cells again."""

    def reproduced(row: Row) -> str | None:
        return (row.submission and row.submission.card.reproduced) or None

    def footnote(row: Row) -> str | None:
        return (row.submission and row.submission.card.footnote) or None

    columns = (
        Column("row", "submitted row", "name"),
        EPSILON,
        Column("task", "task"),
        Column("authors", "authors", "submission.card.authors", names_text, wide=True),
        Column("score", "score here", show=score_text),
        Column("reported", "paper reports", show=score_text, optional=True),
        Column("reproduced", "run again", reproduced, wide=True, optional=True),
        Column("footnote", "†", footnote, wide=True, optional=True),
    )
    return make_table("Submitted rows", columns, rows, keep=2, sortable=False)


# Claims.


@dataclass(frozen=True)
class _Claim:
    """The rows of a method at one ε that prove a finite ε above 0."""

    rows: Sequence[Row]

    @property
    def first(self) -> Row:
        return self.rows[0]

    @property
    def claimed(self) -> float | None:
        return max((row.claimed for row in self.rows if row.claimed is not None), default=None)

    @property
    def proved(self) -> float:
        return max(row.proved for row in self.rows)

    @property
    def audited(self) -> Row | None:
        """The row with the largest audited ε."""
        audited = [row for row in self.rows if row.audit.epsilon is not None]
        return max(audited, key=attrgetter("audit.epsilon"), default=None)

    @property
    def audited_text(self) -> tuple[float, str] | None:
        row = self.audited
        return None if row is None else audited_text(row.audit.best, row.audit.powers)

    @property
    def share(self) -> str | None:
        row = self.audited
        return None if row is None else share_text(row.audit.best, row.audit.powers)

    @property
    def attack(self) -> str | None:
        row = self.audited
        return None if row is None else f"{row.audit.best_name} on {row.task}"

    @property
    def refuted(self) -> int | None:
        return sum(bool(row.audit.flag) for row in self.rows) or None


def claims_table(section: Section, places: Addresses | None = None) -> Table:
    """Claimed, proved and audited ε of every method that proves a finite one above 0, over its tasks and seeds."""
    with_proof = [row for row in section.rows if 0 < row.proved < math.inf]
    by_method = group_by(with_proof, "label", "epsilon")
    claims = [_Claim(rows) for _, rows in sorted(by_method.items(), key=itemgetter(0))]
    columns = (
        Column("row", "mechanism", "first", row_label),
        Column("epsilon", "ε", "first.epsilon", epsilon_text, EPSILON.help),
        Column("claimed", "claimed ε", show=epsilon_text, help=CLAIMED.help),
        Column("proved", "proved ε", show=epsilon_text, help=PROVED.help),
        Column("audited", "audited ε", "audited_text", itemgetter(1), AUDITED.help),
        Column("share", "share", help="audited ε over the ε proved for that run"),
        Column("attack", "by", wide=True),
        Column(
            "refuted",
            "refuted",
            show="{} rows".format,
            help="rows whose audited ε exceeds their proved ε",
            optional=True,
        ),
    )
    note = (
        "Claimed: the ε that the formula in the method's paper gives. Proved: an upper bound, from the run's ledger."
        " Audited: a lower bound, by our strongest attack; a small one may only say that the attack is weak."
    )
    return make_table(
        "Is ε true? What authors claim, what is proved, and what attacks reach",
        columns,
        claims,
        kind=lambda claim: "flagged" if claim.refuted else "",
        links=lambda claim: {0: places.board_of_name(claim.first.label)} if places else {},
        data=lambda claim: row_data(claim.first),
        notes=(note,),
        keep=2,
        heading=True,
    )
