"""File names of pages, made from names that may be hostile.

A name keeps its plain characters, so that an address can be read, and gets a short hash of everything that it stands
for. So no name leaves its folder, no two rows share a page, and a row's page keeps its address when seeds are added.
"""

from __future__ import annotations

import hashlib
import json
import re
from urllib.parse import urlencode

from dpicl.leaderboards.model.board import Board, Section
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.task_table import TaskTable

_LONGEST = 40


def make_plain(name: str) -> str:
    """The name with only ASCII letters, digits, '_', single dots, and '-', which stands for all else."""
    return (
        re.sub(r"[^A-Za-z0-9_.]+|\.{2,}", "-", name[: 4 * _LONGEST]).strip(".-")[:_LONGEST] or "x"
    )


def row_id(section: Section, row: Row) -> str:
    """'tang-agnews-e1-0123456789': what names a row in addresses."""
    key = _hash(section, row.task, row.label, "proved", row.epsilon)
    return f"{make_plain(row.label)}-{make_plain(row.task)}-e{make_plain(f'{row.epsilon:g}')}-{key}"


def _hash(section: Section, *parts: object) -> str:
    """Ten digits for these parts of a section."""
    group = section.group
    names = [group.suite, group.version, group.suite_hash, group.model, group.weights, group.source]
    rounding = ["up to rounding"] if group.up_to_rounding else []
    whole = [*names, group.delta, *rounding, *parts]
    return hashlib.sha256(json.dumps([*map(str, whole)]).encode()).hexdigest()[:10]


def claim_page(name: str) -> str:
    """The page of a planned claim, from the site's first page."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:10]
    return f"claims/{make_plain(name)}-{digest}.html"


class Addresses:
    """Where the pages of a board are, from the site's first page. start: where that site begins, as seen from
    the page with the links."""

    def __init__(self, board: Board, start: str = "") -> None:
        self._start = start
        self._rows = {
            id(row): row_id(section, row) for section in board.sections for row in section.rows
        }
        self._tasks = {
            id(table): f"{make_plain(table.task)}-{_hash(section, table.task)}"
            for section in board.sections
            for table in section.tables
        }

    def of(self, row: Row) -> str:
        """The row's id."""
        return self._rows[id(row)]

    def page(self, row: Row) -> str:
        """The row's page."""
        return f"{self._start}rows/{self.of(row)}.html"

    def task(self, table: TaskTable) -> str:
        """The page of a task; "" where it has no row."""
        name = self._tasks.get(id(table))
        return f"{self._start}tasks/{name}.html" if name else ""

    def board_of_name(self, label: str) -> str:
        """The board with the rows of this very name alone, at every ε."""
        exact = urlencode({"epsilon": "", "row": f'"{label}"'})
        return f"{self._start}index.html#{exact}"
