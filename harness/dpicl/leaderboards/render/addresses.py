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

_LONGEST = 40


def make_plain(name: str) -> str:
    """The name with only ASCII letters, digits, '_', single dots, and '-', which stands for all else."""
    return (
        re.sub(r"[^A-Za-z0-9_.]+|\.{2,}", "-", name[: 4 * _LONGEST]).strip(".-")[:_LONGEST] or "x"
    )


def row_id(section: Section, row: Row) -> str:
    """'tang-agnews-e1-0123456789': what names a row in addresses."""
    group = section.group
    parts = [
        group.suite,
        group.version,
        group.suite_hash,
        group.model,
        group.weights,
        group.source,
        group.delta,
    ]
    if group.up_to_rounding:
        parts.append("up to rounding")
    parts += [row.task, row.label, "proved", row.epsilon]
    key = hashlib.sha256(json.dumps([*map(str, parts)]).encode()).hexdigest()[:10]
    return f"{make_plain(row.label)}-{make_plain(row.task)}-e{make_plain(f'{row.epsilon:g}')}-{key}"


class Addresses:
    """Where the pages of a board are, from the site's first page. start: where that site begins, as seen from
    the page with the links."""

    def __init__(self, board: Board, start: str = "") -> None:
        self._start = start
        self._rows = {
            id(row): row_id(section, row) for section in board.sections for row in section.rows
        }

    def of(self, row: Row) -> str:
        """The row's id."""
        return self._rows[id(row)]

    def page(self, row: Row) -> str:
        """The row's page."""
        return f"{self._start}rows/{self.of(row)}.html"

    def board_of_name(self, label: str) -> str:
        """The board with the rows of this very name alone, at every ε."""
        exact = urlencode({"epsilon": "", "row": f'"{label}"'})
        return f"{self._start}index.html#{exact}"
