"""The ledger: every event that a run caused, and the only source of the epsilon on the board.

A charge is made before the noise is drawn. At a finite epsilon the ledger admits only what was declared and calibrated
(the allowance), by counting events: what a mechanism charges may depend on what it read and released, and there is no
theorem here for events that are chosen adaptively. For the same reason a run inside its allowance costs the whole
allowance in the end (`settle`): that is what is proved for it, and what is published shows nothing else.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from dpicl.accounting import dp_event as dp
from dpicl.accounting.decomposition import recompose
from dpicl.accounting.events import flatten, parallel, to_json
from dpicl.core.errors import BudgetExceeded
from dpicl.core.vocabulary import Partition

#: The note of a charge that has no other.
SAMPLED = "Poisson sample"
#: That of queries which a record joins, at most as often as is charged.
JOINED = "queries that a record joins"


class Ledger:
    """Events charged so far, by partition.

    allowance: an event already proved to cost at most (epsilon, delta), or None.
    epsilon: what the allowance was calibrated to; infinity admits everything.
    Charges to the partition None touch every record; charges to a named partition touch its own records only.
    """

    def __init__(self, allowance: dp.DpEvent | None, epsilon: float) -> None:
        self._allowed = _split_by_partition(allowance)
        self._spent: dict[Partition, Counter[dp.DpEvent]] = {}
        self._notes: dict[tuple[Partition, dp.DpEvent], str] = {}
        self.epsilon = epsilon

    def charge(
        self,
        event: dp.DpEvent,
        partition: Partition = None,
        note: str = "",
    ) -> None:
        """Puts an event on the ledger. Raises BudgetExceeded, and records nothing, for what was not declared."""
        components = flatten(event)
        spent = self._spent.get(partition, Counter()) + components
        trial = {**self._spent, partition: spent}
        if not (math.isinf(self.epsilon) or self._is_inside_allowance(trial)):
            raise BudgetExceeded(
                f"{event!r} is not among the releases that were declared for epsilon = {self.epsilon:.4g}; nothing was"
                " drawn. Declare it in `events`, so that it is calibrated."
            )
        self._spent[partition] = spent
        for component in components:
            self._notes.setdefault((partition, component), note)

    def settle(self) -> None:
        """Charges what is left of the allowance, where the run stayed inside it: stopping early gives nothing back."""
        if self._is_inside_allowance(self._spent):
            self._spent = {
                group: Counter(components) for group, components in self._allowed.items()
            }

    def event(self) -> dp.DpEvent:
        """Everything charged so far, as one event."""
        shared = self._spent.get(None, Counter())
        named = {name: components for name, components in self._spent.items() if name is not None}
        if not named:
            return recompose(shared)
        return parallel(
            {name: recompose(components + shared) for name, components in named.items()}
        )

    def to_json(self) -> list[dict[str, Any]]:
        """One row for each kind of event and partition: {"partition", "event", "count", "note"}."""
        return [
            {
                "partition": partition,
                "event": to_json(component),
                "count": count,
                "note": self._notes.get((partition, component), SAMPLED),
            }
            for partition, components in self._spent.items()
            for component, count in components.items()
        ]

    def _is_inside_allowance(self, spent: dict[Partition, Counter[dp.DpEvent]]) -> bool:
        """Whether every group is inside its allowance: one that is not costs the others too, so none is counted.

        An allowance for all records covers what a record of any group meets.
        """
        if None not in self._allowed:
            nothing = Counter[dp.DpEvent]()
            return all(
                components <= self._allowed.get(group, nothing)
                for group, components in spent.items()
            )
        shared = spent.get(None, Counter())
        return all(
            components + (Counter() if group is None else shared) <= self._allowed[None]
            for group, components in spent.items()
        )


def _split_by_partition(allowance: dp.DpEvent | None) -> dict[Partition, Counter[dp.DpEvent]]:
    if allowance is None:
        return {}
    branches = (
        allowance.branches if isinstance(allowance, dp.ParallelDpEvent) else ((None, allowance),)
    )
    free = dp.NoOpDpEvent()
    by_group = {
        name: Counter({component: n for component, n in flatten(each).items() if component != free})
        for name, each in branches
    }
    return {name: components for name, components in by_group.items() if components}
