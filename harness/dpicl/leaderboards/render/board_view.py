"""Lays out a board: first the answer and one table, then the tables that they are based on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from dpicl.core.messages import capitalize, count, epsilon_text, names_text, signed_text
from dpicl.core.printable import make_visible
from dpicl.core.vocabulary import NEIGHBOURS_TEXT, model_name
from dpicl.leaderboards.model.answers import BoardAnswer, levels
from dpicl.leaderboards.model.board import Board, Section
from dpicl.leaderboards.model.task_table import TaskTable
from dpicl.leaderboards.model.text import gather, metric_name, scored_thing
from dpicl.leaderboards.render.addresses import Addresses
from dpicl.leaderboards.render.attacks_view import row_attacks
from dpicl.leaderboards.render.board_tables import (
    answers_table,
    carried_table,
    claims_table,
    contrasts_table,
    headroom_table,
    methods_table,
    metric_title,
    metrics_table,
    rows_table,
    submitted_table,
)
from dpicl.plan.headroom import Headroom
from dpicl.tables.document import Block, Facts, Heading, Part, folded_notes, notes, words

#: Answers before the table of a page.
_ANSWERS = 2


def board_blocks(board: Board, attacks: bool = False, full: bool = True, epsilon: float | None = None) -> list[Block]:
    """The board. attacks: with every attack on its rows. full: every table of every task; else the table of methods and
    tasks and the verdicts at one ε (None: the one that is answered first)."""
    if full or attacks:
        every = (section_blocks(section, None, attacks, board.skipped) for section in board.sections)
        return [*chain.from_iterable(every), *notes(board.notes)]
    return overview(board, epsilon)


def first_level(section: Section) -> float:
    """The ε that is answered first; infinity where there is none."""
    finite = sorted({row.epsilon for row in section.rows if 0 < row.epsilon < math.inf})
    return next(iter([*levels(section.tables), *finite]), math.inf)


def _header(section: Section, epsilon: float) -> Iterator[Block]:
    """Suite, model, records, seeds, ε and δ."""
    group, rows = section.group, [row for row in section.rows if row.epsilon == epsilon or row.is_reference]
    seeds, documents = ([len(row.seeds) for row in rows], [table.documents for table in section.tables])
    yield words(
        f"{make_visible(group.suite)}, version {make_visible(group.version)}: {model_name(group.model)}", "lead"
    )
    sets = "one set of " if all(table.has_one_test_set for table in section.tables) else ""
    records = f"{group.source} records, {sets}{_range(documents, 'test record')} a task, {_range(seeds, 'seed')}"
    if section.tables:
        yield words(f"{records}; ε = {epsilon_text(epsilon)}, δ = {group.delta:g}")
    else:
        yield words(f"{group.source} records; no row has run yet, so there is headroom alone", "quiet")


def answer_blocks(section: Section, epsilon: float) -> Iterator[Block]:
    """What was compared at an ε, and what to use on every task."""
    yield from _header(section, epsilon)
    reasons = [
        (capitalize(reason), table.task) for table in section.tables if (reason := table.unranked_levels.get(epsilon))
    ]
    yield from (words(reason, "answer") for reason in gather(reasons))
    found = [one for one in section.answers if one.epsilon == epsilon and one.best]
    others = [one for one in found if not one.useful]
    shared = others if len(others) > 1 else []
    own = [one for one in found if one not in shared]
    yield from (words(one.sentence, "answer") for one in own[:_ANSWERS])
    if shared:
        by_task: dict[str, list[BoardAnswer]] = {}
        for one in shared:
            by_task.setdefault(one.task, []).append(one)
        firsts = [to_beat for first, *_ in by_task.values() if (to_beat := first.to_beat)]
        scores, where = names_text([one.number for one in firsts]), names_text(map(_describe_place, by_task.values()))
        said = f"On {where} no method is shown to be better than the best row that reads no record ({scores})."
        yield words(said, "answer")  # the table below names the metrics and their readers
    if (more := len(own) - _ANSWERS) > 0:
        yield words(f"{count(more, 'more answer')}: see the best rows at each ε.", "quiet")


def headroom_blocks(section: Section) -> list[Block]:
    """What real demonstrations gain on each task, in a sentence for each reader."""
    by_reader = _headroom(section) if section.tables else {}
    said = " ".join(f"{capitalize(reader)}: {gains}." for reader, gains in by_reader.items())
    return [words(f"Headroom (real − public demonstrations, 95%). {said}", "quiet")] if said else []


def _describe_place(answers: Sequence[BoardAnswer]) -> str:
    """The task of these answers, and their Qs: 'agnews (for any number of queries and for 20 queries)'."""
    queries = names_text([f"for {one.queries}" for one in answers if one.queries])
    return answers[0].task + (f" ({queries})" if queries else "")


def _headroom(section: Section) -> dict[str, str]:
    """Reader -> what real demonstrations gain over public ones, with the interval, on tasks where this was measured."""
    by_reader: dict[str, list[TaskTable]] = {}
    for table in [*section.tables, *section.measured]:
        if table.metric in table.headroom:
            by_reader.setdefault(table.reader, []).append(table)
    return {reader: _list_gains(by_reader[reader]) for reader in sorted(by_reader)}


def _list_gains(tables: Sequence[TaskTable]) -> str:
    """The gains of one reader; those of which the interval includes 0 last."""
    found = [(table.task, table.headroom[table.metric]) for table in tables]
    some = [
        f"{task} {signed_text(own.gain)} ({_interval(own)}{_name_smaller(own)})" for task, own in found if own.rewards
    ]
    others = [f"{task} ({_interval(own)})" for task, own in found if not own.rewards]
    said = [names_text(some)] if some else []
    return "; ".join([*said, f"not shown (no ranks) on {names_text(others)}"] if others else said)


def _interval(headroom: Headroom) -> str:
    return f"{signed_text(headroom.low)} to {signed_text(headroom.high)}"


def _name_smaller(headroom: Headroom) -> str:
    """Over which other row that reads no record they gain nothing, where there is one."""
    least = min(headroom.others, key=lambda other: other.gain, default=None)
    return f"; {signed_text(least.gain)} over {least.over}" if least is not None and least.gain <= 0 else ""


def _range(numbers: Iterable[int], noun: str) -> str:
    low, high = min(numbers, default=0), max(numbers, default=0)
    return count(high, noun) if low == high else f"{low:,}–{count(high, noun)}"


def overview(board: Board, epsilon: float | None) -> list[Block]:
    """What was compared, all methods on all tasks at one ε, a line a verdict, and where the rest is.

    epsilon: None for the one that a board answers first.
    """
    section, *others = board.sections
    level = first_level(section) if epsilon is None else epsilon
    blocks: list[Block] = [*_header(section, level)]
    if section.tables:
        blocks.append(methods_table(section, [level]))
        blocks += (words(one.line, "answer") for one in section.answers if one.epsilon == level)
        carried = carried_table(section, [level])
        blocks += [] if carried is None else [carried]
    else:
        blocks.append(headroom_table(section.measured))
    more = []
    if rest := [epsilon_text(one) for one in levels(section.tables) if one != level]:
        more.append(f"ε = {names_text(rest)} (--epsilon {rest[-1]})")
    if others:
        apart = dict.fromkeys(f"{model_name(one.group.model)} on {one.group.source} records" for one in others)
        more.append(f"{names_text(apart)} (--full)")
    blocks += notes(board.warnings)
    said = [f"Also: {'; '.join(more)}."] if more else []
    if number := len(section.notes) + len(board.notes) - len(board.warnings):
        said.append(f"Headroom, planned claims, audits and {count(number, 'note')}: --full.")
    return [*blocks, *(words(one, "quiet") for one in said)]


def section_blocks(
    section: Section, places: Addresses | None = None, attacks: bool = False, skipped: Sequence[Mapping[str, str]] = ()
) -> list[Block]:
    """Every table of a section. places: where pages are; None in a terminal. attacks: with every attack on its rows."""
    group = section.group
    facts = {"model": model_name(group.model), "records": group.source, "δ": f"{group.delta:g}"}
    facts |= {"neighbours": NEIGHBOURS_TEXT, "suite hash": group.suite_hash[:12]}
    if all(table.has_one_test_set for table in section.tables):
        facts["verdicts and intervals"] = "over seeds, on one set of test records a task"
    blocks: list[Block] = [Heading(f"{group.suite}, version {group.version}"), Facts(facts)]
    blocks += [answers_table(section)] if section.answers else []
    blocks.append(headroom_table([*section.tables, *section.measured]))
    blocks += [contrasts_table(section)] if section.contrasts else []
    blocks += (_task(table, places, attacks, skipped) for table in section.tables)
    if places is None:  # a page has them before the tables
        return [*blocks, *([claims_table(section)] if section.tables else []), *notes(section.notes)]
    return [*blocks, *folded_notes(section.notes)]


def _task(table: TaskTable, places: Addresses | None, attacks: bool, skipped: Sequence[Mapping[str, str]]) -> Part:
    things = count(table.documents, scored_thing(table.reader))
    title = f"{table.task}: {metric_title(table, table.metric)}, {table.reader}, {things}"
    blocks: list[Block] = [Heading(title, 3)]
    blocks.append(rows_table(table, places))
    if submitted := [row for row in table.in_order if row.submission is not None]:
        blocks.append(submitted_table(submitted))
    lacks = [one for one in skipped if one["task"] == table.task]
    blocks += notes(gather((f"No result on {table.task}, since {one['reason']}", one["label"]) for one in lacks))
    blocks += row_attacks(table.task, table.in_order) if attacks else []
    for one in table.missing:
        blocks += [words(f"missing: {one['what']}. Make it with:", "note"), words(one["command"], "command")]
    if table.other_metrics:
        blocks.append(Part((metrics_table(table),), f"{table.task}: other metrics"))
    blocks += notes(
        f"{metric_name(name)} has no score in {where}: {reason.rstrip('.')}." for name, reason, where in table.skipped
    )
    return Part(tuple(blocks), kind="task", data={"task": table.task})
