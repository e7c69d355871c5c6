"""Boards, and the board of all attacks, in a terminal: the answer, rankings, then a table for each task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from dpicl.attacks.results import ATTAINED, AttackResult, External
from dpicl.core.vocabulary import NOTIONS, model_name
from dpicl.leaderboards.model.answers import COLUMNS as ANSWERS
from dpicl.leaderboards.model.attacks import (
    AttackBoard,
    AttackTable,
    audited_text,
    confidence_of,
    measure_name,
    measured_text,
    options_text,
    sizes_text,
    trials_text,
)
from dpicl.leaderboards.model.audits import attack_name
from dpicl.leaderboards.model.board import Board, Section
from dpicl.leaderboards.model.columns import TERMINAL, Column, columns
from dpicl.leaderboards.model.headroom import COLUMNS, NOTE, TITLE, headroom_lines
from dpicl.leaderboards.model.marks import signs
from dpicl.leaderboards.model.metrics import metric_name, scored_thing
from dpicl.leaderboards.model.ranks import rank_notes
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import Ranking, Standing, TaskTable, first_per_query, recovery_notes
from dpicl.leaderboards.model.text import (
    PER_QUERY_NOTE,
    SAMPLED_NOTE,
    bound_text,
    confidence_text,
    counted,
    epsilon_text,
    names_text,
    recovery_text,
    score_text,
    visible,
)
from dpicl.leaderboards.render.console import LABEL_WIDTH, grid, plain_console, print_heading, print_notes, print_tables

_KEPT = 2  # columns that begin every part of a table of rows: the mechanism and its ε
_LONGEST_ANSWER = 2_000
#: A metric in words; longer than a name, since heads fold.
_LONGEST_METRIC = 80


def render_terminal(
    board: Board, color: bool | None = None, retired: bool = False, attacks: bool = False, details: bool = True
) -> str:
    """The board as text. color: None means: where the terminal has colours. retired: with retired versions. attacks:
    with every attack on its rows. details: False leaves the tables of the tasks out."""
    console, text = plain_console(color)
    if not board.sections:
        console.print("There are no results yet; make some with: dpicl run quick", soft_wrap=True)
    for section in board.sections:
        _section(console, section, attacks, details)
    print_notes(console, board.notes)
    for section in board.retired if retired else ():
        console.print(Text("Retired: frozen, apart from the board above; nothing is added", style="bold yellow"))
        _section(console, section, attacks, details)
    return text()


def _section(console: Console, section: Section, attacks: bool, details: bool) -> None:
    group = section.group
    console.print(Text(f"{visible(group.suite)}, version {visible(group.version)}", style="bold"))
    facts = f"model {visible(model_name(group.model))}, {group.source} records, δ = {group.delta:g}"
    console.print(Text(f"{facts}, neighbours: {NOTIONS[group.notion].words}"))
    console.print()
    first = [answer.cells for answer in section.answers if answer.epsilon == section.answers[0].epsilon]
    if first:
        lead = grid(ANSWERS, [[visible(cell, _LONGEST_ANSWER) for cell in line] for line in first])
        for column in lead.columns:
            column.justify = "left"
        console.print(lead)
    if lines := headroom_lines(section.tables):
        print_heading(console, TITLE)
        print_tables(console, COLUMNS, lines, keep=2)
        print_notes(console, [NOTE])
    for ranking in section.rankings:
        _ranking(console, ranking)
    for table in section.tables if details else ():
        _task(console, table, explain=table is first_per_query(section.tables), attacks=attacks)
    if not attacks and (hidden := _hidden(section)):
        print_notes(console, [hidden])
    print_notes(console, section.notes)
    console.print()


def _hidden(section: Section) -> str:
    """How many attacks there are to be seen, and how many rows have no audit; "" where there is neither."""
    rows = list(section.rows)
    found = sum(len(row.audit.attacks) + len(row.audit.external) for row in rows)
    lacking = sum(bool(row.audit.command) for row in rows)
    said = [f"{counted(found, 'attack')} on these rows"] if found else []
    said += [f"{lacking} of {counted(len(rows), 'row')} without an audit"] if lacking else []
    return f"{' and '.join(said)}: --attacks shows them." if said else ""


def _task(console: Console, table: TaskTable, explain: bool, attacks: bool) -> None:
    things = counted(table.documents, scored_thing(table.metric))
    print_heading(console, f"{table.task}: {_heading(table, table.metric)}, {things}")
    _rows(console, table.in_order, table.absent)
    if explain:
        print_notes(console, [PER_QUERY_NOTE])
    exact = any(row.audit.kind == "exact" for row in table.rows)
    print_notes(console, [*rank_notes(table), *recovery_notes(table), *([f"Exact: {ATTAINED}."] if exact else [])])
    print_notes(console, _submission_notes(table))
    if attacks:
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
    marked = any(row.marks for row in rows)
    if marked:
        names.insert(_KEPT, "")
        for line, row in zip(lines, rows, strict=True):
            line.insert(_KEPT, signs(row.marks))
    for name, epsilon in absent.items():
        start = [name, epsilon, *([""] if marked else []), "missing"]
        lines.append([*start, *["–"] * (len(names) - len(start))])
    styles = ["bold red" if row.audit.flag else _style(row) for row in rows]
    print_tables(console, names, lines, [*styles, *("yellow" for _ in absent)], keep=_KEPT)


def _style(one: Row | Standing) -> str | None:
    """Rows that may be the best are set apart; the reference baselines stand back."""
    return "dim" if one.is_baseline else "green" if one.rank is not None and one.rank.first else None


def _other_metrics(console: Console, table: TaskTable) -> None:
    """The other metrics, and those that were not computed."""
    rows = table.all_rows
    if table.other_metrics:
        print_heading(console, f"{table.task}: other metrics")
        lines = [
            [row.name, epsilon_text(row.epsilon) + ("" if row.mode == "proved" else " (paper)")]
            + [score_text(row.numbers[name]) if name in row.numbers else "–" for name in table.other_metrics]
            for row in rows
        ]
        head = ["mechanism", "ε", *(_heading(table, name) for name in table.other_metrics)]
        print_tables(console, head, lines, ["dim" if row.is_baseline else None for row in rows], keep=2)
    notes = [
        f"{metric_name(name)} has no score in {where}: {reason.rstrip('.')}." for name, reason, where in table.skipped
    ]
    if any(map(table.lower_is_better, (table.metric, *table.other_metrics))):
        notes.append("↓: lower is better.")
    print_notes(console, notes)


def _heading(table: TaskTable, metric: str) -> str:
    return visible(metric_name(metric), _LONGEST_METRIC) + (" ↓" if table.lower_is_better(metric) else "")


def _ranking(console: Console, ranking: Ranking) -> None:
    print_heading(console, f"{ranking.title}: {ranking.says}")
    marked = any(one.signs for one in ranking.standings)
    sampled = any(one.sample_rank for one in ranking.standings)
    lines = [
        [
            f"{one.name} (submitted)" if one.submitted else one.name,
            epsilon_text(one.epsilon),
            "–" if one.rank is None else str(one.rank),
            *(["–" if one.sample_rank is None else str(one.sample_rank)] if sampled else []),
            epsilon_text(one.proved),
            recovery_text(one.recovery),
            "–" if one.score is None else score_text(one.score),
            str(len(one.seeds)),
            *([one.signs] if marked else []),
        ]
        for one in ranking.standings
    ]
    ranks = ["rank", *(["other tasks"] if sampled else [])]
    names = ["mechanism", "ε", *ranks, "proved ε", "recovery", "score", "seeds", *([""] if marked else [])]
    if ranking.tasks:
        print_tables(console, names, lines, [_style(one) for one in ranking.standings], keep=_KEPT)
    if sampled:
        print_notes(console, [SAMPLED_NOTE])
    print_notes(console, [f"{task} is not in the mean: {reason}." for task, reason in ranking.left_out])


def _cell(column: Column, row: Row) -> str:
    if column.key != "audited":
        return column.text(row)
    return f"{column.text(row)} {row.audit.kind}".rstrip() + (" !" if row.audit.flag else "")


def _labelled(row: Row) -> str:
    """The row's label, with † for a footnote and ? for a row that the maintainers do not trust."""
    if row.submission is None:
        return row.name
    marks = ("†" if row.submission.footnote else "") + ("?" if row.submission.unreliable else "")
    return f"{row.name} {marks}".rstrip()


def _submission_notes(table: TaskTable) -> list[str]:
    """Who submitted rows of this table, their footnotes, and what was reported and reproduced; each once."""
    notes: dict[str, None] = {}
    for row in table.all_rows:
        one = row.submission
        if one is None:
            continue
        paper = "" if one.paper.lower().startswith("none") else f"; {visible(one.paper, 200)}"
        notes[f"{visible(row.name)}: submitted by {visible(names_text(one.authors), 200)}{paper}."] = None
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


def row_attacks(console: Console, table: TaskTable) -> None:
    """Every attack on the rows of one task, on what it was made, and how to audit rows without an audit."""
    rows = table.all_rows
    lines = [(row, line) for row in rows for line in _attack_lines(row)]
    if lines:
        print_heading(console, f"{table.task}: attacks")
        names = ["mechanism", "ε", "attack", "access", "proved ε", "audited ε", "confidence", "trials", "AUC"]
        styles = ["dim" if row.is_baseline else None for row, _ in lines]
        print_tables(console, names, [line for _, line in lines], styles, keep=3)
        attacks = [(row, one) for row in rows for one in row.audit.attacks]
        notes = _gathered((row.audit.settings[one.id], f"{attack_name(one)} of {row.name}") for row, one in attacks)
        if any(len(row.audit.attacks) > 1 for row in rows):
            notes.append("Audited ε of a row is the largest bound of ours at 95% or more; each has its own confidence.")
        print_notes(console, notes)
    if lacking := [row for row in table.rows if row.audit.command]:
        labels = names_text(dict.fromkeys(row.name for row in lacking))
        print_notes(console, [f"no audit yet at some ε: {labels}. Make the first one with:"])
        console.print(Text(f"    {lacking[0].audit.command}"), soft_wrap=True)


def _gathered(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """(on what, what) pairs as one sentence for each thing on which something was done."""
    found: dict[str, dict[str, None]] = {}
    for where, what in pairs:
        found.setdefault(where, {})[what] = None
    return [f"{names_text(what)}: {where}." for where, what in found.items()]


def _attack_lines(row: Row) -> list[list[str]]:
    first = [row.name, epsilon_text(row.epsilon)]
    own = [
        [
            *first,
            visible(one.attack, LABEL_WIDTH),
            *_bound(one),
            measured_text(one, "auc", row.audit.powers.get(one.id)),
        ]
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
        print_tables(console, names, lines)
        print_notes(console, [_reference(one) for one in board.external])
    print_notes(console, board.notes)
    return text()


def _attack_table(console: Console, table: AttackTable) -> None:
    weights = table.weights[:12] or "no fingerprint"
    console.print(Text(visible(table.title), style="bold"))
    console.print(Text(f"model {visible(model_name(table.model))} ({weights}), {visible(table.source)} records"))
    print_notes(console, table.power)
    names = ["mechanism", "ε", "access", "proved ε", "audited ε", "confidence", "trials"]
    lines = [[one.subject.mechanism, epsilon_text(one.subject.epsilon), *_bound(one)] for one in table.results]
    print_tables(console, names, lines, keep=_KEPT)
    cells = {
        name: [measured_text(one, name, table.powers.get(one.id)) for one in table.results] for name in table.measures
    }
    _further_columns(console, table, {measure_name(name): column for name, column in cells.items()})
    counts = {
        name: [f"{one.counts[name]:,}" if name in one.counts else "–" for one in table.results] for name in table.counts
    }
    _further_columns(console, table, counts)
    subjects = [(one, one.subject) for one in table.results]
    where = _gathered((f"{sizes_text(one)}, {options_text(it.options)}", it.mechanism) for one, it in subjects)
    print_notes(console, [*where, *table.remarks])
    console.print()


def _further_columns(console: Console, table: AttackTable, columns: Mapping[str, Sequence[str]]) -> None:
    """Further columns, in as many tables as they need."""
    if columns:
        heads = ["mechanism", "ε", *(visible(name, LABEL_WIDTH) for name in columns)]
        lines = [
            [one.subject.mechanism, epsilon_text(one.subject.epsilon), *(cells[i] for cells in columns.values())]
            for i, one in enumerate(table.results)
        ]
        print_tables(console, heads, lines, keep=_KEPT)


def _external_line(one: External) -> list[str]:
    return [one.label, one.suite, one.task, epsilon_text(one.epsilon), one.attack, one.access, *_audited(one)]


def _reference(one: External) -> str:
    parts = [f"{one.attack} on {one.label}: {one.authors}, {one.reference}", one.code, one.note]
    return "; ".join(part for part in parts if part)
