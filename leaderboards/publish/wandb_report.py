"""A W&B report of some boards: a table for each task, and plots over exactly the published runs.

`build_report` makes a Report of the package wandb-workspaces, whose specification a test reads back; `saver` sends it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from dpicl.leaderboards.model.board import Board
from dpicl.leaderboards.model.columns import columns
from dpicl.leaderboards.model.metrics import metric_name
from dpicl.leaderboards.model.ranks import rank_notes
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import TaskTable, recovery_notes
from dpicl.leaderboards.model.text import visible
from dpicl.leaderboards.publish.payload import Published, group_name
from dpicl.leaderboards.publish.wandb_settings import ASK_SECONDS, Destination, SinkError, load, load_wandb, reason
from dpicl.leaderboards.render.comparison_text import markdown_table as markdown

#: Columns of a task's table, between the row's name and its marks.
_COLUMNS = ("epsilon", "proved", "audited", "queries", "score", "score_low", "recovery", "recovery_low")
_READING = (
    "Ranked rows with the same ε may be compared: the noise is the smallest whose proved ε does not exceed it. Recovery"
    " is (score - zero-shot) / (real demonstrations - zero-shot), each over the row's own seeds. Audited ε is the"
    " largest lower bound that an attack of ours gives at 95% confidence."
)


def build_report(reports: ModuleType, boards: Sequence[Board], rows: Sequence[Published], **place: str) -> Any:
    """A Report that is not saved yet. rows: the runs that its plots show. place: entity and project."""
    blocks: list[Any] = [reports.P(_READING)]
    sections = [section for board in boards for section in board.sections]
    for section in sections:
        group = section.group
        own = [row for row in rows if (row.group, row.config["suite_hash"]) == (group_name(group), group.suite_hash)]
        about = f"Records: {group.source}. δ = {group.delta:g}. Suite hash {group.suite_hash[:12]}."
        blocks += [reports.H1(group_name(group)), reports.P(about)]
        blocks += [reports.P(visible(note)) for note in section.notes]
        for table in section.tables:
            blocks += [reports.H2(visible(table.task)), reports.MarkdownBlock(markdown_table(table))]
            blocks += [reports.P(visible(note)) for note in [*rank_notes(table), *recovery_notes(table)]]
            blocks.append(_plots(reports, table, [row.id for row in own if row.config["task"] == table.task]))
    names = dict.fromkeys(group_name(section.group) for section in sections)
    title = visible("dpicl: " + "; ".join(names), 90)[:128]  # W&B takes no more
    return reports.Report(**place, title=title, blocks=blocks, width="fluid")


def _plots(reports: ModuleType, table: TaskTable, ids: Sequence[str]) -> Any:
    """Score against the proved ε and against the target, of these runs alone."""
    metric = metric_name(table.metric)
    points = {"x": reports.SummaryMetric("largest_proved_epsilon"), "y": reports.SummaryMetric("best_score")}
    panels = [
        reports.ScatterPlot(title=f"{metric} and what it cost", **points),
        reports.LinePlot(title=f"{metric} against ε", x="epsilon", y=["score"]),
    ]
    runs = reports.Runset(name=visible(table.task), filters=f"Metric('ID') in {[*ids]}")  # of the report's own project
    return reports.PanelGrid(runsets=[runs], panels=panels)


def markdown_table(table: TaskTable) -> str:
    """The rows of a task as the board has them, as a Markdown table. Names are escaped."""
    shown = columns(table.all_rows, _COLUMNS)
    lines = [
        [_label(row), *(column.text(row) for column in shown), ", ".join(mark.name for mark in row.marks)]
        for row in table.all_rows
    ]
    return markdown(["row", *(column.name for column in shown), "mark"], lines)


def _label(row: Row) -> str:
    label = "".join(f"\\{one}" if one in "\\`*[]<>|#" else one for one in visible(row.label, 300))
    return label + (" (not ranked)" if row.unranked and not row.is_baseline else "")


def saver(boards: Sequence[Board], rows: Sequence[Published], to: Destination) -> Callable[[], str]:
    """A function that saves the report, in the place of one with its title, and says where it is.

    Raises UsageError at once without the package.
    """
    wandb = load_wandb()
    reports = load("wandb_workspaces.reports.v2", "dpicl-bench[wandb-workspaces]")

    def save() -> str:
        try:
            api = wandb.Api(timeout=int(ASK_SECONDS))
            entity = to.entity or str(api.default_entity)
            report = build_report(reports, boards, rows, entity=entity, project=to.project)
            older = [one for one in api.reports(f"{entity}/{to.project}") if one.display_name == report.title]
            if older:
                report.id = older[0].id
            report.save()
        except Exception as error:
            raise SinkError(f"The runs were sent, the report was not: {reason(error)}.") from error
        return f"Report: {report.url}"

    return save
