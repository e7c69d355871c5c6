"""The board as files: board.csv with one line a row (docs/site.md lists its columns), board.json with everything.

Texts in the CSV may come from strangers. A spreadsheet takes a cell that starts with = + - @ for a formula, so such a
text gets an apostrophe in front (OWASP, "CSV injection"); control characters are written out as on the pages.
"""

from __future__ import annotations

import csv
import io
import json
import math

from dpicl.leaderboards.model.board import Board, Section, board_json
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import TaskTable, ranks
from dpicl.leaderboards.model.text import visible
from dpicl.leaderboards.render.site.addresses import Addresses, rows_of

Value = str | float | int | None
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def board_csv(board: Board, addresses: Addresses) -> str:
    """A head, then one line a row of all sections that are not retired. Infinity is ``inf``, nothing is empty."""
    lines = [
        _line(section, table, row, addresses)
        for section in board.sections
        for table in section.tables
        for row in (*table.in_order, *table.paper)
    ]
    metrics = sorted({name for section in board.sections for row in rows_of(section) for name in row.numbers})
    extra = [f"metric {name}" for name in metrics]
    columns = [*(lines[0][0] if lines else ("row",)), *extra]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([_cell(name) for name in columns])
    for values, row in lines:
        writer.writerow([_cell(value) for value in (*values.values(), *(row.numbers.get(name) for name in metrics))])
    return out.getvalue()


def board_json_text(board: Board) -> str:
    """`dpicl.leaderboards.model.board.board_json` as text, in ASCII."""
    return json.dumps(board_json(board), allow_nan=False) + "\n"


def _line(section: Section, table: TaskTable, row: Row, addresses: Addresses) -> tuple[dict[str, Value], Row]:
    group, submission = section.group, row.submission
    low, high = row.recovery_interval or (None, None)
    rank, ranking = _place(section, row)
    return {
        "row": addresses.of(row),
        "suite": group.suite,
        "version": group.version,
        "suite_hash": group.suite_hash,
        "model": group.model,
        "weights": group.weights,
        "source": group.source,
        "task": row.task,
        "kind_of_task": table.kind,
        "metric": table.metric,
        "documents": table.documents,
        "label": row.label,
        "mechanism": row.mechanism,
        "accounting": row.mode,
        "epsilon": row.epsilon,
        "delta": group.delta,
        "score": row.score,
        "score_low": row.low,
        "score_high": row.high,
        "recovery": row.recovery,
        "recovery_low": low,
        "recovery_high": high,
        "zero_shot": row.zero_shot,
        "real_demonstrations": row.real_data,
        "rank": rank,
        "ranked_over": ranking,
        "proved": row.proved,
        "claimed": row.claimed,
        "audited": row.audit.epsilon,
        "per_query": row.epsilon_per_query,
        "queries": math.inf if row.queries is None else row.queries,
        "seeds": len(row.seeds),
        "marks": "; ".join(mark.name for mark in row.marks),
        "unranked": row.unranked,
        "refuted": row.audit.flag,
        "submitted_by": "" if submission is None else submission.name,
        "reported": row.reported,
        "unreliable": "" if submission is None else submission.unreliable,
    }, row


def _place(section: Section, row: Row) -> tuple[int | None, str]:
    """(rank, the tasks that it is over) where the row's task counts in a ranking."""
    found = ranks(section.rankings).get((row.task, row.label, row.epsilon)) if row.mode == "proved" else None
    return (None, "") if found is None else (found[0], found[1].scope)


def _cell(value: Value) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        return f"{value:.10g}" if isinstance(value, float) else str(value)
    text = visible(value)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) or value.startswith(_FORMULA) else text
