"""What a board shows: an answer with one table first, then the tables that it rests on."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter, itemgetter
from statistics import fmean

from dpicl.attacks.results import ATTAINED
from dpicl.core.printable import visible
from dpicl.core.vocabulary import NOTIONS, RECORD_CENTRAL, model_name
from dpicl.leaderboards.model.answers import BoardAnswer, levels
from dpicl.leaderboards.model.board import Board, Section
from dpicl.leaderboards.model.marks import BY_EMBEDDINGS
from dpicl.leaderboards.model.metrics import metric_name, scored_thing
from dpicl.leaderboards.model.ranks import PUBLIC, rank_notes
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import Ranking, Standing, TaskTable, first_per_query, recovery_notes
from dpicl.leaderboards.model.text import (
    PER_QUERY_NOTE,
    SAMPLED_NOTE,
    bound_text,
    counted,
    epsilon_text,
    names_text,
    recovery_text,
    score_text,
    signed_text,
)
from dpicl.leaderboards.render.addresses import Addresses
from dpicl.leaderboards.render.attacks_view import row_attacks, share_text
from dpicl.leaderboards.render.columns import (
    AUDITED,
    CLAIMED,
    EPSILON,
    PROVED,
    row_columns,
    row_data,
    row_kind,
    row_label,
)
from dpicl.plan.headroom import REAL, Headroom
from dpicl.tables.console import width
from dpicl.tables.document import (
    Block,
    Column,
    Facts,
    Heading,
    Line,
    Part,
    Table,
    folded_notes,
    make_table,
    notes,
    words,
)

NOTHING = "There are no results yet; make some with: dpicl run quick"
#: Names of tasks that a sentence of the first screen lists.
_FEW = 4
#: Characters of a note on it.
_LONGEST_NOTE = 220
#: Characters of a task's name, and of a label, on the first screen.
_TASK, _LABEL = 14, 26
#: The rows of a method at one ε, by task.
Method = tuple[str, float, Mapping[str, Row]]
#: (task, label, ε) of rows that none is better than.
Best = Collection[tuple[str, str, float]]


# The answer.


def overview(board: Board, epsilon: float | None = None, most: int = 19) -> list[Block]:
    """One screen: what was compared, the answer, one table at one ε, and where the rest is.

    epsilon: None for the one that a board answers first. most: lines of the table.
    """
    if not board.sections:
        return [words(NOTHING), *notes(board.notes)]
    section, *others = board.sections
    found = levels(section.tables) or sorted({row.epsilon for row in section.rows if 0 < row.epsilon < math.inf})
    level = epsilon if epsilon is not None else found[0] if found else math.inf
    blocks: list[Block] = [*compared(section, level)]
    blocks += [
        words(""),
        words(advice(section, level), "lead"),
        methods_table(section, [level], room=width(), most=most),
    ]
    blocks += [words(one) for one in _headroom_words(section.tables)]
    blocks += [words(f"Apart: {_apart(one)}") for one in others[:2]]
    if len(others) > 2:
        blocks.append(words(f"and {len(others) - 2} more sections, which are not compared with these."))
    if rest := [epsilon_text(one) for one in found if one != level]:
        blocks.append(words(f"Also at ε = {names_text(rest)}: --epsilon.", "quiet"))
    said = [*section.notes[:1], *board.notes[:2]]  # the most important ones
    blocks += notes(one if len(one) <= _LONGEST_NOTE else f"{one[:_LONGEST_NOTE]}…" for one in said)
    if more := len(section.notes) + len(board.notes) - len(said):
        blocks.append(words(f"{counted(more, 'more note')}: --full", "note"))
    return blocks


def _model(section: Section) -> str:
    notion = section.group.notion
    return model_name(section.group.model) + ("" if notion == RECORD_CENTRAL.name else f", {notion}")


def compared(section: Section, epsilon: float) -> Iterator[Block]:
    """What was compared at an ε, in two lines."""
    group, rows = section.group, [row for row in section.rows if row.epsilon == epsilon or row.at_an_end]
    seeds, documents = ({*own} for own in ([len(r.seeds) for r in rows], [t.documents for t in section.tables]))
    yield words(f"{visible(group.suite)}, version {visible(group.version)}: {_model(section)}", "lead")
    records = f"{group.source} records, {_range(documents, 'test record')} a task, {_range(seeds, 'seed')}"
    yield words(f"{records}; ε = {epsilon_text(epsilon)}, δ = {group.delta:g}")


def _range(numbers: Iterable[int], noun: str) -> str:
    low, high = min(numbers, default=0), max(numbers, default=0)
    return counted(high, noun) if low == high else f"{low:,}–{counted(high, noun)}"


def advice(section: Section, epsilon: float) -> str:
    """One sentence: what to use at an ε, and what beats it."""
    own = [one for one in section.answers if one.epsilon == epsilon]
    ranked = [one for one in own if one.best]
    told = [one for one in ranked if len(one.tasks) > 1] or [one for one in ranked if one.compared] or ranked
    unranked = list(dict.fromkeys(task for one in own if not one.best for task in one.tasks))
    where = f"At ε = {epsilon_text(epsilon)}"
    if not ranked:
        why = f" on {_few(unranked)}: real demonstrations do not gain there" if unranked else ""
        return f"{where} nobody can be ranked{why}."
    said = [f"{_named(one)} {_where(one, told)} ({one.verdict})" for one in told]
    parts = [f"{where} use {'; '.join(said)}"]
    beaten: dict[str, list[str]] = defaultdict(list)
    for answer in told:
        for control in answer.controls:
            beaten[control.name].append(_where(answer, told))
    by_places: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, places in beaten.items():
        by_places[tuple(places)].append(name)
    for where_all, names in by_places.items():
        verb = "is" if len(names) == 1 else "are"
        parts.append(f"{names_text(names)} {verb} at least as good {_few(dict.fromkeys(where_all))}")
    if not_above := _not_above_public(section.tables, told, epsilon):
        parts.append(f"on {_few(not_above)} none of these is shown to beat {PUBLIC}")
    return "; ".join(parts) + "."


def _few(names: Iterable[str]) -> str:
    """'a, b, c and 9 more'."""
    listed = list(names)
    more = len(listed) - _FEW + 1
    return names_text([*listed[: _FEW - 1], f"{more} more"] if more > 1 else listed)


def _named(answer: BoardAnswer) -> str:
    more = len(answer.best) - 2
    names = [one.name for one in answer.best]
    return names_text([*names[:2], f"{more} more"] if more > 1 else names)


def _where(answer: BoardAnswer, told: Sequence[BoardAnswer]) -> str:
    """'on agnews', with Q where other answers are about the same task."""
    if len(answer.tasks) > 1:
        return f"over {len(answer.tasks)} tasks"
    return f"on {answer.tasks[0] if sum(one.tasks == answer.tasks for one in told) == 1 else answer.where}"


def _not_above_public(tables: Sequence[TaskTable], answers: Sequence[BoardAnswer], epsilon: float) -> list[str]:
    """Tasks on which no best row is shown to be better than public demonstrations."""
    found = []
    for table in tables:
        best = {each.label for one in answers if table.task in one.tasks for each in one.best}
        rows = [row for row in table.rows if row.epsilon == epsilon and row.label in best and row.against_public]
        if rows and not any(row.against_public and row.against_public.better for row in rows):
            found.append(table.task)
    return found


def _apart(section: Section) -> str:
    """A section that is compared with no other, and how it is shown."""
    usual = section.group.notion == RECORD_CENTRAL.name
    return f"{_model(section)}: {f'--model {section.group.model}' if usual else '--full'}"


def methods_table(
    section: Section,
    epsilons: Sequence[float],
    places: Addresses | None = None,
    room: int | None = None,
    most: int = 0,
) -> Table:
    """Methods × tasks at these ε: a score with its rank set, the best ones marked; controls and ceilings last.

    room: characters that a terminal has; what has none is left out, and a note says so. None: everything. most: lines
    for which it has room.
    """
    tables = [table for table in section.tables if any(row.epsilon in epsilons for row in table.rows)]
    tables = tables or list(section.tables)
    if room is not None:
        tables.sort(key=lambda table: (not any(row.rank for row in table.rows), section.tables.index(table)))
    best = _best_of(section)
    every = sorted(_methods(tables, epsilons), key=lambda method: _place(method, best))
    said = ["score and possible ranks (95%); *: no row that prompts a language model is better; controls last."]
    columns, shown = [_task_column(table, best) for table in tables], every
    if room is not None:
        label = min(_LABEL, max((len(_method_label(one)) for one in every), default=0))
        columns, left_out = _fitting(tables, every, best, room - label - 8)
        if left_out:
            said.append(f"{_few(left_out)}: no room here, see --full.")
        methods = [one for one in every if not _is_control(one)]
        others = [one for one in every if _is_control(one)]
        kept = max(most - len(others), 3)
        if len(methods) > kept:
            said.append(f"{len(methods) - kept} more methods: --full.")
        shown = [*methods[:kept], *others]
    names = [
        Column("method", "method", _method_label, help="its link leads to all of its rows"),
        Column("epsilon", "ε", itemgetter(1), epsilon_text, EPSILON.help),
    ]
    lower = [f"{table.task}" for table in tables if table.lower_is_better(table.metric)]
    said += [f"↓: lower is better ({names_text(lower)})."] if lower else []

    def links(method: Method) -> dict[int, str]:
        if places is None:
            return {}
        own = {0: places.mechanism(method[0])}
        own |= {i: places.page(method[2][table.task]) for i, table in enumerate(tables, 2) if table.task in method[2]}
        return {i: address for i, address in own.items() if address}

    return make_table(
        f"Methods and tasks at ε = {names_text(map(epsilon_text, epsilons))}",
        [*names, *columns],
        shown,
        kind=lambda method: _method_kind(method, best),
        links=links,
        data=lambda method: row_data(next(iter(method[2].values()))),
        notes=tuple(said),
        keep=2,
    )


def _best_of(section: Section) -> Best:
    """(task, label, ε) of the rows that an answer names, where it compares several."""
    alone = [one for one in section.answers if len(one.tasks) == 1 and one.compared]
    return {(one.tasks[0], each.label, one.epsilon) for one in alone for each in one.best}


def _methods(tables: Sequence[TaskTable], epsilons: Sequence[float]) -> list[Method]:
    found: dict[tuple[str, float], dict[str, Row]] = defaultdict(dict)
    for table in tables:
        for row in table.in_order:
            if row.at_an_end or math.isinf(row.epsilon) or row.epsilon in epsilons:
                found[row.label, row.epsilon][table.task] = row
    return [(label, epsilon, own) for (label, epsilon), own in found.items()]


def _place(method: Method, best: Best) -> tuple[object, ...]:
    """Methods first, those that are best on most tasks before others; then controls and ceilings by ε."""
    label, epsilon, rows = method
    recoveries = [row.recovery for row in rows.values() if row.recovery is not None]
    ranked = sum(row.rank is not None for row in rows.values())
    first = sum((task, label, epsilon) in best for task in rows)
    control = _is_control(method)
    worth = fmean(recoveries) if recoveries else fmean(row.score for row in rows.values()) - 1
    return control, epsilon if control else 0.0, -first, -ranked, -worth, label


def _is_control(method: Method) -> bool:
    """Whether it reads no record, shows them as they are, or prompts no language model."""
    row = next(iter(method[2].values()))
    return row.at_an_end or math.isinf(row.epsilon) or BY_EMBEDDINGS in row.marks


def _method_label(method: Method) -> str:
    return row_label(next(iter(method[2].values())))


def _method_kind(method: Method, best: Best) -> str:
    label, epsilon, rows = method
    if any(row.audit.flag for row in rows.values()):
        return "flagged"
    if _is_control(method):
        return "end"
    return "first" if any((task, label, epsilon) in best for task in rows) else ""


def _task_column(table: TaskTable, best: Best, ranks: bool = True) -> Column:
    def cell(method: Method) -> tuple[float, str] | None:
        row = method[2].get(table.task)
        if row is None:
            return None
        star = "*" if (table.task, method[0], method[1]) in best else ""
        rank = f" {row.rank}" if ranks and row.rank is not None else ""
        return row.score, f"{score_text(row.score)}{rank}{star}"

    lower = table.lower_is_better(table.metric)
    about = f"{metric_name(table.metric)} on {counted(table.documents, scored_thing(table.metric))}"
    about += f"; nobody is ranked: {table.unrewarded}" if table.unrewarded else ""
    name = visible(table.task, _TASK) + (" ↓" if lower else "")
    return Column(table.task, name, cell, itemgetter(1), about, "low" if lower else "high", data={"task": table.task})


def _fitting(
    tables: Sequence[TaskTable], methods: Sequence[Method], best: Best, room: int
) -> tuple[list[Column], list[str]]:
    """The columns that have room: with rank sets if the tasks with ranks then fit, and the tasks without room."""
    ranked = sum(any(row.rank for row in table.rows) for table in tables)
    for ranks in (True, False):
        columns = [_task_column(table, best, ranks) for table in tables]
        widths = [max(len(one.name), *(len(one.text(one.of(method))) for method in methods)) + 2 for one in columns]
        fits = sum(sum(widths[: i + 1]) <= room for i in range(len(widths)))
        if fits >= ranked:
            break
    return columns[:fits], [table.task for table in tables[fits:]]


def _headroom_words(tables: Sequence[TaskTable]) -> Iterator[str]:
    """One line: what real demonstrations gain over public ones, and where nobody is ranked since they do not."""
    gains = {table.task: table.headroom.get(table.metric) for table in tables}
    some = [f"{task} {signed_text(one.gain)}" for task, one in gains.items() if one is not None and one.rewards]
    none = [task for task, one in gains.items() if one is not None and not one.rewards]
    parts = [f"{_few(some)} (real − public demonstrations)"] if some else []
    parts += [f"none is shown on {_few(none)}: nobody is ranked there"] if none else []
    if parts:
        yield f"Headroom: {'; '.join(parts)}."


# The tables that it rests on.


def section_blocks(
    section: Section, places: Addresses | None = None, attacks: bool = False, skipped: Sequence[Mapping[str, str]] = ()
) -> list[Block]:
    """Every table of a section. places: where pages are; None in a terminal. attacks: with every attack on its rows."""
    group = section.group
    facts = {"model": model_name(group.model), "records": group.source, "δ": f"{group.delta:g}"}
    facts |= {"neighbours": NOTIONS[group.notion].words, "suite hash": group.suite_hash[:12]}
    blocks: list[Block] = [Heading(f"{group.suite}, version {group.version}"), Facts(facts)]
    if section.answers:
        blocks.append(make_table("Best rows at each ε", _ANSWERS, section.answers, sortable=False, keep=2))
    if section.tables:
        blocks.append(headroom_table(section.tables))
    blocks += chain.from_iterable(_ranking(ranking, places) for ranking in section.rankings)
    first = first_per_query(section.tables)
    for table in section.tables:
        lacks = [one for one in skipped if one["task"] == table.task]
        blocks.append(_task(table, places, PER_QUERY_NOTE if table is first else "", attacks, lacks))
    if not attacks and places is None and (hidden := _hidden(section)):
        blocks += notes([hidden])
    blocks += [claims_table(section)] if places is None else []  # a page has it before the tables
    return [*blocks, *(notes(section.notes) if places is None else folded_notes(section.notes))]


_ANSWERS = (
    Column("epsilon", "ε", attrgetter("epsilon"), epsilon_text),
    Column("where", "where", attrgetter("where"), wide=True),
    Column("best", "best", lambda one: one.texts[0], wide=True),
    Column("verdict", "verdict (95%)", attrgetter("verdict"), wide=True),
    Column("controls", "controls as good", lambda one: one.texts[1], wide=True),
)


def _of_headroom(name: str, key: str) -> Column:
    """A column that is empty where an end of the headroom has no result."""

    def value(table: TaskTable) -> object:
        found = table.headroom.get(table.metric)
        return None if found is None else _HEADROOM_VALUES[key](found)

    return Column(key, name, value)


_HEADROOM_VALUES: Mapping[str, Callable[[Headroom], object]] = {
    "shots": attrgetter("shots"),
    "ends": lambda one: f"{score_text(one.public)} → {score_text(one.real)}",
    "gain": lambda one: f"{signed_text(one.gain)} ({signed_text(one.low)} to {signed_text(one.high)})",
    "sizes": lambda one: f"{len(one.seeds)} × {one.documents}{', development' * one.development}",
}


def headroom_table(tables: Sequence[TaskTable]) -> Table:
    """What real demonstrations gain over public ones on every task, and whether it ranks anybody."""

    def ranks(table: TaskTable) -> str:
        found: Headroom | None = table.headroom.get(table.metric)
        if found is None:
            lacking = PUBLIC if table.real_data is not None else REAL
            return f"yes, but headroom is unknown: no {lacking} at a common seed"
        return "yes" if found.rewards else "no"

    columns = (
        Column("task", "task", attrgetter("task")),
        Column("metric", "metric", attrgetter("metric")),
        _of_headroom("shots", "shots"),
        _of_headroom("public → real", "ends"),
        _of_headroom("headroom (95%)", "gain"),
        _of_headroom("seeds × records", "sizes"),
        Column("ranks", "ranks", ranks, wide=True),
    )
    note = (
        "Where the interval includes 0 nobody is ranked. Seeds and test records are samples (of one seed: test records"
        " alone); development: on seeds and test records that no row has."
    )
    title = f"Headroom: {REAL} − {PUBLIC}, before any private method"
    return make_table(title, columns, tables, notes=(note,), keep=2, heading=True, sortable=False)


def _standing_name(one: Standing) -> str:
    return (f"{one.name}, submitted" if one.submitted else one.name) + (f" {one.signs}" if one.signs else "")


def _shown_rank(name: str) -> Callable[[Standing], tuple[int, str] | None]:
    def value(one: Standing) -> tuple[int, str] | None:
        rank = getattr(one, name)
        return None if rank is None else (rank.low, str(rank))

    return value


_RANK = "the ranks that it may have by mean recovery, within one ε and Q, all rows together at 95%"
_SAMPLE = "the same, were these tasks a random sample of tasks"
_MEAN = "mean over the common tasks: 0% is zero-shot, 100% real demonstrations"
_STANDINGS = (
    Column("row", "mechanism", _standing_name, help="the row's name in the suite"),
    EPSILON,
    Column("rank", "rank", _shown_rank("rank"), itemgetter(1), _RANK),
    Column("sample_rank", "other tasks", _shown_rank("sample_rank"), itemgetter(1), _SAMPLE, optional=True),
    Column("proved", "proved ε", attrgetter("proved"), epsilon_text, "the largest over all of its tasks and seeds"),
    Column("recovery", "recovery", attrgetter("recovery"), recovery_text, _MEAN, "high"),
    Column("score", "score", attrgetter("score"), score_text, "mean of the main metric over the common tasks"),
    Column("seeds", "seeds", lambda one: len(one.seeds), help="how many random seeds are behind the means"),
)


def _ranking(ranking: Ranking, places: Addresses | None) -> Iterator[Block]:
    left_out = tuple(f"{task} is not in the mean: {reason}." for task, reason in ranking.left_out)
    title = f"{ranking.title}: {ranking.says}"
    if not ranking.tasks:
        yield words(f"Ranking over {title}.", "quiet")
        yield from notes(left_out)
        return
    sampled = any(one.sample_rank for one in ranking.standings)

    def links(one: Standing) -> dict[int, str]:
        address = places.mechanism(one.label) if places else None
        return {0: address} if address else {}

    yield make_table(
        title,
        _STANDINGS,
        ranking.standings,
        kind=lambda one: "end" if one.is_baseline else "first" if one.rank and one.rank.first else "",
        links=links,
        notes=(*([SAMPLED_NOTE] if sampled else []), *left_out),
        keep=2,
        heading=True,
    )


def _task(
    table: TaskTable, places: Addresses | None, per_query: str, attacks: bool, skipped: Sequence[Mapping[str, str]]
) -> Part:
    things = counted(table.documents, scored_thing(table.metric))
    blocks: list[Block] = [Heading(f"{table.task}: {_metric(table, table.metric)}, {things}", 3)]
    blocks.append(rows_table(table, table.in_order, places))
    exact = any(row.audit.kind == "exact" for row in table.rows)
    blocks += notes([*([per_query] if per_query else []), *rank_notes(table), *recovery_notes(table)])
    blocks += notes([*([f"Exact: {ATTAINED}."] if exact else []), *submission_notes(table)])
    by_reason: dict[str, list[str]] = defaultdict(list)
    for one in skipped:
        by_reason[one["reason"]].append(one["label"])
    for reason, labels in by_reason.items():
        blocks += notes([f"{names_text(labels)} {'does' if len(labels) == 1 else 'do'} not do {table.task}: {reason}"])
    if attacks:
        blocks += row_attacks(table.task, table.all_rows)
    for missing in table.missing:
        blocks += [words(f"missing: {missing.what}. Make it with:", "note"), words(missing.command, "command")]
    if table.other_metrics:
        blocks.append(Part((_other_metrics(table),), f"{table.task}: other metrics"))
    blocks += notes(
        f"{metric_name(name)} has no score in {where}: {reason.rstrip('.')}." for name, reason, where in table.skipped
    )
    if table.paper:
        blocks.append(Heading(f"{table.task}, noise by the authors' own accounting (not ranked)", 4))
        blocks.append(rows_table(table, table.paper, places))
    return Part(tuple(blocks), kind="task", data={"task": table.task})


def rows_table(table: TaskTable, rows: Sequence[Row], places: Addresses | None) -> Table:
    """The rows of a task; where all are in it, with a line for each reference baseline that has no result."""
    made = make_table(
        f"Results on {table.task}",
        row_columns(table.lower_is_better(table.metric)),
        rows,
        kind=row_kind,
        links=lambda row: {0: places.page(row)} if places else {},
        data=row_data,
        keep=2,
    )
    absent = table.absent if rows is table.in_order else {}
    nothing = (None,) * (len(made.columns) - 2)
    lines = [Line((f"{name} (missing)", epsilon, *nothing), "absent") for name, epsilon in absent.items()]
    return Table(made.title, made.columns, (*made.lines, *lines), keep=2)


def _metric(table: TaskTable, metric: str) -> str:
    return visible(metric_name(metric), 80) + (" ↓" if table.lower_is_better(metric) else "")


def _number(name: str) -> Callable[[Row], float | None]:
    return lambda row: row.numbers.get(name)


def _other_metrics(table: TaskTable) -> Table:
    columns = [
        Column(
            name,
            _metric(table, name),
            _number(name),
            score_text,
            best="low" if table.lower_is_better(name) else "high",
        )
        for name in table.other_metrics
    ]
    first = Column("row", "mechanism", lambda row: row.name + ("" if row.mode == "proved" else " (paper)"))
    title = f"{table.task}: other metrics"
    kind = {True: "end"}
    return make_table(
        title, [first, EPSILON, *columns], table.all_rows, kind=lambda row: kind.get(row.is_baseline, ""), keep=2
    )


def submission_notes(table: TaskTable) -> list[str]:
    """Who submitted rows of this table, their footnotes, and what was reported and reproduced; each once."""
    found: dict[str, None] = {}
    for row in table.all_rows:
        one = row.submission
        if one is None:
            continue
        paper = "" if one.paper.lower().startswith("none") else f"; {visible(one.paper, 200)}"
        found[f"{visible(row.name)}: submitted by {visible(names_text(one.authors), 200)}{paper}."] = None
        if one.footnote:
            found[f"† {visible(one.name)}: {visible(one.footnote)}"] = None
        if row.reported is not None:
            scores = f"the paper reports {score_text(row.reported)}; measured {score_text(row.score)}"
            found[f"{visible(row.title)}: {scores}."] = None
        for again in row.reproduced:
            same = ", identical" if again.identical else ""
            numbers = f"{score_text(again.reported)} reported, {score_text(again.reproduced)} reproduced{same}"
            found[f"{visible(row.title)}, seed {again.seed}: {numbers} (by {visible(again.by, 100)})."] = None
    return list(found)


def _hidden(section: Section) -> str:
    """How many attacks there are to be seen, and how many rows have no audit; "" where there is neither."""
    rows = list(section.rows)
    found = sum(len(row.audit.attacks) + len(row.audit.external) for row in rows)
    lacking = sum(bool(row.audit.command) for row in rows)
    said = [f"{counted(found, 'attack')} on these rows"] if found else []
    said += [f"{lacking} of {counted(len(rows), 'row')} without an audit"] if lacking else []
    return f"{' and '.join(said)}: --attacks shows them." if said else ""


Claim = tuple[str, float, Sequence[Row]]


def claims_table(section: Section, places: Addresses | None = None) -> Table:
    """Claimed, proved and audited ε of every method that proves a finite one above 0, over its tasks and seeds."""
    own: dict[tuple[str, float], list[Row]] = defaultdict(list)
    for row in section.rows:
        if 0 < row.proved < math.inf:
            own[row.label, row.epsilon].append(row)
    items: list[Claim] = [(label, epsilon, rows) for (label, epsilon), rows in sorted(own.items())]

    def best(claim: Claim) -> Row | None:
        audited = [row for row in claim[2] if row.audit.epsilon is not None]
        return max(audited, key=lambda row: row.audit.epsilon or 0, default=None)

    def attack(claim: Claim) -> str | None:
        row = best(claim)
        return None if row is None or row.audit.best is None else f"{row.audit.best_name} on {row.task}"

    def largest(claim: Claim) -> float | None:
        row = best(claim)
        return None if row is None else row.audit.epsilon

    columns = (
        Column("row", "mechanism", lambda claim: row_label(claim[2][0])),
        Column("epsilon", "ε", itemgetter(1), epsilon_text, EPSILON.help),
        Column("claimed", "claimed ε", lambda c: max((r.claimed for r in c[2] if r.claimed is not None), default=None),
               epsilon_text, CLAIMED.help),
        Column("proved", "proved ε", lambda c: max(r.proved for r in c[2]), epsilon_text, PROVED.help),
        Column("audited", "audited ε", largest, bound_text, AUDITED.help),
        Column("share", "share", lambda c: share_text(best(c)), help="audited ε over the ε proved for that run"),
        Column("attack", "by", attack, wide=True),
        Column("refuted", "refuted", lambda c: sum(bool(row.audit.flag) for row in c[2]) or None, "{} rows".format,
               "rows whose audited ε exceeds their proved ε", optional=True),
    )  # fmt: skip

    def links(claim: Claim) -> dict[int, str]:
        address = places.mechanism(claim[0]) if places else None
        return {0: address} if address else {}

    note = (
        "Claimed: by its authors' formula. Proved: an upper bound, from the ledger. Audited: a lower bound, by the"
        " strongest attack of ours; a small one does not say that a row is safer: perhaps the attack is weak."
    )
    return make_table(
        "Claims: claimed, proved and audited ε",
        columns,
        items,
        kind=lambda claim: "flagged" if any(row.audit.flag for row in claim[2]) else "",
        links=links,
        data=lambda claim: row_data(claim[2][0]),
        notes=(note,),
        keep=2,
        heading=True,
    )
