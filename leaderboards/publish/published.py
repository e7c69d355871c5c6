"""From results to what is published: a pure step, without a tracker.

Means, intervals, recoveries and audited epsilons over seeds are those of the board
(dpicl.leaderboards.model.board.build_board), so a tracker never shows another number than the board does; a line about
one seed has the numbers of this seed. What the board leaves out is not published. A number that is infinite has no
place in JSON and is left out; the text `epsilon_text` is always there.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from dpicl.harness.core.paths import slug
from dpicl.harness.run.results import Result, finite, to_text
from dpicl.leaderboards.model.board import Board, Evidence, Section, board_json, build_board
from dpicl.leaderboards.model.comparability import Group
from dpicl.leaderboards.model.rows import Row, recover, score_of
from dpicl.leaderboards.model.standings import Ranking, TaskTable, ranks
from dpicl.leaderboards.model.submissions import Submission
from dpicl.leaderboards.model.text import epsilon_text, visible
from dpicl.leaderboards.publish.base import Published, PublishedBoard, identity
from dpicl.leaderboards.render.as_json import submission_json

#: Longest name, in characters; W&B takes tags of at most 64.
_NAME, _TAG = 120, 60

#: Columns of the table `board`.
COLUMNS = (
    "task",
    "row",
    "epsilon",
    "epsilon_text",
    "proved_epsilon",
    "claimed_epsilon",
    "audited_epsilon",
    "per_query_epsilon",
    "queries",
    "score",
    "score_low",
    "score_high",
    "recovery",
    "recovery_low",
    "recovery_high",
    "zero_shot",
    "real_demonstrations",
    "seeds",
    "rank",
    "ranked_over",
    "marks",
    "metric",
    "not_ranked_because",
)


def boards(
    results: Sequence[Result], evidence: Evidence | None = None, submissions: Sequence[Submission] = ()
) -> list[Board]:
    """One board for each suite that the results are of, by name, with the submitted rows that belong to it."""
    by_suite: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        by_suite[result.suite.name].append(result)
    return [build_board(by_suite[name], None, evidence, submissions) for name in sorted(by_suite)]


def published_rows(board: Board) -> list[Published]:
    """One `Published` for each row and task of every section, in the order of the board."""
    return [
        _published(section.group, table, rows)
        for section in board.sections
        for table in section.tables
        for rows in _by_label(table)
    ]


def published_boards(board: Board) -> list[PublishedBoard]:
    """One `PublishedBoard` for each section."""
    return [_board(section) for section in board.sections]


def _by_label(table: TaskTable) -> list[list[Row]]:
    """The rows of a table, those of one label and accounting together, by rising epsilon."""
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in (*table.in_order, *table.paper):
        found[row.label, row.mode].append(row)
    return [sorted(rows, key=lambda row: row.epsilon) for rows in found.values()]


def _published(group: Group, table: TaskTable, rows: Sequence[Row]) -> Published:
    first = rows[0]
    cell = first.results[0].cell
    stands_for = {**_group_config(group), "task": first.task, "row": first.label, "mode": first.mode}
    kind = "end of the scale" if first.is_end else "submission" if first.submission else "mechanism"
    marks = [first.task, table.kind, f"source:{group.source}", *(["simulated"] if group.simulated else [])]
    return Published(
        row=identity({**stands_for, "noise": cell.noise}),
        name=visible(f"{first.label} {first.task}", _NAME) + ("" if first.mode == "proved" else f" ({first.mode} ε)"),
        group=group_name(group),
        job_type=kind,
        tags=_tags(group, *marks, f"mechanism:{first.mechanism}"),
        config=finite(
            {
                **stands_for,
                "mechanism": first.mechanism,
                "metric": table.metric,
                "kind": table.kind,
                "documents": table.documents,
                "marks": list(dict.fromkeys(mark.name for row in rows for mark in row.marks)),
                **_cell_config(rows),
                **({"submission": submission_json(first)} if first.submission else {}),
                "manifest": _shared_manifest([result for row in rows for result in row.results]),
            }
        ),
        rows=[_line(result, row, table) for row in rows for result in row.results],
        summary=_summary(rows),
    )


def group_name(group: Group) -> str:
    """'classification v1, embedded': what the runs of one section are grouped under."""
    return visible(f"{group.suite} v{group.version}, {group.model}", _NAME)


def _group_config(group: Group) -> dict[str, Any]:
    return {
        "suite": group.suite,
        "suite_version": group.version,
        "suite_hash": group.suite_hash,
        "model": group.model,
        "model_weights": group.weights,
        "source": group.source,
        "delta": group.delta,
    }


def _tags(group: Group, *others: str) -> tuple[str, ...]:
    tags = (group.suite, f"suite-v{group.version}", f"model:{group.model}", *others)
    return tuple(dict.fromkeys(visible(tag[:_TAG], _TAG)[:_TAG] for tag in tags))


def _cell_config(rows: Sequence[Row]) -> dict[str, Any]:
    cell = rows[0].results[0].cell
    names = ("task_version", "options", "shots", "test_records", "train_records", "noise", "plugin")
    plain = cell.model_dump(mode="json", include=set(names))
    return {**plain, "queries": rows[0].queries, "seeds": sorted({seed for row in rows for seed in row.seeds})}


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
    if result.cell.noise != "secure":  # else they are withheld, and the file's zeros mean nothing
        numbers["seconds"] = sum(cost.seconds.values())
        numbers["tokens_read"] = cost.tokens_read
        numbers |= {f"seconds/{phase}": value for phase, value in cost.seconds.items()}
    return {**_finite(numbers), "epsilon_text": epsilon_text(result.cell.epsilon), "cell": result.cell_id}


def _of_seed(result: Result, table: TaskTable) -> dict[str, float | None]:
    """The scores of both ends at the seed of a result, and its recovery there; None without both of them, and
    with secure noise."""
    if result.cell.secure:
        return {"zero_shot": None, "real_demonstrations": None, "recovery": None}
    scores = {"zero_shot": _at_seed(table.zero_shot, result), "real_demonstrations": _at_seed(table.real_data, result)}
    zero_shot, real_data = scores.values()
    if zero_shot is None or real_data is None:
        return {**scores, "recovery": None}
    recovery, _ = recover(score_of(result), zero_shot, real_data, table.lower_is_better(table.metric))
    return {**scores, "recovery": recovery}


def _at_seed(end: Row | None, result: Result) -> float | None:
    found = [other for other in (end.results if end else ()) if other.cell.seed == result.cell.seed]
    return score_of(found[0]) if found else None


def _summary(rows: Sequence[Row]) -> dict[str, float]:
    """Numbers over seeds for each epsilon, as the board shows them, and the best over epsilon (of ranked rows).

    No rank: it depends on the other rows, and a published row stays as it is when others come.
    """
    found: dict[str, float] = {}
    for row in rows:
        found |= {f"{name}/eps={row.epsilon:g}": value for name, value in _finite(_row_numbers(row)).items()}
    counted = [row for row in rows if not row.unranked] or rows
    best = min(counted, key=lambda row: row.score if row.lower_is_better(row.metric) else -row.score)
    found["best_score"] = best.score
    if math.isfinite(best.epsilon):
        found["best_score_epsilon"] = best.epsilon
    recoveries = [row.recovery for row in counted if row.recovery is not None]
    if recoveries:
        found["best_recovery"] = max(recoveries)
    proved = [row.proved for row in rows if math.isfinite(row.proved)]
    if proved:
        found["largest_proved_epsilon"] = max(proved)
    results = [result for row in rows for result in row.results]
    found["results"] = len(results)
    if all(result.cell.noise != "secure" for result in results):
        found["seconds_total"] = sum(sum(result.cost.seconds.values()) for result in results)
        found["tokens_read_total"] = sum(result.cost.tokens_read for result in results)
    return found


def _row_numbers(row: Row) -> dict[str, float | None]:
    low, high = row.recovery_interval or (None, None)
    return {
        "score": row.score,
        "score_low": row.low,
        "score_high": row.high,
        "recovery": row.recovery,
        "recovery_low": low,
        "recovery_high": high,
        "zero_shot": row.zero_shot,
        "real_demonstrations": row.real_data,
        "proved_epsilon": row.proved,
        "claimed_epsilon": row.claimed,
        "audited_epsilon": row.audit.epsilon,
        "per_query_epsilon": row.epsilon_per_query,
        "queries": row.queries,
        "seeds": len(row.seeds),
        "ranked": float(not row.unranked),
        **{name: value for name, value in row.numbers.items() if name != row.results[0].main_metric},
    }


def _finite(numbers: Mapping[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in numbers.items() if value is not None and math.isfinite(value)}


def _board(section: Section) -> PublishedBoard:
    group = section.group
    results = [result for table in section.tables for row in (*table.in_order, *table.paper) for result in row.results]
    rows = [line for table in section.tables for line in _table_lines(table, ranks(section.rankings))]
    return PublishedBoard(
        row=identity({**_group_config(group), "board": True}),
        name=f"board of {group_name(group)}",
        group=group_name(group),
        job_type="board",
        tags=_tags(group, "board", f"source:{group.source}", *(["simulated"] if group.simulated else [])),
        alias=f"suite-v{group.version}",
        config={**_group_config(group), "tasks": [table.task for table in section.tables], "remarks": [*section.notes]},
        columns=COLUMNS,
        rows=rows,
        document=board_json(Board((section,), ())),
        files={path_below_results(result): to_text(result) for result in results},
    )


def path_below_results(result: Result) -> str:
    """Where a result file is below its results folder, as dpicl.harness.run.store places it."""
    cell = result.cell
    return str(PurePosixPath(slug(cell.suite), slug(cell.model), slug(cell.label), cell.task, f"{cell.id}.json"))


def _table_lines(
    table: TaskTable, places: Mapping[tuple[str, str, float], tuple[int, Ranking]]
) -> Iterator[list[float | str | None]]:
    """A line a row. places: see `dpicl.leaderboards.model.standings.ranks`."""
    for row in (*table.in_order, *table.paper):
        place = places.get((row.task, row.label, row.epsilon)) if row.mode == "proved" else None
        numbers = {**_row_numbers(row), "epsilon": row.epsilon, "rank": None if place is None else place[0]}
        words = {
            "task": table.task,
            "row": visible(row.label, _NAME),
            "epsilon_text": epsilon_text(row.epsilon),
            "metric": table.metric,
            "not_ranked_because": row.unranked,
            "ranked_over": "" if place is None else place[1].scope,
            "marks": "; ".join(mark.name for mark in row.marks),
        }
        known: dict[str, float | str] = {**_finite(numbers), **words}
        yield [known.get(name) for name in COLUMNS]


def as_plain(published: Published | PublishedBoard) -> dict[str, Any]:
    """What `--dry-run --json` shows of it: everything but the content of files."""
    plain = {"id": published.id, **vars(published)}
    if isinstance(published, PublishedBoard):
        plain |= {"files": sorted(published.files), "document": None}
    found: dict[str, Any] = json.loads(json.dumps(plain))
    return found
