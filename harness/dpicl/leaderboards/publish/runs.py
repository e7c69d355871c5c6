"""Converts boards to published runs: one for each row on a task, and one with the table of each section.

Numbers are those of the board, so a tracker never shows another number than the board does; no text that was released
is among them. JSON has no infinity: infinite numbers are left out, and the text `epsilon_text` is always there.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

from dpicl.core.grouping import group_by
from dpicl.core.messages import epsilon_text
from dpicl.core.printable import make_visible
from dpicl.leaderboards.model.board import Section, build_board
from dpicl.leaderboards.model.comparability import Group
from dpicl.leaderboards.model.evidence import Evidence
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.submissions import Submission
from dpicl.leaderboards.model.task_table import TaskTable
from dpicl.leaderboards.model.text import metric_name
from dpicl.leaderboards.render.as_json import submission_json
from dpicl.leaderboards.render.columns import record
from dpicl.results.schema import Result, finite

#: Numbers of `record` that are settings, or that change when other rows come; a published row stays as it is.
_NOT_OF_ROW = ("epsilon", "delta", "documents", "rank", "rank_high")
#: Numbers of a row that are drawn against ε.
_DRAWN = (
    "score",
    "score_low",
    "score_high",
    "recovery",
    "recovery_low",
    "recovery_high",
    "proved",
    "audited",
)
#: Longest name, and longest tag of W&B, in characters.
_NAME, _TAG = 120, 64


def content_hash(value: Mapping[str, Any]) -> str:
    """sha256 of a plain value, whatever the order of its keys: 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()


@dataclass(frozen=True)
class Published:
    """One run. stands_for: identifies it, whatever its numbers. summary: numbers by name. table: a line a row of the
    board, each with the same columns; empty for the run of one row. curve: numbers by name, `eps` among them, at each
    finite ε from the smallest. tags: task, model, suite version and what is released. notes: a sentence."""

    stands_for: Mapping[str, Any]
    name: str
    group: str
    config: Mapping[str, Any]
    summary: Mapping[str, float]
    table: Sequence[Mapping[str, Any]] = ()
    curve: Sequence[Mapping[str, float]] = ()
    tags: Sequence[str] = ()
    notes: str = ""

    @property
    def job_type(self) -> str:
        """'row' or 'board'."""
        return "board" if self.table else "row"

    @cached_property
    def content(self) -> str:
        """sha256 over everything that is sent, 64 hexadecimal digits."""
        return content_hash(asdict(self))


@dataclass(frozen=True)
class Plan:
    """Everything that results give to publish. notes: what the boards leave out."""

    runs: tuple[Published, ...]
    notes: tuple[str, ...]


def plan(
    results: Sequence[Result],
    evidence: Evidence | None = None,
    submissions: Sequence[Submission] = (),
) -> Plan:
    """What there is to publish: one board for each suite. Takes a fraction of a second a row."""
    boards = [
        build_board(of_suite, None, evidence, submissions)
        for _, of_suite in sorted(group_by(results, "suite.name").items())
    ]
    sections = [section for board in boards for section in board.sections]
    runs = [run for section in sections for run in _runs(section)]
    return Plan(tuple(runs), tuple(note for board in boards for note in board.notes))


def _runs(section: Section) -> Iterator[Published]:
    for table in section.tables:
        for rows in group_by(table.in_order, "label").values():
            yield _row_run(section, table, sorted(rows, key=attrgetter("epsilon")))
    config = _group_config(section.group)
    name = group_name(section.group)
    lines = [_line(section, table, row) for table in section.tables for row in table.in_order]
    yield Published(
        stands_for={**config, "board": True},
        name=f"board of {name}",
        group=name,
        config={
            **config,
            "tasks": [table.task for table in section.tables],
            "remarks": [*section.notes],
        },
        summary={
            "rows": len(lines),
            "result_files": sum(len(row.results) for row in section.rows),
        },
        table=lines,
        tags=_tags(section.group),
        notes=f"The board of {name}: {len(lines)} rows, a line each.",
    )


def _row_run(section: Section, table: TaskTable, rows: Sequence[Row]) -> Published:
    """One row on one task, at all of its epsilons."""
    group, first = section.group, rows[0]
    cell = first.results[0].cell
    stands_for = {**_group_config(group), "task": first.task, "row": first.label, "mode": "proved"}
    names = {"task_version", "options", "shots", "test_records", "train_records", "noise", "plugin"}
    commits = {result.manifest.commit for row in rows for result in row.results}
    config = {
        **stands_for,
        "mechanism": first.mechanism,
        "metric": table.metric,
        "reader": table.reader,
        "documents": table.documents,
        "marks": list(dict.fromkeys(mark.name for row in rows for mark in row.marks)),
        **cell.model_dump(mode="json", include=names),
        "queries": first.queries,
        "seeds": sorted({seed for row in rows for seed in row.seeds}),
        "commits": sorted(filter(None, commits)),
    }
    if first.submission:
        config["submission"] = submission_json(first)
    summary, curve = _numbers(section, table, rows)
    return Published(
        stands_for={**stands_for, "noise": cell.noise},
        name=make_visible(f"{first.name} {first.task}, {group_name(group)}", _NAME),
        group=group_name(group),
        config=finite(config),
        summary=summary,
        curve=curve,
        tags=_tags(group, first.task, first.results[0].kind),
        notes=make_visible(
            f"{first.name} on {first.task}: {metric_name(table.metric)}, {table.reader}, against target ε.",
            4 * _NAME,
        ),
    )


def _tags(group: Group, *more: str) -> list[str]:
    """What runs are filtered by: model and suite version, and more texts."""
    tags = [group.model, f"{group.suite} v{group.version}", *more]
    return [make_visible(tag)[:_TAG] for tag in tags]


def group_name(group: Group) -> str:
    """'classification v1, embedded': what the runs of one section are grouped under."""
    rounding = ", proved up to rounding" if group.up_to_rounding else ""
    return make_visible(f"{group.suite} v{group.version}, {group.model}{rounding}", _NAME)


def _group_config(group: Group) -> dict[str, Any]:
    config = {
        "suite": group.suite,
        "suite_hash": group.suite_hash,
        "model": group.model,
        "source": group.source,
        "delta": group.delta,
        "suite_version": group.version,
        "model_weights": group.weights,
    }
    return config | ({"up_to_rounding": True} if group.up_to_rounding else {})


def _numbers(
    section: Section, table: TaskTable, rows: Sequence[Row]
) -> tuple[dict[str, float], list[dict[str, float]]]:
    """(numbers over seeds for each epsilon, as the board shows them; what is drawn at each finite ε, from the
    smallest)."""
    summary: dict[str, float] = {"results": sum(len(row.results) for row in rows)}
    curve = []
    for row in rows:
        numbers = {
            name: value
            for name, value in _values(section, table, row).items()
            if name not in _NOT_OF_ROW and type(value) in (int, float) and math.isfinite(value)
        }
        summary |= {f"{name}/eps={row.epsilon:g}": value for name, value in numbers.items()}
        if math.isfinite(row.epsilon):
            drawn = {name: numbers[name] for name in _DRAWN if name in numbers}
            curve.append({"eps": row.epsilon, **drawn})
    return summary, curve


def _values(section: Section, table: TaskTable, row: Row) -> dict[str, Any]:
    """What board.csv has of a row, and its metrics besides the main one."""
    others = {name: value for name, value in row.numbers.items() if name != row.metric}
    return record(section, table, row) | others


def _line(section: Section, table: TaskTable, row: Row) -> dict[str, Any]:
    """The values of a row; None for an infinite number."""
    values = {
        "row": row.label,
        "epsilon_text": epsilon_text(row.epsilon),
        **_values(section, table, row),
    }
    return {name: _show_in_table(value) for name, value in values.items()}


def _show_in_table(value: Any) -> Any:
    if isinstance(value, str):
        return make_visible(value, _NAME)
    return None if isinstance(value, float) and not math.isfinite(value) else value
