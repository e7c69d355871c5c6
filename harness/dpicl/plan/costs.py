"""Estimates the cost of cells: from finished cells of the same kind on this machine, else from the tokens they read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from dpicl.core.cell import Cell
from dpicl.core.plugins import Registered
from dpicl.mechanism.bases import RECORD_TOKENS
from dpicl.mechanism.options import build, option_types
from dpicl.results.manifest import machine
from dpicl.results.schema import Result

#: Test records where a cell takes all of them.
_ALL_RECORDS = 1000


@dataclass(frozen=True)
class CostEstimate:
    """tokens: read by the model. seconds: None when nothing of this model has run on this machine yet."""

    tokens: int
    seconds: float | None


class Costs:
    """Estimates costs from the results that are there already. Loading is left out: it happens once a run."""

    def __init__(self, results: Iterable[Result], mechanisms: Mapping[str, Registered]) -> None:
        self._mechanisms = mechanisms
        self._tokens: dict[Hashable, int] = {}
        self._seconds: dict[Hashable, list[float]] = defaultdict(list)
        self._read: dict[str, list[tuple[float, int]]] = defaultdict(list)
        here = machine()
        for result in results:
            known = result.manifest.machine
            spent = sum(
                seconds for phase, seconds in result.cost.seconds.items() if phase != "load"
            )
            elsewhere = (known.cpu, known.cores) != (here.cpu, here.cores)
            if elsewhere or not spent or result.scored_release is not None:
                continue
            for kind in _list_kinds(result.cell):
                self._seconds[kind].append(spent)
            self._read[result.cell.model].append((spent, self.tokens(result.cell)))

    def estimates(
        self,
        cells: Sequence[Cell],
        scored: Collection[str] = (),
    ) -> dict[str, CostEstimate]:
        """Cell id -> what it will cost in one process, done in this order.

        Cells of an answer mechanism that ask the model the same (other epsilons, other noise) read its answers once.
        scored: ids of cells that only score an earlier release.
        """
        repeated = self._find_repeated(cells)
        estimates = {}
        for cell in cells:
            if cell.id in scored:
                estimates[cell.id] = self._estimate_by_tokens(cell, _evaluation_tokens(cell))
            else:
                estimates[cell.id] = self._estimate(
                    cell, 0 if cell.id in repeated else self.tokens(cell)
                )
        return estimates

    def sort_by_collection(self, cells: Sequence[Cell]) -> list[Cell]:
        """The first cell of every collection comes first, so that no two workers ask the model the same."""
        repeated = self._find_repeated(cells)
        return sorted(cells, key=lambda cell: cell.id in repeated)

    def _find_repeated(self, cells: Iterable[Cell]) -> set[str]:
        """Ids of the cells that ask the model what an earlier one asks."""
        collected = {cell.id: self._collection(cell) for cell in cells}
        first = {collection: name for name, collection in reversed(collected.items())}
        return {
            name
            for name, collection in collected.items()
            if collection is not None and first[collection] != name
        }

    def _collection(self, cell: Cell) -> Hashable:
        """What cells that share their model outputs have in common; None for demonstrations."""
        registered = self._mechanisms.get(cell.mechanism)
        shared = None if registered is None else registered.cls.collection(cell.options)
        if shared is None:
            return None
        draws = cell.private_share is not None or cell.fresh_test_records
        samples = cell.options.get("sampling_seed") is None
        return (
            *(cell.model, cell.task, cell.source, cell.test_records, cell.train_records),
            *(cell.noise, cell.private_share, cell.fresh_test_records, shared),
            cell.seed if draws or samples else None,
        )

    def _estimate(self, cell: Cell, tokens: int) -> CostEstimate:
        for kind in _list_kinds(cell):
            if kind in self._seconds:  # the median: some ran beside other work
                return CostEstimate(tokens, median(self._seconds[kind]))
        return self._estimate_by_tokens(cell, tokens)

    def _estimate_by_tokens(self, cell: Cell, tokens: int) -> CostEstimate:
        """By what the model has read on this machine so far, and how fast."""
        read = self._read.get(cell.model)
        if not read:
            return CostEstimate(tokens, None)
        seconds = sum(spent for spent, _ in read)
        return CostEstimate(tokens, tokens * seconds / sum(number for _, number in read))

    def tokens(self, cell: Cell) -> int:
        """Tokens that the release and the evaluation read, to within a factor of a few.

        The events say how many records are read, how often, and how many tokens are drawn for each reading.
        """
        kind = (cell.mechanism, repr(cell.options), cell.test_records, cell.shots)
        if kind not in self._tokens:
            self._tokens[kind] = self._tokens_of(cell)
        return self._tokens[kind]

    def _tokens_of(self, cell: Cell) -> int:
        evaluation = _evaluation_tokens(cell)
        registered = self._mechanisms.get(cell.mechanism)
        if registered is None or not set(cell.options) <= set(option_types(registered.cls)):
            return evaluation  # a result of a plugin that is not loaded, or of an older version of the mechanism
        try:
            return build(registered.cls, cell.options).tokens_estimate(
                cell.shots, cell.test_records or _ALL_RECORDS
            )
        except Exception:
            # of options that are now refused, or somebody's `events`: the cell itself says so
            return evaluation


def _list_kinds(cell: Cell) -> list[Hashable]:
    """What finished cells agree in that are taken as the cost of a new one; first the most alike."""
    kind = (cell.model, cell.task, cell.mechanism, repr(cell.options), cell.shots)
    return [(*kind, cell.test_records), kind]


def _evaluation_tokens(cell: Cell) -> int:
    """Tokens that scoring a prompt on the test records reads, without the prompt itself."""
    return (cell.test_records or _ALL_RECORDS) * RECORD_TOKENS
