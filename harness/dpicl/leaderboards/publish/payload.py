"""From results to what is published, without a tracker.

Means, intervals, recoveries and audited ε over seeds are those of the board, so a tracker never shows another number
than the board does; a line about one seed has the numbers of this seed. What the board leaves out is not published.
JSON has no infinity: infinite numbers are left out, and the text `epsilon_text` is always there.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from dpicl.leaderboards.model.board import Board, Section
from dpicl.leaderboards.model.comparability import Group
from dpicl.leaderboards.model.rows import Row, recover, score_of
from dpicl.leaderboards.model.standings import TaskTable
from dpicl.leaderboards.model.text import epsilon_text, visible
from dpicl.leaderboards.render.as_json import board_json, submission_json
from dpicl.leaderboards.render.columns import RANKS, numbers
from dpicl.results.schema import Result, finite, to_text
from dpicl.results.store import Store

#: Numbers of a row that are epsilons; they are published as NAME_epsilon.
_EPSILONS = ("proved", "claimed", "audited", "per_query")
#: Longest name, in characters; W&B takes tags of at most 64.
_NAME, _TAG = 120, 60
#: Columns of the table `board`.
# fmt: off
COLUMNS = (
    "task", "row", "epsilon", "epsilon_text", "proved_epsilon", "claimed_epsilon", "audited_epsilon",
    "per_query_epsilon", "queries", "score", "score_low", "score_high", "recovery", "recovery_low", "recovery_high",
    "zero_shot", "real_demonstrations", "seeds", "rank", "rank_high",
    "mean_rank", "mean_rank_high", "ranked_over", "marks", "metric", "not_ranked_because",
)
# fmt: on


def content_hash(value: Mapping[str, Any]) -> str:
    """sha256 of a plain value, whatever the order of its keys: 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()


@dataclass(frozen=True)
class _Run:
    """What is published as one run. row: identifies what it stands for, whatever its numbers: 16 hexadecimal digits."""

    row: str
    name: str
    group: str
    job_type: str
    tags: tuple[str, ...]
    config: Mapping[str, Any]

    @cached_property
    def content(self) -> str:
        """sha256 over everything that is sent, 64 hexadecimal digits; charts follow from the rest."""
        return content_hash({field.name: getattr(self, field.name) for field in fields(self) if field.name != "charts"})


@dataclass(frozen=True)
class Published(_Run):
    """One row of a board on one task. rows: numbers and short texts for each epsilon, over its seeds."""

    rows: Sequence[Mapping[str, float | str]]
    summary: Mapping[str, float]


@dataclass(frozen=True)
class PublishedBoard(_Run):
    """One section of a board, as a run of its own with a table and two artifacts.

    columns, rows: the table, None where there is no number. seeds: head and lines of the table of every seed. charts:
    task and ε -> the rows side by side, as PNG. document: the board as JSON. files: path below the results folder ->
    content of the result file. alias: the suite's version, as the artifacts bear it.
    """

    alias: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[float | str | None]]
    seeds: tuple[tuple[str, ...], Sequence[Sequence[float | str | None]]]
    charts: Mapping[str, bytes]
    document: Mapping[str, Any]
    files: Mapping[str, str]


def published_rows(board: Board) -> list[Published]:
    """One `Published` for each task, label and accounting of every section, in the order of the board."""
    found = []
    for section in board.sections:
        for table in section.tables:
            by_label: dict[tuple[str, str], list[Row]] = defaultdict(list)
            for row in table.all_rows:
                by_label[row.label, row.mode].append(row)
            for rows in by_label.values():
                found.append(_published(section.group, table, sorted(rows, key=lambda row: row.epsilon)))
    return found


def _published(group: Group, table: TaskTable, rows: Sequence[Row]) -> Published:
    first = rows[0]
    cell = first.results[0].cell
    stands_for = {**_group_config(group), "task": first.task, "row": first.label, "mode": first.mode}
    results = [result for row in rows for result in row.results]
    names = {"task_version", "options", "shots", "test_records", "train_records", "noise", "plugin"}
    config = {
        **stands_for,
        "mechanism": first.mechanism,
        "metric": table.metric,
        "kind": table.kind,
        "documents": table.documents,
        "marks": list(dict.fromkeys(mark.name for row in rows for mark in row.marks)),
        **cell.model_dump(mode="json", include=names),
        "queries": first.queries,
        "seeds": sorted({seed for row in rows for seed in row.seeds}),
        **({"submission": submission_json(first)} if first.submission else {}),
        "manifest": _shared_manifest(results),
    }
    return Published(
        row=content_hash({**stands_for, "noise": cell.noise})[:16],
        name=visible(f"{first.label} {first.task}, {group_name(group)}", _NAME)
        + ("" if first.mode == "proved" else f" ({first.mode} ε)"),
        group=group_name(group),
        job_type="end of the scale" if first.is_baseline else "submission" if first.submission else "mechanism",
        tags=_tags(group, (first.task, table.kind), (f"mechanism:{first.mechanism}",)),
        config=finite(config),
        rows=[_over_seeds(row, table) for row in rows],
        summary=_summary(rows, results),
    )


def group_name(group: Group) -> str:
    """'classification v1, embedded': what the runs of one section are grouped under."""
    rounding = ", proved up to rounding" if group.up_to_rounding else ""
    return visible(f"{group.suite} v{group.version}, {group.model}{rounding}", _NAME)


def _group_config(group: Group) -> dict[str, Any]:
    names = ("suite", "suite_hash", "model", "source", "delta")
    plain = {name: getattr(group, name) for name in names}
    rounding = {"up_to_rounding": True} if group.up_to_rounding else {}
    return {**plain, "suite_version": group.version, "model_weights": group.weights, **rounding}


def _tags(group: Group, own: tuple[str, ...], more: tuple[str, ...] = ()) -> tuple[str, ...]:
    simulated = ("simulated",) if group.simulated else ()
    tags = (group.suite, f"suite-v{group.version}", f"model:{group.model}", *own, f"source:{group.source}", *simulated)
    return tuple(dict.fromkeys(visible(tag[:_TAG], _TAG)[:_TAG] for tag in (*tags, *more)))


def _shared_manifest(results: Sequence[Result]) -> dict[str, Any]:
    """What the manifests of all these results agree on, without the machine; the result files hold the rest."""
    manifests = [result.manifest.model_dump(mode="json", exclude={"machine"}) for result in results]
    return {key: value for key, value in manifests[0].items() if all(other[key] == value for other in manifests)}


def _line(result: Result, row: Row, table: TaskTable) -> dict[str, float | str]:
    """One epsilon and seed: the numbers of one result file."""
    privacy, cost, score = result.privacy, result.cost, result.scores[result.main_metric]
    numbers: dict[str, float | None] = {
        "epsilon": result.cell.epsilon,
        "seed": result.cell.seed,
        "epsilon_proved": privacy.epsilon_proved,
        "epsilon_claimed": privacy.epsilon_claimed,
        "epsilon_audited": row.audit.epsilon,
        "epsilon_per_query": privacy.epsilon_per_query,
        "delta": privacy.delta,
        "queries": privacy.queries,
        "score": score.value,
        "score_low": score.low,
        "score_high": score.high,
        **_of_seed(result, table),
        "released": result.released_count,
        **{f"metric/{name}": other.value for name, other in result.scores.items()},
        **{f"aggregate/{name}": value for name, value in result.aggregates.items()},
    }
    if privacy.knob is not None:
        numbers[f"knob/{privacy.knob.name}"] = privacy.knob.value
    numbers |= {"seconds": sum(cost.seconds.values()), "tokens_read": cost.tokens_read}
    numbers |= {f"seconds/{phase}": value for phase, value in cost.seconds.items()}
    return {**_finite(numbers), "epsilon_text": epsilon_text(result.cell.epsilon), "cell": result.cell_id}


def _over_seeds(row: Row, table: TaskTable) -> dict[str, float | str]:
    """One epsilon: means over its seeds, with the interval, the recovery and the ε of the board."""
    lines = [_line(result, row, table) for result in row.results]
    names = [name for name, value in lines[0].items() if not isinstance(value, str) and name != "seed"]
    found = {name: fmean(float(line[name]) for line in lines) for name in names if all(name in line for line in lines)}
    known = numbers(row)
    own = ("score", "score_low", "score_high", "recovery", "zero_shot", "real_demonstrations", "seeds")
    found = {name: value for name, value in found.items() if name not in own}
    found |= _finite({name: known[name] for name in own})
    found |= _finite({f"epsilon_{name}": known[name] for name in _EPSILONS})
    cells = " ".join(result.cell_id for result in row.results)
    return {**found, "epsilon_text": epsilon_text(row.epsilon), "cells": cells}


def _of_seed(result: Result, table: TaskTable) -> dict[str, float | None]:
    """The reference baselines' scores at the seed of a result, and its recovery."""
    zero_shot, real_data = (
        next((score_of(other) for other in (row.results if row else ()) if other.cell.seed == result.cell.seed), None)
        for row in (table.zero_shot, table.real_data)
    )
    recovery = None
    if zero_shot is not None and real_data is not None:
        recovery, _ = recover(
            result.scores[table.metric].value, zero_shot, real_data, table.lower_is_better(table.metric)
        )
    return {"zero_shot": zero_shot, "real_demonstrations": real_data, "recovery": recovery}


def _summary(rows: Sequence[Row], results: Sequence[Result]) -> dict[str, float]:
    """Numbers over seeds for each epsilon, as the board shows them, and the best over epsilon (of ranked rows).

    No rank: it depends on the other rows, and a published row stays as it is when others come.
    """
    counted = [row for row in rows if not row.unranked] or rows
    best = min(counted, key=lambda row: row.score if row.lower_is_better(row.metric) else -row.score)
    found: dict[str, float | None] = {
        f"{name}/eps={row.epsilon:g}": value
        for row in rows
        for name, value in _row_numbers(row).items()
        if name != "epsilon"
    }
    found |= {
        "best_score": best.score,
        "best_score_epsilon": best.epsilon,
        "best_recovery": max((row.recovery for row in counted if row.recovery is not None), default=None),
        "largest_proved_epsilon": max((row.proved for row in rows if math.isfinite(row.proved)), default=None),
        "results": len(results),
    }
    found["seconds_total"] = sum(sum(result.cost.seconds.values()) for result in results)
    found["tokens_read_total"] = sum(result.cost.tokens_read for result in results)
    return _finite(found)


def _row_numbers(row: Row) -> dict[str, float | None]:
    own = {key: value for key, value in numbers(row).items() if key not in RANKS}
    named = {f"{key}_epsilon" if key in _EPSILONS else key: value for key, value in own.items()}
    others = {name: value for name, value in row.numbers.items() if name != row.metric}
    return {**named, "ranked": float(not row.unranked), **others}


def _finite(numbers: Mapping[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in numbers.items() if value is not None and math.isfinite(value)}


def published_board(section: Section) -> PublishedBoard:
    """A section with its table, its document and its result files."""
    group = section.group
    results = [result for row in section.rows for result in row.results]
    return PublishedBoard(
        row=content_hash({**_group_config(group), "board": True})[:16],
        name=f"board of {group_name(group)}",
        group=group_name(group),
        job_type="board",
        tags=_tags(group, ("board",)),
        alias=f"suite-v{group.version}",
        config={**_group_config(group), "tasks": [table.task for table in section.tables], "remarks": [*section.notes]},
        columns=COLUMNS,
        rows=[line for table in section.tables for line in _table_lines(section, table)],
        seeds=_seeds_table(section),
        charts=_charts(section),
        document=board_json(Board((section,), ())),
        files={Store(Path(), one.cell.suite).path(one.cell).as_posix(): to_text(one) for one in results},
    )


def _seeds_table(section: Section) -> tuple[tuple[str, ...], list[list[float | str | None]]]:
    """Every result file as a line: the row, its task, and the numbers of this seed."""
    lines = [
        {"task": table.task, "row": visible(row.label, _NAME), **_line(result, row, table)}
        for table in section.tables
        for row in table.all_rows
        for result in row.results
    ]
    names = tuple(dict.fromkeys(name for line in lines for name in line))
    return names, [[line.get(name) for name in names] for line in lines]


def _charts(section: Section) -> dict[str, bytes]:
    """'agnews at eps=1' -> the rows of a task side by side, sorted, with intervals."""
    from dpicl.leaderboards.render import board_charts  # matplotlib, which `dpicl run` has no need of
    from dpicl.leaderboards.render.charts import fixed_looks

    looks = fixed_looks(row.label for row in section.rows)
    found = {}
    for table in section.tables:
        for epsilon in sorted({row.epsilon for row in table.rows if 0 < row.epsilon < math.inf}):
            if picture := board_charts.picture(table, epsilon, looks):
                found[f"{visible(table.task, _TAG)} at eps={epsilon:g}"] = picture
    return found


def _table_lines(section: Section, table: TaskTable) -> Iterator[list[float | str | None]]:
    """A line a row."""
    for row in table.all_rows:
        place = section.place(row)
        known: dict[str, float | str] = {
            **_finite({**_row_numbers(row), **{name: value(row) for name, value in RANKS.items()}}),
            **({} if place is None else {"mean_rank": place[0].low, "mean_rank_high": place[0].high}),
            "task": table.task,
            "row": visible(row.label, _NAME),
            "epsilon_text": epsilon_text(row.epsilon),
            "metric": table.metric,
            "not_ranked_because": row.unranked,
            "ranked_over": "" if place is None else place[1].scope,
            "marks": "; ".join(mark.name for mark in row.marks),
        }
        yield [known.get(name) for name in COLUMNS]


def as_plain(published: Published | PublishedBoard) -> dict[str, Any]:
    """What `--dry-run --json` shows of it: everything but the content of files."""
    plain = {**vars(published)}
    if isinstance(published, PublishedBoard):
        plain |= {"files": sorted(published.files), "document": None, "charts": sorted(published.charts)}
    found: dict[str, Any] = json.loads(json.dumps(plain))
    return found
