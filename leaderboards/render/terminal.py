"""The board in a terminal: aligned tables of at most 110 columns, plain text where the output is no terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from dpicl.leaderboards.model.board import Board, Section
from dpicl.leaderboards.model.columns import TERMINAL, Column, columns
from dpicl.leaderboards.model.marks import signs
from dpicl.leaderboards.model.metrics import metric_name, scored_things
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import Ranking, TaskTable, first_per_query, recovery_notes
from dpicl.leaderboards.model.text import (
    PER_QUERY_NOTE,
    epsilon_text,
    names_text,
    recovery_text,
    score_text,
    seeds_text,
    visible,
)
from dpicl.leaderboards.render.console import (
    LABEL_WIDTH,
    LONGEST_CELL,
    grid,
    plain_console,
    print_heading,
    print_notes,
    wrapped,
)
from dpicl.leaderboards.render.terminal_attacks import row_attacks

_EPSILON_WIDTH = 16  # of the column with "(paper)" behind the number, its gap and the edges of the table
_SCORE_WIDTH = 5


def render_terminal(board: Board, color: bool | None = None, retired: bool = False) -> str:
    """The board as text. color: None means: when standard output is a terminal. retired: with retired versions."""
    console, text = plain_console(color)
    if not board.sections:
        console.print("There are no results yet; make some with: dpicl run quick", soft_wrap=True)
    for section in board.sections:
        _section(console, section)
    print_notes(console, board.notes)
    for section in board.retired if retired else ():
        console.print(Text("Retired: frozen, apart from the board above; nothing is added", style="bold yellow"))
        _section(console, section)
    return text()


def _section(console: Console, section: Section) -> None:
    group = section.group
    console.print(Text(f"{visible(group.suite)}, version {visible(group.version)}", style="bold"))
    facts = f"model {visible(group.model)}, {group.source} records, δ = {group.delta:g}"
    console.print(Text(f"{facts}, neighbours: add or remove one record"))
    for table in section.tables:
        _task(console, table, explain=table is first_per_query(section.tables))
    for ranking in section.rankings:
        _ranking(console, ranking)
    print_notes(console, section.notes)
    console.print()


def _task(console: Console, table: TaskTable, explain: bool) -> None:
    things = f"{table.documents} {scored_things(table.metric)}"
    print_heading(console, f"{table.task}: {_heading(table, table.metric)}, {things}")
    _rows(console, table.in_order, table.absent)
    if explain:
        print_notes(console, [PER_QUERY_NOTE])
    print_notes(console, recovery_notes(table))
    print_notes(console, _submission_notes(table))
    row_attacks(console, table)
    for missing in table.missing:
        print_notes(console, [f"missing: {missing.what}. Make it with:"], style="yellow")
        console.print(Text(f"    {missing.command}"), soft_wrap=True)
    _other_metrics(console, table)
    if table.paper:
        print_heading(console, f"{table.task}, noise by the authors' own accounting (not ranked)")
        _rows(console, table.paper, {})


def _rows(console: Console, rows: Sequence[Row], absent: Mapping[str, str]) -> None:
    """The main table. absent: reference baselines that have no result, with their ε."""
    shown = columns(rows, TERMINAL)
    names = ["mechanism", *(column.name for column in shown)]
    lines = [[_labelled(row), *(_cell(column, row) for column in shown)] for row in rows]
    if any(row.marks for row in rows):
        names.append("")
        lines = [[*line, signs(row.marks)] for line, row in zip(lines, rows, strict=True)]
    lines += [[name, epsilon, "missing", *["–"] * (len(names) - 3)] for name, epsilon in absent.items()]
    styles = ["bold red" if row.audit.flag else "dim" if row.is_baseline else None for row in rows]
    console.print(grid(names, lines, [*styles, *("yellow" for _ in absent)]))


def _other_metrics(console: Console, table: TaskTable) -> None:
    """Tables of the other metrics: as many side by side as the width holds, the rest below them."""
    rows = table.all_rows
    widest = max((cell_len(visible(row.label, LONGEST_CELL)) for row in rows), default=0)
    heads = {name: max(cell_len(_heading(table, name)), _SCORE_WIDTH) for name in table.other_metrics}
    for names in wrapped(heads, min(LABEL_WIDTH, widest) + _EPSILON_WIDTH):
        print_heading(console, f"{table.task}: other metrics")
        lines = [
            [row.label, epsilon_text(row.epsilon) + ("" if row.mode == "proved" else " (paper)")]
            + [score_text(row.numbers[name]) if name in row.numbers else "–" for name in names]
            for row in rows
        ]
        head = ["mechanism", "ε", *(_heading(table, name) for name in names)]
        console.print(grid(head, lines, ["dim" if row.is_baseline else None for row in rows]))
    notes = [
        f"{metric_name(name)} has no score in {where}: {reason.rstrip('.')}." for name, reason, where in table.skipped
    ]
    if any(map(table.lower_is_better, (table.metric, *table.other_metrics))):
        notes.append("↓: lower is better.")
    print_notes(console, notes)


def _heading(table: TaskTable, metric: str) -> str:
    return visible(metric_name(metric), LABEL_WIDTH) + (" ↓" if table.lower_is_better(metric) else "")


def _ranking(console: Console, ranking: Ranking) -> None:
    print_heading(console, f"{ranking.title}: {ranking.says}")
    marked = any(one.signs for one in ranking.standings)
    lines = [
        [
            f"{one.label} (submitted)" if one.submitted else one.label,
            epsilon_text(one.epsilon),
            "–" if one.rank is None else str(one.rank),
            epsilon_text(one.proved),
            recovery_text(one.recovery),
            "–" if one.score is None else score_text(one.score),
            seeds_text(one.seeds),
            *([one.signs] if marked else []),
        ]
        for one in ranking.standings
    ]
    names = ["mechanism", "ε", "rank", "proved ε", "recovery", "score", "seeds", *([""] if marked else [])]
    if ranking.tasks:
        console.print(grid(names, lines))
    print_notes(console, [f"{task} is not in the mean: {reason}." for task, reason in ranking.left_out])


def _cell(column: Column, row: Row) -> str:
    return column.text(row) + (" !" if column.key == "audited" and row.audit.flag else "")


def _labelled(row: Row) -> str:
    """The row's label, with † for a footnote and ? for a row that the maintainers do not trust."""
    if row.submission is None:
        return row.label
    marks = ("†" if row.submission.footnote else "") + ("?" if row.submission.unreliable else "")
    return f"{row.label} {marks}".rstrip()


def _submission_notes(table: TaskTable) -> list[str]:
    """Who submitted rows of this table, their footnotes, and what was reported and reproduced; each once."""
    notes: dict[str, None] = {}
    for row in table.all_rows:
        one = row.submission
        if one is None:
            continue
        paper = "" if one.paper.lower().startswith("none") else f"; {visible(one.paper, 200)}"
        notes[f"{visible(row.label)}: submitted by {visible(names_text(one.authors), 200)}{paper}."] = None
        if one.footnote:
            notes[f"† {visible(one.name)}: {visible(one.footnote)}"] = None
        if row.reported is not None:
            scores = f"the paper reports {score_text(row.reported)}; measured {score_text(row.score)}"
            notes[f"{visible(row.title)}: {scores}."] = None
        for again in row.reproduced:
            same = ", identical" if again.identical else ""
            numbers = f"{score_text(again.reported)} reported, {score_text(again.reproduced)} reproduced{same}"
            notes[f"{visible(row.title)}, seed {again.seed}: {numbers} (by {visible(again.by, 100)})."] = None
    return list(notes)
