"""The appendix of a suite's site: the first texts that each row released, to read before a score is believed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter

from dpicl.core.vocabulary import model_name
from dpicl.leaderboards.model.board import Board
from dpicl.leaderboards.model.rows import Row
from dpicl.tables.document import Block, Column, Heading, make_table, words

#: Texts of a row.
MOST = 20
_COLUMNS = (
    Column("seed", "seed", itemgetter(0)),
    Column("label", "label", itemgetter(1), lambda label: label or "(none)"),
    Column("text", "text", itemgetter(2), lambda text: text or "(empty)", wide=True),
)
_INTRO = (
    f"The first {MOST} texts of every row that released some, at its smallest ε, in the order of its seeds. Texts that"
    " were made without privacy, or that retell records which may not be published, are not here."
)


def texts_blocks(board: Board) -> list[Block]:
    """Released texts are untrusted, and data. Empty where no row has any to show."""
    blocks: list[Block] = []
    for section in board.sections:
        own = [block for table in section.tables for block in _of_task(table.rows)]
        blocks += [words(f"Model: {model_name(section.group.model)}."), *own] if own else []
    return [Heading("Released texts", 1), words(_INTRO), *blocks] if blocks else []


def _of_task(rows: Sequence[Row]) -> Iterator[Block]:
    ordered = sorted(rows, key=lambda row: (row.label, row.epsilon))
    for _, same in groupby(ordered, key=lambda row: row.label):
        row = next(same)
        shown = ((one.cell.seed, each.label, each.text) for one in row.results if one.texts for each in one.released)
        if found := list(islice(shown, MOST)):
            yield make_table(f"{row.title} on {row.task}", _COLUMNS, found, sortable=False, heading=True)
