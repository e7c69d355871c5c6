"""A suite in parts that need to know nothing of each other: each is run by itself, anywhere, and the results are put
together as files."""

from __future__ import annotations

from collections.abc import Sequence

from dpicl.core.cell import Cell


def shard(cells: Sequence[Cell], number: int, of: int) -> list[Cell]:
    """The ``number``-th (from 1) of so many parts of a suite's cells, in their order.

    A function of the cells alone, whatever is done of them: each is in one part, parts differ by one cell at most, and
    a part has the cells of as few models as that allows. Among those of one model chance (their ids) decides, so that
    slow mechanisms are spread over all parts.
    """
    models = {model: place for place, model in enumerate(dict.fromkeys(cell.model for cell in cells))}
    dealt = sorted(cells, key=lambda cell: (models[cell.model], cell.id))
    first, last = ((len(cells) * end) // of for end in (number - 1, number))
    mine = {cell.id for cell in dealt[first:last]}
    return [cell for cell in cells if cell.id in mine]
