"""Lays out a board: first the answer and one table, then the tables that they are based on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain

from dpicl.core.messages import count, epsilon_text, names_text
from dpicl.core.vocabulary import NEIGHBOURS_TEXT, model_name
from dpicl.leaderboards.model.answers import levels
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
    describe_columns,
    explain_cells,
    headroom_table,
    methods_table,
    metric_title,
    metrics_table,
    rows_table,
    submitted_table,
)
from dpicl.tables.document import Block, Facts, Heading, Part, Words, folded_notes, notes, words


def board_blocks(
    board: Board,
    attacks: bool = False,
    full: bool = True,
    epsilon: float | None = None,
) -> list[Block]:
    """The board. attacks: with every attack on its rows. full: every table of every task; else the table of methods and
    tasks and the verdicts at one ε (None: the one that is answered first)."""
    if full or attacks:
        every = (
            section_blocks(section, None, attacks, board.skipped) for section in board.sections
        )
        return [*chain.from_iterable(every), *notes(board.notes)]
    return overview(board, epsilon)


def first_level(section: Section) -> float:
    """The ε that is answered first; infinity where there is none."""
    return next(iter([*levels(section.tables), *finite_levels(section)]), math.inf)


def finite_levels(section: Section) -> list[float]:
    """Every ε of its rows above 0 and below infinity."""
    return sorted({row.epsilon for row in section.rows if 0 < row.epsilon < math.inf})


def header(section: Section, epsilon: float) -> Words:
    """Model, ε, δ, seeds and records in a line."""
    group = section.group
    records = "record" if group.source == "local" else f"{group.source} record"
    if not section.tables:
        text = f"{model_name(group.model)}, {records}s; no row has run yet: headroom alone"
        return words(text, "lead")
    rows = [row for row in section.rows if row.epsilon == epsilon or row.is_reference]
    seeds = _range([len(row.seeds) for row in rows], "seed")
    documents = _range([table.documents for table in section.tables], records)
    if all(table.has_one_test_set for table in section.tables):
        documents += " (one set)"
    settings = f"ε = {epsilon_text(epsilon)}, δ = {group.delta:g}"
    return words(f"{model_name(group.model)}, {settings}, {seeds} × {documents}", "lead")


def answer_blocks(section: Section, epsilon: float) -> list[Block]:
    """Which methods beat the best row that reads no record, on every task at an ε: a line a task, those on which some
    method does first, and a line about those without a verdict."""
    answers = [answer for answer in section.answers if answer.epsilon == epsilon]
    judged = [answer for answer in answers if not answer.no_verdict]
    judged.sort(key=lambda answer: not answer.beating)
    lines = [answer.line for answer in judged]
    others = [f"{answer.where} ({answer.no_verdict})" for answer in answers if answer.no_verdict]
    if others:
        lines.append(f"No verdict: {', '.join(others)}")
    return [*notes(lines, "answer")]


def _range(numbers: Sequence[int], noun: str) -> str:
    low, high = min(numbers, default=0), max(numbers, default=0)
    return count(high, noun) if low == high else f"{low:,}–{count(high, noun)}"


def overview(board: Board, epsilon: float | None) -> list[Block]:
    """What was compared, all methods on all tasks at one ε, a line a verdict, and where the rest is.

    epsilon: None for the one that a board answers first.
    """
    section, *others = board.sections
    level = first_level(section) if epsilon is None else epsilon
    blocks: list[Block] = [header(section, level)]
    if section.tables:
        blocks.append(methods_table(section, [level]))
        blocks += [words(text) for text in [explain_cells(section, [level])] if text]
        blocks += [*answer_blocks(section, level), *notes([describe_columns(section, [level])])]
        if carried := carried_table(section, [level]):
            blocks.append(carried)
    else:
        blocks.append(headroom_table(section.measured))
    blocks += notes(board.warnings)
    parts = []
    if other_levels := [epsilon_text(other) for other in levels(section.tables) if other != level]:
        parts.append(f"ε = {names_text(other_levels)} (--epsilon {other_levels[-1]})")
    if others:
        groups = [other.group for other in others]
        names = dict.fromkeys(
            f"{model_name(group.model)} on {group.source} records" for group in groups
        )
        parts.append(f"{names_text(names)} (--full)")
    if parts:
        blocks.append(words(f"Also: {'; '.join(parts)}.", "quiet"))
    if number := len(section.notes) + len(board.notes) - len(board.warnings):
        blocks.append(
            words(f"Headroom, planned claims, audits and {count(number, 'note')}: --full.", "quiet")
        )
    return blocks


def section_blocks(
    section: Section,
    places: Addresses | None = None,
    attacks: bool = False,
    skipped: Sequence[Mapping[str, str]] = (),
    claims: str | None = None,
) -> list[Block]:
    """Every table of a section. places: where pages are, of which each task has its own; None in a terminal. attacks:
    with every attack on its rows. claims: as in `contrasts_table`."""
    group = section.group
    facts = {
        "model": model_name(group.model),
        "records": group.source,
        "δ": f"{group.delta:g}",
        "neighbours": NEIGHBOURS_TEXT,
        "suite hash": group.suite_hash[:12],
    }
    if all(table.has_one_test_set for table in section.tables):
        facts["verdicts and intervals"] = "over seeds, on one set of test records a task"
    blocks: list[Block] = [Heading(f"{group.suite}, version {group.version}"), Facts(facts)]
    if section.answers:
        blocks.append(answers_table(section))
    blocks.append(headroom_table([*section.tables, *section.measured], places))
    if section.contrasts:
        blocks.append(contrasts_table(section, places, claims=claims))
    if places is None:
        for table in section.tables:
            blocks += task_blocks(table, None, attacks, skipped)
    elif carried := carried_table(section, finite_levels(section)):
        blocks.append(carried)
    if section.tables:
        blocks.append(claims_table(section, places))
    return [*blocks, *(notes(section.notes) if places is None else folded_notes(section.notes))]


def task_blocks(
    table: TaskTable,
    places: Addresses | None,
    attacks: bool,
    skipped: Sequence[Mapping[str, str]],
) -> list[Block]:
    """The tables of a task. places, attacks: as in `section_blocks`. skipped: why rows have no result: label, task,
    reason."""
    things = count(table.documents, scored_thing(table.reader))
    title = f"{table.task}: {metric_title(table, table.metric)}, {table.reader}, {things}"
    blocks: list[Block] = [Heading(title, 3), rows_table(table, places)]
    if submitted := [row for row in table.in_order if row.submission is not None]:
        blocks.append(submitted_table(submitted))
    reasons = [(skip["reason"], skip["label"]) for skip in skipped if skip["task"] == table.task]
    blocks += notes(
        gather((f"No result on {table.task}, since {reason}", label) for reason, label in reasons)
    )
    if attacks:
        blocks += row_attacks(table.task, table.in_order)
    for missing in table.missing:
        blocks.append(words(f"missing: {missing['what']}. Make it with:", "note"))
        blocks.append(words(missing["command"], "command"))
    if table.other_metrics:
        blocks.append(Part((metrics_table(table),), f"{table.task}: other metrics"))
    blocks += notes(
        f"{metric_name(name)} has no score in {where}: {reason.rstrip('.')}."
        for name, reason, where in table.skipped
    )
    return blocks
