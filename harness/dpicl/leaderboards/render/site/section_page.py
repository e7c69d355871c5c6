"""What a section of the board shows: the answer and its picture, rankings, tables, plots, a summary of attacks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from dpicl.leaderboards.model.answers import COLUMNS as ANSWER_COLUMNS
from dpicl.leaderboards.model.board import Board, Section
from dpicl.leaderboards.model.columns import columns
from dpicl.leaderboards.model.headroom import COLUMNS, NOTE, TITLE, headroom_lines
from dpicl.leaderboards.model.ranks import rank_notes
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import TaskTable, first_per_query, recovery_notes
from dpicl.leaderboards.model.text import epsilon_text
from dpicl.leaderboards.render import board_charts, dot_charts
from dpicl.leaderboards.render.board_charts import AUC
from dpicl.leaderboards.render.charts import key
from dpicl.leaderboards.render.site.addresses import Addresses
from dpicl.leaderboards.render.site.attack_summary import attack_summary


def legend(board: Board) -> dict[str, str]:
    """Name -> what it is, of every column that a table of the board has, and of the marks."""
    rows = [row for section in board.sections for row in section.rows]
    marks = {mark.sign: f"{mark.name}: {mark.why}" for row in rows for mark in row.marks}
    return {column.full or column.name: column.hint for column in columns(rows)} | marks


def section_view(section: Section, addresses: Addresses, looks: Mapping[str, int]) -> dict[str, Any]:
    """What the template shows of a section. addresses: where the pages of its rows are. looks: see `fixed_looks`."""
    here = {row.label: looks[row.label] for row in section.rows if 0 < row.epsilon < math.inf}
    rows = list(section.rows)
    return {
        "section": section,
        "answer_columns": ANSWER_COLUMNS,
        "pictures": {level: list(_pictures(section, level, looks)) for level in _levels(section)},
        "markers": {label: Markup() if addresses.together else key(style) for label, style in looks.items()},
        "legend": [(label, addresses.mechanism(label), key(style)) for label, style in sorted(here.items())],
        "plots": {table.task: list(task_plots(table, looks)) for table in section.tables},
        "epsilons": {table.task: board_charts.three_epsilons(table) for table in section.tables},
        "epsilon_key": board_charts.epsilon_key(),
        "attacked": attack_summary(rows),
        "audited_plot": board_charts.audited_proved(list(board_charts.row_points(rows)), looks),
        "auc_plots": list(_auc_plots(section.tables, looks)),
        "notes": {table.task: [*rank_notes(table), *recovery_notes(table)] for table in section.tables},
        "headroom": (TITLE, COLUMNS, headroom_lines(section.tables), NOTE),
        "columns": columns,
        "explained": first_per_query(section.tables),
        "addresses": addresses,
        "facets": facets,
        "mechanisms": {row.label: row.mechanism for row in rows},
        "kinds": {row.label: facets(row)["kind"] for row in rows},
    }


#: (task or "", its ε or "", caption, plot): what filters ask of a figure.
Picture = tuple[str, str, str, Markup]


def _levels(section: Section) -> list[float]:
    """The ε of its answers, in their order."""
    return list(dict.fromkeys(answer.epsilon for answer in section.answers))


def _pictures(section: Section, epsilon: float, looks: Mapping[str, int]) -> Iterator[Picture]:
    """The picture of an answer: over several tasks where there is such a ranking, else one for each task."""
    several = [ranking for ranking in section.rankings if len(ranking.tasks) > 1]
    for ranking in several:
        if plot := dot_charts.over_tasks(ranking, section.tables, epsilon, looks):
            yield "", epsilon_text(epsilon), f"{ranking.title} at ε = {epsilon_text(epsilon)}: mean recovery", plot
    for table in section.tables if not several else ():
        if plot := dot_charts.of_task(table, [epsilon], looks):
            yield table.task, epsilon_text(epsilon), f"{table.task} at ε = {epsilon_text(epsilon)}", plot


def task_plots(table: TaskTable, looks: Mapping[str, int]) -> Iterator[Picture]:
    """Scores at the ε of a table: dots where there are two or one, lines against ε where there are more."""
    found = sorted({row.epsilon for row in table.rows if row.epsilon > 0})
    if len(found) > 2:
        yield table.task, "", f"{table.task}: score against ε", board_charts.privacy_utility(table, looks)
    elif found and (plot := dot_charts.of_task(table, found, looks)):
        where = " and ".join(map(epsilon_text, found))
        yield table.task, "" if len(found) > 1 else where, f"{table.task} at ε = {where}", plot


def facets(row: Row) -> dict[str, str]:
    """What a filter can ask of a row, by the name of the filter; task, kind of task and model are the table's."""
    return {
        "epsilon": epsilon_text(row.epsilon),
        "kind": "reference baselines" if row.is_baseline else row.results[0].kind,
        "queries": "any" if row.queries is None else "finite",
        "origin": "ours" if row.submission is None else "submitted",
    }


def filters(sections: Sequence[Section]) -> list[dict[str, Any]]:
    """The filters over these sections: name, label and values that occur, in a sensible order; those with a choice.

    The reference baselines always stay, so their own values are none to choose.
    """
    tables = [table for section in sections for table in section.tables]
    every = [row for section in sections for row in section.rows]
    rows = sorted((row for row in every if not row.is_baseline), key=lambda row: row.epsilon)
    of_rows = {"epsilon": "Privacy level ε", "kind": "What it releases", "queries": "Queries", "origin": "From"}
    found: list[tuple[str, str, Iterable[str]]] = [
        ("task", "Task", (table.task for table in tables)),
        ("taskkind", "Kind of task", (table.kind for table in tables)),
        ("model", "Model", (section.group.model for section in sections)),
        *((name, label, [facets(row)[name] for row in rows]) for name, label in of_rows.items()),
    ]
    chosen = [(name, label, list(dict.fromkeys(values))) for name, label, values in found]
    return [{"name": name, "label": label, "values": values} for name, label, values in chosen if len(values) > 1]


def _auc_plots(tables: Iterable[TaskTable], styles: Mapping[str, int]) -> Iterator[tuple[str, str, Markup]]:
    """(task, caption, plot) for every membership attack on every task."""
    for table in tables:
        rows = table.all_rows
        found = [(row.label, one) for row in rows for one in row.audit.attacks if AUC in one.measures]
        for name in dict.fromkeys(one.attack for _, one in found):
            title = f"{table.task}: AUC of {name} against ε, with 95% intervals"
            plot = board_charts.auc([pair for pair in found if pair[1].attack == name], styles, title)
            yield table.task, f"{table.task}: {name}", plot
