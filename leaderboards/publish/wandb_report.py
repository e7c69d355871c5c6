"""A W&B report of some boards: what is compared, a table for each task, plots over the published runs.

`build_report` is pure: it makes a Report of the package wandb-workspaces, whose specification a test reads back.
`saver` sends it, which needs a server; a report of the same title is replaced and not added again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from dpicl.harness.core.errors import UsageError
from dpicl.leaderboards.model.board import Board, Section
from dpicl.leaderboards.model.metrics import metric_name
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import TaskTable, recovery_notes
from dpicl.leaderboards.model.text import (
    bound_text,
    epsilon_text,
    interval_text,
    queries_text,
    recovery_text,
    score_text,
    visible,
)
from dpicl.leaderboards.publish.base import Published, SinkError
from dpicl.leaderboards.publish.published import group_name
from dpicl.leaderboards.publish.wandb_server import within
from dpicl.leaderboards.publish.wandb_settings import Destination, load_wandb

_HEAD = ("row", "ε", "proved ε", "audited ε", "Q", "score", "95% interval", "recovery", "95% interval", "mark")
_READING = (
    "Ranked rows with the same ε may be compared: the noise is the smallest whose proved ε does not exceed it. Recovery"
    " is (score - zero-shot) / (real demonstrations - zero-shot), each over the row's own seeds. Audited ε is the"
    " largest lower bound that an attack of ours gives at 95% confidence."
)


def workspaces() -> ModuleType:
    """The package that makes reports. Raises UsageError where it is not installed."""
    load_wandb()
    try:
        import wandb_workspaces.reports.v2 as reports
    except ModuleNotFoundError:
        raise UsageError(
            "A report needs wandb-workspaces; run `pip install 'dpicl-bench[wandb-workspaces]'`."
        ) from None
    return reports


def title(boards: Sequence[Board]) -> str:
    """'dpicl: classification v1, embedded; ...', at most 128 characters, which is what W&B takes."""
    names = dict.fromkeys(group_name(section.group) for board in boards for section in board.sections)
    return visible("dpicl: " + "; ".join(names), 90)[:128]


def build_report(boards: Sequence[Board], rows: Sequence[Published], entity: str, project: str) -> Any:
    """A Report that is not saved yet. rows: the runs that its plots show, and no other run of the project."""
    reports = workspaces()
    blocks: list[Any] = [reports.P(_READING)]
    for board in boards:
        for section in board.sections:
            blocks += _section_blocks(reports, section, rows)
    return reports.Report(
        project=project,
        entity=entity,
        title=title(boards),
        description="Differentially private in-context learning, compared at the same proved ε.",
        blocks=blocks,
        width="fluid",
    )


def _section_blocks(reports: ModuleType, section: Section, rows: Sequence[Published]) -> list[Any]:
    group = section.group
    blocks = [
        reports.H1(group_name(group)),
        reports.P(f"Records: {group.source}. δ = {group.delta:g}. Suite hash {group.suite_hash[:12]}."),
    ]
    blocks += [reports.P(visible(note)) for note in section.notes]
    for table in section.tables:
        own = [row for row in rows if row.group == group_name(group) and row.config["task"] == table.task]
        own = [row for row in own if row.config["suite_hash"] == group.suite_hash]
        blocks += [reports.H2(visible(table.task)), reports.MarkdownBlock(markdown_table(table))]
        blocks += [reports.P(visible(note)) for note in recovery_notes(table)]
        if own:
            blocks.append(_plots(reports, table, own))
    return blocks


def _plots(reports: ModuleType, table: TaskTable, rows: Sequence[Published]) -> Any:
    """Score against the proved ε and against the target, and the scores at each target as bars.

    The set of runs names no project, which stands for the report's own.
    """
    epsilons = sorted({row.epsilon for row in table.rows})
    metric = metric_name(table.metric)
    bars = [
        reports.BarPlot(
            title=f"{metric} at ε = {epsilon_text(epsilon)}", metrics=[reports.SummaryMetric(f"score/eps={epsilon:g}")]
        )
        for epsilon in epsilons
    ]
    points = [
        reports.ScatterPlot(
            title=f"{metric} and what it cost",
            x=reports.SummaryMetric("largest_proved_epsilon"),
            y=reports.SummaryMetric("best_score"),
        ),
        reports.LinePlot(title=f"{metric} against ε", x="epsilon", y=["score"]),
    ]
    ids = ", ".join(f"'{row.id}'" for row in rows)
    runs = reports.Runset(name=visible(table.task), filters=f"Metric('ID') in [{ids}]")
    return reports.PanelGrid(runsets=[runs], panels=[*points, *bars])


def markdown_table(table: TaskTable) -> str:
    """The rows of a task as the board has them, as a Markdown table. Names are escaped."""
    lines = ["| " + " | ".join(_HEAD) + " |", "|" + " --- |" * len(_HEAD)]
    for row in (*table.in_order, *table.paper):
        lines.append("| " + " | ".join(_cells(row)) + " |")
    return "\n".join(lines)


def _cells(row: Row) -> list[str]:
    return [
        _plain(row.label) + (" (not ranked)" if row.unranked and not row.is_end else ""),
        epsilon_text(row.epsilon),
        epsilon_text(row.proved),
        bound_text(row.audit.epsilon),
        queries_text(row.queries),
        score_text(row.score),
        f"{score_text(row.low)} to {score_text(row.high)}",
        recovery_text(row.recovery),
        interval_text(row.recovery_interval),
        ", ".join(mark.name for mark in row.marks),
    ]


def _plain(text: str) -> str:
    """A name or sentence that cannot be read as Markdown or HTML."""
    shown = visible(text, 300)
    return "".join(f"\\{character}" if character in "\\`*[]<>|#" else character for character in shown)


def saver(boards: Sequence[Board], rows: Sequence[Published], to: Destination) -> Callable[[], str]:
    """A function that saves the report and says where it is. Raises UsageError at once without the package."""
    workspaces()

    def save() -> str:
        def work() -> str:
            api = load_wandb().Api(timeout=max(1, int(to.ask_seconds / 2)))
            entity = to.entity or str(api.default_entity)
            report = build_report(boards, rows, entity, to.project)
            older = [one for one in api.reports(f"{entity}/{to.project}") if one.display_name == report.title]
            if older:
                report.id = older[0].id
            report.save()
            return str(report.url)

        try:
            return f"Report: {within(to.ask_seconds, 'W&B did not take the report', work)}"
        except SinkError as error:
            raise SinkError(f"The runs were sent, the report was not. {error}") from error

    return save
