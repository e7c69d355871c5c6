"""The cells that wait for a worker: who takes which, and what becomes of those whose worker dies."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Sequence

from dpicl.harness.core.cell import Cell
from dpicl.harness.run.worker import Done

#: How often a cell is tried whose worker dies.
TRIES = 3
_log = logging.getLogger(__name__)


class Attempts:
    """The cells that wait for a worker. One whose worker died is tried again after all others, alone, and on another
    node where there is one; `TRIES` times in all."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._fresh: defaultdict[tuple[str, bool], deque[Cell]] = defaultdict(deque)
        for cell in cells:
            self._fresh[cell.model, cell.secure].append(cell)
        self._again: list[Cell] = []
        #: Cell id -> the nodes on which its workers died.
        self._deaths: defaultdict[str, list[str]] = defaultdict(list)

    def __len__(self) -> int:
        """How many cells wait."""
        return sum(map(len, self._fresh.values())) + len(self._again)

    def next(
        self,
        most: int = 1,
        loaded: str | None = None,
        busy: Collection[str | None] = (),
        node: str = "",
        nodes: Collection[str] = (),
    ) -> list[Cell]:
        """Cells of one model that a worker may run together: at most ``most``, one with secure noise, none where all
        that wait should go to another node.

        loaded: the model that the worker has, whose cells it gets first. busy: the models of the other workers; of the
        rest it gets that one of which most cells wait for each of them. node: where it is; nodes: all that are there.
        """
        lengths = {key: len(cells) for key, cells in self._fresh.items() if cells}
        if not lengths:
            return self._one_again(node, nodes)
        shares = Counter(busy)
        key = max(lengths, key=lambda key: (key[0] == loaded, lengths[key] / (1 + shares[key[0]])))
        cells = self._fresh[key]
        return [cells.popleft() for _ in range(1 if key[1] else min(most, len(cells)))]

    def _one_again(self, node: str, nodes: Collection[str]) -> list[Cell]:
        for cell in self._again:
            died = self._deaths[cell.id]
            if node not in died or set(nodes) <= set(died):
                self._again.remove(cell)
                return [cell]
        return []

    def tried(self, cell: Cell) -> bool:
        """Whether a worker of the cell has died."""
        return cell.id in self._deaths

    def give_back(self, cells: Sequence[Cell]) -> None:
        """Cells that no worker has begun wait again, before all others."""
        for cell in reversed(cells):
            if cell.id in self._deaths:
                self._again.insert(0, cell)
            else:
                self._fresh[cell.model, cell.secure].appendleft(cell)

    def lost(self, cell: Cell, how: str, node: str = "") -> str | None:
        """The worker of a cell has died. Returns what to say where the cell is given up, else None."""
        self._deaths[cell.id].append(node)
        tries = len(self._deaths[cell.id])
        if tries < TRIES:
            _log.warning("The worker of %s %s; the cell is tried again (%d of %d).", cell, how, tries + 1, TRIES)
            self._again.append(cell)
            return None
        return (
            f"{cell}: its worker {how} {tries} times, most often for want of memory (or of time, in a job);"
            " finished cells are kept. Run again with fewer --workers."
        )


def lost(cell: Cell, message: str) -> Done:
    """The end of a cell that is given up."""
    return Done(cell, "failed", message=message, worker_died=True)
