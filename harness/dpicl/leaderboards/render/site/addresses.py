"""File names of pages, made from names that may be hostile.

A name keeps its plain characters, so that an address can be read, and gets a short hash of everything that it stands
for. So no name leaves its folder, no two rows share a page, and a row's page keeps its address when seeds are added.
"""

from __future__ import annotations

import hashlib
import json
import re

from dpicl.core.vocabulary import RECORD_CENTRAL
from dpicl.leaderboards.model.board import Board, Section
from dpicl.leaderboards.model.rows import Row

_LONGEST = 40
#: Rows that have a page each; of more, the pages would be most of a site of tens of megabytes.
MOST_PAGES = 400
#: Rows' names that have a page each, and how many share one where there are more: a page is 20 KB before its first row.
MOST_LABELS, SHARED = 400, 50


def short_hash(*parts: object) -> str:
    """The first ten hexadecimal digits of the sha256 over these parts, which JSON tells apart."""
    content = json.dumps([str(part) for part in parts])
    return hashlib.sha256(content.encode()).hexdigest()[:10]


def plain(name: str, longest: int = _LONGEST) -> str:
    """The name with only ASCII letters, digits, '_', single dots, and '-', which stands for all else."""
    return re.sub(r"[^A-Za-z0-9_.]+|\.{2,}", "-", name[: 4 * longest]).strip(".-")[:longest] or "x"


def mechanism_file(label: str) -> str:
    """'mechanisms/tang.html'; a name that had to be changed, or that a file system may confuse, has a hash."""
    name = plain(label)
    kept = name == label and name == name.lower()
    return f"mechanisms/{name}.html" if kept else f"mechanisms/{name}-{short_hash(label)}.html"


def row_id(section: Section, row: Row) -> str:
    """'tang-agnews-e1-0123456789': what names a row in addresses."""
    group = section.group
    parts = (group.suite, group.version, group.suite_hash, group.model, group.weights, group.source, group.delta)
    rounding = ("up to rounding",) if group.up_to_rounding else ()
    notion = () if group.notion == RECORD_CENTRAL.name else (group.notion,)
    key = short_hash(*parts, *rounding, *notion, row.task, row.label, row.mode, row.epsilon)
    return f"{plain(row.label)}-{plain(row.task)}-e{plain(f'{row.epsilon:g}')}-{key}"


class Addresses:
    """Where the pages of a board are.

    together: whether rows have no pages of their own and stand on those of their mechanisms, in short. labels: file ->
    the rows' names that it shows, one where there are not too many.
    """

    def __init__(self, board: Board) -> None:
        sections = (*board.sections, *board.retired)
        self._rows = {id(row): row_id(section, row) for section in sections for row in section.rows}
        self._mechanisms = {row.label for section in board.sections for row in section.rows}
        self._current = {id(row) for section in board.sections for row in section.rows}
        self.together = len(self._current) > MOST_PAGES
        self.labels = {mechanism_file(label): [label] for label in sorted(self._mechanisms)}
        if self.together and len(self._mechanisms) > MOST_LABELS:
            self.labels = _shared(board)
        self._files = {label: file for file, labels in self.labels.items() for label in labels}
        self._first: dict[str, str] = {}
        for section in board.sections:
            for row in section.rows:
                self._first.setdefault(row.label, self.of(row))

    def of(self, row: Row) -> str:
        """The row's id."""
        return self._rows[id(row)]

    def page(self, row: Row) -> str:
        """The row's page, or its place on that of its mechanism, from the site's first page."""
        if self.together and id(row) in self._current:
            return f"{self._files[row.label]}#{self.of(row)}"
        return self.own_page(row)

    def own_page(self, row: Row) -> str:
        """The page that is the row's alone."""
        return f"rows/{self.of(row)}.html"

    def mechanism(self, label: str) -> str | None:
        """The page of a mechanism, or its place on one; None where only a retired version has it."""
        if label not in self._files:
            return None
        file = self._files[label]
        return file if len(self.labels[file]) == 1 else f"{file}#{self._first[label]}"


def _shared(board: Board) -> dict[str, list[str]]:
    """File -> rows' names: those of one mechanism share pages, in the order of the alphabet; a submitted method has its
    own. The files are in the folder of rows, where a name ends with a hash over what it stands for."""
    rows = {row.label: row for section in board.sections for row in section.rows}
    by_mechanism: dict[str, list[str]] = {}
    found = {}
    for label, row in sorted(rows.items()):
        if row.submission is None:
            by_mechanism.setdefault(row.mechanism, []).append(label)
        else:
            found[mechanism_file(label)] = [label]
    for mechanism, labels in by_mechanism.items():
        for start in range(0, len(labels), SHARED):
            number = start // SHARED + 1
            name = f"rows/{plain(mechanism)}-part-{number}-{short_hash(mechanism, 'part', number)}.html"
            found[name] = labels[start : start + SHARED]
    return found
