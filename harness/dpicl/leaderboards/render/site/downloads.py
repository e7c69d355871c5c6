"""The board as files: board.csv with one line a row (columns: docs/reading-the-board.md), board.json with everything.

Texts in the CSV are untrusted. A spreadsheet takes a cell that starts with = + - @ for a formula, so such a
text gets an apostrophe in front (OWASP, "CSV injection"); control characters are written out as on the pages.
"""

from __future__ import annotations

import csv
import io
import json

from dpicl.leaderboards.model.board import Board, Section
from dpicl.leaderboards.model.columns import COSTS, RANKS, SCORES
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import TaskTable
from dpicl.leaderboards.model.text import visible
from dpicl.leaderboards.render.as_json import board_json
from dpicl.leaderboards.render.site.addresses import Addresses

Value = str | float | int | None
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def board_csv(board: Board, addresses: Addresses) -> str:
    """A head, then one line a row of all sections that are not retired. Infinity is ``inf``, nothing is empty."""
    metrics = sorted({name for section in board.sections for row in section.rows for name in row.numbers})
    lines = [
        _line(section, table, row, addresses) | {f"metric {name}": row.numbers.get(name) for name in metrics}
        for section in board.sections
        for table in section.tables
        for row in table.all_rows
    ]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(map(_cell, lines[0] if lines else ("row",)))
    writer.writerows(map(_cell, line.values()) for line in lines)
    return out.getvalue()


def board_json_text(board: Board) -> str:
    """`board_json` as text, in ASCII."""
    return json.dumps(board_json(board), allow_nan=False) + "\n"


def _line(section: Section, table: TaskTable, row: Row, addresses: Addresses) -> dict[str, Value]:
    group, submission = section.group, row.submission
    place = section.place(row)
    return {
        "row": addresses.of(row),
        **{name: value for name, value in vars(group).items() if name not in ("delta", "asked")},
        "task": row.task,
        "kind_of_task": table.kind,
        "metric": table.metric,
        "documents": table.documents,
        "label": row.label,
        "mechanism": row.mechanism,
        "accounting": row.mode,
        "epsilon": row.epsilon,
        "delta": group.delta,
        **{name: value(row) for name, value in SCORES.items()},
        **{name: value(row) for name, value in RANKS.items()},
        "mean_rank": None if place is None else place[0].low,
        "mean_rank_high": None if place is None else place[0].high,
        "ranked_over": "" if place is None else place[1].scope,
        **{name: value(row) for name, value in COSTS.items()},
        "marks": "; ".join(mark.name for mark in row.marks),
        "unranked": row.unranked,
        "refuted": row.audit.flag,
        "audited_kind": row.audit.kind,
        "submitted_by": "" if submission is None else submission.name,
        "reported": row.reported,
        "unreliable": "" if submission is None else submission.unreliable,
        "higher_is_better": "no" if table.lower_is_better(table.metric) else "yes",
    }


def _cell(value: Value) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        return f"{value:.10g}" if isinstance(value, float) else str(value)
    text = visible(value)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) or value.startswith(_FORMULA) else text
