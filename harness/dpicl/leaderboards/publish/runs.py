"""Converts boards to published runs: one for each row on a task, one with the table of each section, and one with the
scores of several models.

Numbers are those of the board, so a tracker never shows another number than the board does. Texts are left out unless
the user asks for them; result files hold none that was made without privacy or that retells records whose licence
forbids it. JSON has no infinity: infinite numbers are left out, and the text `epsilon_text` is always there.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

from dpicl.core.grouping import group_by
from dpicl.core.json_text import to_plain
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
from dpicl.results.schema import Result

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
#: Most texts of a row.
_TEXTS = 400


def content_hash(value: Mapping[str, Any]) -> str:
    """sha256 of a plain value, whatever the order of its keys: 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()


@dataclass(frozen=True)
class Published:
    """One run.

    stands_for: identifies it, whatever its numbers. summary: numbers by name. job_type: row, board or trend. table: a
    line a row of the board, or a text of a row, each with the same columns. curve: numbers by name, the axis among
    them, from the smallest. axis: `eps`, or `release`. tags: task, model, suite version and what is released. notes: a
    sentence.
    """

    stands_for: Mapping[str, Any]
    name: str
    group: str
    config: Mapping[str, Any]
    summary: Mapping[str, float]
    job_type: str = "row"
    table: Sequence[Mapping[str, Any]] = ()
    curve: Sequence[Mapping[str, float]] = ()
    axis: str = "eps"
    tags: Sequence[str] = ()
    notes: str = ""

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
    texts: bool = False,
) -> Plan:
    """What there is to publish: one board for each suite. texts: whether with released ones. Takes a second for some
    rows."""
    boards = [
        build_board(of_suite, None, evidence, submissions)
        for _, of_suite in sorted(group_by(results, "suite.name").items())
    ]
    sections = [section for board in boards for section in board.sections]
    runs = [run for section in sections for run in _runs(section, texts)]
    for board in boards:
        runs += _releases(board.sections)
    return Plan(tuple(runs), tuple(note for board in boards for note in board.notes))


def _runs(section: Section, texts: bool) -> Iterator[Published]:
    for table in section.tables:
        for rows in group_by(table.in_order, "label").values():
            by_epsilon = sorted(rows, key=attrgetter("epsilon"))
            yield _row_run(section, table, by_epsilon, _texts(by_epsilon) if texts else [])
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
        job_type="board",
        table=lines,
        tags=_tags(section.group),
        notes=f"The board of {name}: {len(lines)} rows, a line each.",
    )


def _row_run(
    section: Section, table: TaskTable, rows: Sequence[Row], texts: Sequence[Mapping[str, Any]]
) -> Published:
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
        config=to_plain(config),
        summary=summary,
        table=texts,
        curve=curve,
        tags=_tags(group, first.task, first.results[0].kind),
        notes=make_visible(
            f"{first.name} on {first.task}: {metric_name(table.metric)}, {table.reader}, against target ε.",
            4 * _NAME,
        ),
    )


def _texts(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The first demonstrations that result files hold of a row, seed by seed."""
    lines = [
        {
            "eps": _show_in_table(row.epsilon),
            "seed": result.cell.seed,
            "label": make_visible(text.label, _NAME),
            "text": make_visible(text.text),
        }
        for row in rows
        for result in row.results
        for text in result.released
    ]
    return lines[:_TEXTS]


def _releases(sections: Sequence[Section]) -> Iterator[Published]:
    """Scores by model, in the order of their first results, of rows that two models of a suite have."""
    same = (
        *("group.suite", "group.version", "group.suite_hash", "group.source", "group.delta"),
        "group.up_to_rounding",
    )
    for of_suite in group_by(sections, *same).values():
        releases = sorted(of_suite, key=_first_created)
        points = []
        for number, section in enumerate(releases, 1):
            scores = {
                f"{row.task}/{row.label}/eps={row.epsilon:g}": row.score for row in section.rows
            }
            points.append({"release": float(number), **scores})
        times = Counter(name for point in points for name in point)
        shared = {name for name, number in times.items() if number > 1}
        if shared <= {"release"}:
            continue
        group = releases[0].group
        suite = f"{group.suite} v{group.version}"
        config = _group_config(group)
        del config["model"], config["model_weights"]
        models = [section.group.model for section in releases]
        yield Published(
            stands_for={**config, "releases": True},
            name=make_visible(f"releases of {suite}, {group.source} records", _NAME),
            group=make_visible(suite, _NAME),
            config={**config, "models": models},
            summary={"releases": len(releases)},
            job_type="trend",
            curve=[
                {name: value for name, value in point.items() if name in shared} for point in points
            ],
            axis="release",
            tags=[make_visible(tag)[:_TAG] for tag in (suite, *models)],
            notes=make_visible(f"Scores by model: {', '.join(models)}.", 4 * _NAME),
        )


def _first_created(section: Section) -> str:
    return min(result.created for row in section.rows for result in row.results)


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
