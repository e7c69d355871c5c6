"""Selects the cells of a suite from the parameters of a verb."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from dpicl.api.parameters import Cells, Flag, as_list, folder_of, option_changes
from dpicl.plan.selection import Selection, select, shard
from dpicl.plan.suite_files import Changes


def _shard(value: Any) -> tuple[int, int]:
    """'2/8' -> (2, 8): the second of eight parts."""
    # int() takes digits of every script
    match = re.fullmatch("([0-9]{1,6})/([0-9]{1,6})", str(value))
    number, of = map(int, match.groups()) if match else (0, 0)
    if not 1 <= number <= of:
        raise ValueError(
            f"must be I/N, the I-th of N parts from 1/N to N/N, such as 2/8, not '{str(value)[:40]}'"
        )
    return number, of


#: 'I/N', given to the verb as (I, N).
Shard = Annotated[
    str,
    Flag(
        "only the I-th of N parts of the cells, always the same ones; results of all parts make the suite",
        metavar="I/N",
        check=_shard,
    ),
]


def select_cells(suite: str | Path, cells: Cells, part: Any = None) -> Selection:
    """What the parameters select. part: (I, N), the I-th of N parts. Raises UsageError for what is not known."""
    changes = Changes(
        tasks=as_list(cells.get("task") or ()),
        mechanisms=as_list(cells.get("mechanism") or ()),
        models=as_list(cells.get("model") or ()),
        epsilons=as_list(cells.get("epsilon") or ()),
        seeds=as_list(cells.get("seed") or ()),
        source=cells.get("source"),
        test_records=cells.get("test_records"),
        options=option_changes(cells.get("options")),
    )
    selection = select(
        str(suite),
        folder_of(cells),
        as_list(cells.get("plugins") or ()),
        changes,
    )
    return selection if part is None else replace(selection, cells=shard(selection.cells, *part))
