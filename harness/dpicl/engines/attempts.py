"""The cells that wait for a worker: who takes which, and what becomes of those whose worker dies."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Sequence

from dpicl.core.cell import Cell
from dpicl.engines.worker import Done

#: How often a cell is tried whose worker dies.
TRIES = 3
_log = logging.getLogger(__name__)


class Attempts:
    """The cells that wait for a worker. One whose worker died is tried again after all others, alone; `TRIES` times in
    all."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._fresh: defaultdict[str, deque[Cell]] = defaultdict(deque)
        for cell in cells:
            self._fresh[cell.model].append(cell)
        self._again: deque[Cell] = deque()
        self._deaths: Counter[str] = Counter()  # by the cell's id

    def __len__(self) -> int:
        return sum(map(len, self._fresh.values())) + len(self._again)

    def next(self, loaded: str | None = None, busy: Collection[str | None] = ()) -> Cell:
        """The next cell of a worker. Raises IndexError where none waits.

        loaded: the model that the worker has, whose cells it gets first. busy: the models of the other workers; of the
        rest it gets that one of which most cells wait for each of them.
        """
        lengths = {model: len(cells) for model, cells in self._fresh.items() if cells}
        if not lengths:
            return self._again.popleft()
        shares = Counter(busy)
        best = max(lengths, key=lambda model: (model == loaded, lengths[model] / (1 + shares[model])))
        return self._fresh[best].popleft()

    def lost(self, cell: Cell, how: str) -> str | None:
        """The worker of a cell has died. Returns what to say where the cell is given up, else None."""
        self._deaths[cell.id] += 1
        tries = self._deaths[cell.id]
        if tries < TRIES:
            _log.warning("The worker of %s %s; the cell is tried again (%d of %d).", cell, how, tries + 1, TRIES)
            self._again.append(cell)
            return None
        return (
            f"{cell}: its worker {how} {tries} times, most often for want of memory; finished cells are kept. Run again"
            " with fewer --workers."
        )


def lost(cell: Cell, message: str) -> Done:
    """The end of a cell that is given up."""
    return Done(cell, "failed", message=message, worker_died=True)
