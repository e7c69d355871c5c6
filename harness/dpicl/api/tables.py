"""Return values of the API: tables of finished cells, audits and checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from dpicl.attacks.results import AttackResult
from dpicl.conformance.kit import CheckFinding
from dpicl.results.columns import COLUMNS
from dpicl.results.schema import Result
from dpicl.tables.document import Block, Column, make_table, notes
from dpicl.tables.shown import Shown

if TYPE_CHECKING:
    import pandas as pd

Item = TypeVar("Item")


@dataclass(frozen=True, repr=False)
class ResultTable(Shown, Generic[Item]):
    """A sequence that is shown as a table. notes: sentences below the table."""

    items: Sequence[Item]
    notes: Sequence[str] = ()

    #: Name -> what stands in the column of an item.
    columns: ClassVar[Mapping[str, Callable[[Any], Any]]]

    def blocks(self) -> list[Block]:
        columns = (Column(name, name, value, _short) for name, value in self.columns.items())
        return [make_table("", columns, self.items, keep=2), *notes(self.notes)]

    def to_frame(self) -> pd.DataFrame:
        """One row an item; numbers are numbers, infinity is `inf`."""
        import pandas as pd

        rows = [[value(item) for value in self.columns.values()] for item in self.items]
        return pd.DataFrame(rows, columns=[*self.columns])

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def __getitem__(self, place: int) -> Item:
        return self.items[place]


class Results(ResultTable[Result]):
    """Finished cells, in the order of the request; notes: what was skipped or failed, and why."""

    columns = {
        "mechanism" if name == "row" else name: COLUMNS[name].value
        for name in (
            *("task", "row", "model", "epsilon", "seed", "metric", "score", "low", "high"),
            *("epsilon_claimed", "epsilon_proved", "delta", "queries", "source", "cell"),
        )
    }


@dataclass(frozen=True, repr=False)
class Findings(ResultTable[CheckFinding]):
    """What the checks of the conformance kit saw. ok: whether none of them failed.

    by_mechanism: mechanism -> (tasks, its findings). seed: of the runs.
    """

    by_mechanism: Mapping[str, tuple[Sequence[str], Sequence[CheckFinding]]] = field(
        default_factory=dict
    )
    seed: int = 0

    @property
    def ok(self) -> bool:
        return all(finding.status != "failed" for finding in self.items)

    columns = {
        "check": attrgetter("check"),
        "status": attrgetter("status"),
        "task": attrgetter("task"),
        "seen": attrgetter("why"),
    }


class Audits(ResultTable[AttackResult]):
    """Audits, one for each target epsilon. ok: whether none of them shows that a mechanism does not do what it says."""

    @property
    def ok(self) -> bool:
        return not any(map(failure, self.items))

    @property
    def code(self) -> int:
        """Of the command: 1 where a claim is refuted, 2 where an audit could not be made."""
        return (
            1 if not self.ok else 2 if any(note.startswith("failed") for note in self.notes) else 0
        )

    columns = {
        "task": attrgetter("subject.task"),
        "mechanism": attrgetter("subject.mechanism"),
        "access": attrgetter("access"),
        "epsilon": attrgetter("subject.epsilon"),
        "epsilon_claimed": attrgetter("privacy.epsilon_claimed"),
        "epsilon_proved": attrgetter("privacy.epsilon_proved"),
        "epsilon_audited": attrgetter("audited"),
        "confidence": lambda item: None if item.bound is None else item.bound.confidence,
        "delta": attrgetter("subject.delta"),
        "failure": lambda item: failure(item),
    }


def failure(result: AttackResult) -> str | None:
    """Why the audited release is not what its events say, or None."""
    bound = result.bound
    if bound is not None and bound.epsilon > result.privacy.epsilon_proved:
        exact = bound.method == "exact"
        return "it is refuted" + (
            ", without sampling error" if exact else f" at {bound.confidence:.0%} confidence"
        )
    shown, proved = (result.measures.get(name) for name in ("group_epsilon", "group_bound"))
    if shown and proved and shown.value > proved.value:
        return "group privacy is refuted, without sampling error"
    return None


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
