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
from dpicl.leaderboards.render.board_charts import AUC, attack_points, external_point, series_styles
from dpicl.leaderboards.render.charts import key
from dpicl.leaderboards.render.site.addresses import Addresses, rows_of

#: Kinds of row, as a filter names them.
DEMONSTRATIONS, ANSWERS, ENDS = "demonstrations", "answers", "reference baselines"


def section_view(section: Section, addresses: Addresses) -> dict[str, Any]:
    """What the template shows of a section. addresses: where the pages of its rows are."""
    styles = series_styles(section.tables)
    return {
        "section": section,
        "legend": [(label, addresses.mechanism(label), key(style)) for label, style in styles.items()],
        "plots": {table.task: board_charts.privacy_utility(table, styles) for table in section.tables},
        "epsilons": {table.task: three_epsilons(table) for table in section.tables},
        "epsilon_key": epsilon_key(),
        "audited_plot": audited_plot(rows_of(section), styles),
        "auc_plots": list(auc_plots(section.tables, styles)),
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
        "kind": ENDS if row.is_baseline else DEMONSTRATIONS if row.queries is None else ANSWERS,
        "queries": "any" if row.queries is None else "finite",
        "origin": "ours" if row.submission is None else "submitted",
    }


def filters(sections: Sequence[Section]) -> list[dict[str, Any]]:
    """The filters over these sections: name, label and values that occur, in a sensible order."""
    tables = [table for section in sections for table in section.tables]
    rows = sorted((row for section in sections for row in rows_of(section)), key=lambda row: row.epsilon)
    found: dict[str, Iterable[str]] = {
        "task": (table.task for table in tables),
        "taskkind": (table.kind for table in tables),
        "model": (section.group.model for section in sections),
    }
    for name in ("epsilon", "kind", "queries", "origin"):
        found[name] = [facets(row)[name] for row in rows]
    labels = {
        "task": "Task",
        "taskkind": "Kind of task",
        "model": "Model",
        "epsilon": "target ε",
        "kind": "Kind of row",
        "queries": "Q, queries covered",
        "origin": "From",
    }
    ordered = {name: list(dict.fromkeys(values)) for name, values in found.items()}
    return [{"name": name, "label": labels[name], "values": values} for name, values in ordered.items()]


def three_epsilons(table: TaskTable) -> Markup | None:
    """Claimed, proved and audited ε of the proved rows of a task."""
    title = f"{table.task}: claimed, proved and audited ε of the rows that prove a finite one above 0"
    return board_charts.three_epsilons([*table.rows, *table.paper], title)


def epsilon_key() -> list[tuple[Markup, str]]:
    """(marker, name) of the three ε."""
    return [(key(kind), name) for kind, name in board_charts.THREE]


def audited_plot(rows: Iterable[Row], styles: dict[str, int]) -> Markup | None:
    """Audited against proved ε of these rows; None without an attack that bounds ε."""
    points = []
    for row in rows:
        points += attack_points(row.label, row.audit.attacks)
        points += [external_point(row.label, one, row.proved) for one in row.audit.external]
    return board_charts.audited_proved(points, styles) if points else None


def auc_plots(tables: Iterable[TaskTable], styles: dict[str, int]) -> Iterator[tuple[str, str, Markup]]:
    """(task, caption, plot) for every membership attack on every task."""
    for table in tables:
        rows = table.all_rows
        found = [(row.label, one) for row in rows for one in row.audit.attacks if AUC in one.measures]
        for name in dict.fromkeys(one.attack for _, one in found):
            title = f"{table.task}: AUC of {name} against ε, with 95% intervals"
            plot = board_charts.auc([pair for pair in found if pair[1].attack == name], styles, title)
            yield table.task, f"{table.task}: {name}", plot
