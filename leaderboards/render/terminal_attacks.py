"""Attacks in a terminal: under the table of a task, and the board of all attacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from dpicl.harness.attacks.results import AttackResult, External
from dpicl.leaderboards.model.attack_board import AttackBoard, AttackTable
from dpicl.leaderboards.model.attack_text import (
    audited_text,
    confidence_of,
    estimate_text,
    measure_name,
    options_text,
    sizes_text,
    trials_text,
)
from dpicl.leaderboards.model.audits import attack_name
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import TaskTable
from dpicl.leaderboards.model.text import bound_text, confidence_text, epsilon_text, names_text, visible
from dpicl.leaderboards.render.console import LABEL_WIDTH, grid, plain_console, print_heading, print_notes, wrapped

_AUC = "auc"
_BEFORE = 46  # columns before the measures of a table of attacks


def row_attacks(console: Console, table: TaskTable) -> None:
    """Every attack on the rows of one task, on what it was made, and how to audit rows without an audit."""
    rows = table.all_rows
    lines = [line for row in rows for line in _lines(row)]
    if lines:
        print_heading(console, f"{table.task}: attacks")
        names = ["mechanism", "ε", "attack", "access", "proved ε", "audited ε", "confidence", "trials", "AUC"]
        console.print(grid(names, lines, ["dim" if row.is_baseline else None for row in rows for _ in _lines(row)]))
        attacks = [(row, one) for row in rows for one in row.audit.attacks]
        notes = _gathered((row.audit.settings[one.id], f"{attack_name(one)} of {row.label}") for row, one in attacks)
        if any(len(row.audit.attacks) > 1 for row in rows):
            notes.append("Audited ε of a row is the largest bound of ours at 95% or more; each has its own confidence.")
        print_notes(console, notes)
    if lacking := [row for row in table.rows if row.audit.command]:
        labels = names_text(dict.fromkeys(row.label for row in lacking))
        print_notes(console, [f"no audit yet at some ε: {labels}. Make the first one with:"])
        console.print(Text(f"    {lacking[0].audit.command}"), soft_wrap=True)


def _gathered(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """(on what, what) pairs as one sentence for each thing on which something was done."""
    found: dict[str, dict[str, None]] = {}
    for where, what in pairs:
        found.setdefault(where, {})[what] = None
    return [f"{names_text(what)}: {where}." for where, what in found.items()]


def _lines(row: Row) -> list[list[str]]:
    first = [row.label, epsilon_text(row.epsilon)]
    own = [
        [*first, visible(one.attack, LABEL_WIDTH), *_bound(one), estimate_text(one.measures.get(_AUC))]
        for one in row.audit.attacks
    ]
    others = []
    for one in row.audit.external:
        name = f"{visible(one.attack, LABEL_WIDTH)} (external)"
        others.append([*first, name, one.access, epsilon_text(row.proved), *_audited(one), "–"])
    return own + others


def _bound(one: AttackResult) -> list[str]:
    """Access, proved ε, audited ε, confidence and trials."""
    proved = epsilon_text(one.privacy.epsilon_proved)
    return [one.access, proved, audited_text(one), confidence_of(one), trials_text(one)]


def _audited(one: External) -> list[str]:
    """Audited ε, confidence and trials."""
    return [bound_text(one.audited), confidence_text(one.confidence), f"{one.trials:,}"]


def render_attacks(board: AttackBoard, color: bool | None = None) -> str:
    """The board of all attacks as text. color: None means: when standard output is a terminal."""
    console, text = plain_console(color)
    if not board.tables and not board.external:
        console.print("There are no attacks yet; make some with: dpicl audit voting --task agnews --epsilon 1")
    for table in board.tables:
        _attack_table(console, table)
    if board.external:
        console.print(Text("external evaluations", style="bold"))
        names = ["row", "suite", "task", "ε", "attack", "access", "audited ε", "confidence", "trials"]
        lines = [[visible(cell, LABEL_WIDTH) for cell in _external_line(one)] for one in board.external]
        console.print(grid(names, lines))
        print_notes(console, [_reference(one) for one in board.external])
    print_notes(console, board.notes)
    return text()


def _attack_table(console: Console, table: AttackTable) -> None:
    weights = table.weights[:12] or "no fingerprint"
    console.print(Text(visible(table.title), style="bold"))
    console.print(Text(f"model {visible(table.model)} ({weights}), {visible(table.source)} records"))
    names = ["mechanism", "ε", "access", "proved ε", "audited ε", "confidence", "trials"]
    lines = [[one.subject.mechanism, epsilon_text(one.subject.epsilon), *_bound(one)] for one in table.results]
    console.print(grid(names, lines))
    cells = {name: [estimate_text(one.measures.get(name)) for one in table.results] for name in table.measures}
    _more(console, table, {measure_name(name): column for name, column in cells.items()})
    counts = {
        name: [f"{one.counts[name]:,}" if name in one.counts else "–" for one in table.results] for name in table.counts
    }
    _more(console, table, counts)
    subjects = [(one, one.subject) for one in table.results]
    where = _gathered((f"{sizes_text(one)}, {options_text(it.options)}", it.mechanism) for one, it in subjects)
    print_notes(console, [*where, *table.remarks])
    console.print()


def _more(console: Console, table: AttackTable, columns: Mapping[str, Sequence[str]]) -> None:
    """Further columns, in as many tables as they need."""
    widths = {name: max(map(cell_len, [visible(name, LABEL_WIDTH), *cells])) for name, cells in columns.items()}
    for names in wrapped(widths, _BEFORE):
        lines = [
            [one.subject.mechanism, epsilon_text(one.subject.epsilon), *(columns[name][i] for name in names)]
            for i, one in enumerate(table.results)
        ]
        heads = ["mechanism", "ε", *(visible(name, LABEL_WIDTH) for name in names)]
        console.print(grid(heads, lines))


def _external_line(one: External) -> list[str]:
    return [one.label, one.suite, one.task, epsilon_text(one.epsilon), one.attack, one.access, *_audited(one)]


def _reference(one: External) -> str:
    parts = [f"{one.attack} on {one.label}: {one.authors}, {one.reference}", one.code, one.note]
    return "; ".join(part for part in parts if part)
