"""What the page of the board shows of a section: its plots, its legend, and what a filter can ask of a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from markupsafe import Markup

from dpicl.leaderboards.model.board import Section
from dpicl.leaderboards.model.columns import columns
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import TaskTable, first_per_query, recovery_notes
from dpicl.leaderboards.model.text import epsilon_text
from dpicl.leaderboards.render import board_charts
from dpicl.leaderboards.render.board_charts import AUC, series_styles
from dpicl.leaderboards.render.charts import key
from dpicl.leaderboards.render.site.addresses import Addresses


def section_view(section: Section, addresses: Addresses) -> dict[str, Any]:
    """What the template shows of a section. addresses: where the pages of its rows are."""
    styles = series_styles(section.tables)
    return {
        "section": section,
        "legend": [(label, addresses.mechanism(label), key(style)) for label, style in styles.items()],
        "plots": {table.task: board_charts.privacy_utility(table, styles) for table in section.tables},
        "epsilons": {table.task: board_charts.three_epsilons(table) for table in section.tables},
        "epsilon_key": board_charts.epsilon_key(),
        "audited_plot": board_charts.audited_proved(list(board_charts.row_points(section.rows)), styles),
        "auc_plots": list(_auc_plots(section.tables, styles)),
        "recovery_notes": {table.task: recovery_notes(table) for table in section.tables},
        "columns": columns,
        "explained": first_per_query(section.tables),
        "addresses": addresses,
        "facets": facets,
    }


def facets(row: Row) -> dict[str, str]:
    """What a filter can ask of a row, by the name of the filter; task, kind of task and model are the table's."""
    return {
        "epsilon": epsilon_text(row.epsilon),
        "kind": "reference baselines" if row.is_baseline else "demonstrations" if row.queries is None else "answers",
        "queries": "any" if row.queries is None else "finite",
        "origin": "ours" if row.submission is None else "submitted",
    }


def filters(sections: Sequence[Section]) -> list[dict[str, Any]]:
    """The filters over these sections: name, label and values that occur, in a sensible order."""
    tables = [table for section in sections for table in section.tables]
    rows = sorted((row for section in sections for row in section.rows), key=lambda row: row.epsilon)
    of_rows = {"epsilon": "target ε", "kind": "Kind of row", "queries": "Q, queries covered", "origin": "From"}
    found: list[tuple[str, str, Iterable[str]]] = [
        ("task", "Task", (table.task for table in tables)),
        ("taskkind", "Kind of task", (table.kind for table in tables)),
        ("model", "Model", (section.group.model for section in sections)),
        *((name, label, [facets(row)[name] for row in rows]) for name, label in of_rows.items()),
    ]
    return [{"name": name, "label": label, "values": list(dict.fromkeys(values))} for name, label, values in found]


def _auc_plots(tables: Iterable[TaskTable], styles: dict[str, int]) -> Iterator[tuple[str, str, Markup]]:
    """(task, caption, plot) for every membership attack on every task."""
    for table in tables:
        rows = table.all_rows
        found = [(row.label, one) for row in rows for one in row.audit.attacks if AUC in one.measures]
        for name in dict.fromkeys(one.attack for _, one in found):
            title = f"{table.task}: AUC of {name} against ε, with 95% intervals"
            plot = board_charts.auc([pair for pair in found if pair[1].attack == name], styles, title)
            yield table.task, f"{table.task}: {name}", plot
