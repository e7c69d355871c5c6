"""What the functions of the API answer with: finished cells, audits and checks, as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table

from dpicl.harness.attacks.results import AttackResult
from dpicl.harness.conformance.kit import CheckFinding
from dpicl.harness.core.printable import printable
from dpicl.harness.run.results import Result

if TYPE_CHECKING:
    import pandas as pd

Item = TypeVar("Item")
#: Sound noise has a smaller p-value less often than this.
_IMPOSSIBLE = 1e-6


@dataclass(frozen=True)
class ResultTable(Generic[Item]):
    """A sequence that is shown as a table: by rich on a terminal, as HTML in a notebook, as a data frame by request.

    notes: sentences below the table.
    """

    items: Sequence[Item]
    notes: tuple[str, ...] = ()

    def row(self, item: Item) -> dict[str, Any]:
        """The columns of one item."""
        raise NotImplementedError

    def to_frame(self) -> pd.DataFrame:
        """A pandas frame with one row an item; numbers are numbers, infinity is `inf`."""
        import pandas as pd

        return pd.DataFrame([self.row(item) for item in self.items])

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def __getitem__(self, place: int) -> Item:
        return self.items[place]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = [{name: _short(value) for name, value in self.row(item).items()} for item in self.items]
        table = Table(*(rows[0] if rows else ()), box=None, pad_edge=False, header_style="bold")
        for row in rows:
            table.add_row(*row.values())
        yield table
        yield from map(printable, self.notes)

    def __repr__(self) -> str:
        console = Console(width=160, color_system=None)
        with console.capture() as captured:
            console.print(self, markup=False, highlight=False)
        return captured.get().rstrip("\n")

    def _repr_html_(self) -> str:
        import html

        notes = "".join(f"<p>{html.escape(printable(note))}</p>" for note in self.notes)
        frame = self.to_frame().map(lambda value: printable(value) if isinstance(value, str) else value)
        return f"{frame.to_html(index=False, escape=True)}{notes}"


class Results(ResultTable[Result]):
    """Finished cells, in the order of the request; notes: what was skipped or failed, and why."""

    def row(self, item: Result) -> dict[str, Any]:
        cell, privacy, score = item.cell, item.privacy, item.scores[item.main_metric]
        return {
            "task": cell.task,
            "mechanism": cell.label,
            "model": cell.model,
            "epsilon": cell.epsilon,
            "seed": cell.seed,
            "metric": item.main_metric,
            "score": score.value,
            "low": score.low,
            "high": score.high,
            "epsilon_claimed": privacy.epsilon_claimed,
            "epsilon_proved": privacy.epsilon_proved,
            "delta": privacy.delta,
            "queries": privacy.queries,
            "source": cell.source,
            "cell": item.cell_id,
        }


class Findings(ResultTable[CheckFinding]):
    """What the checks of the conformance kit saw. ok: whether none of them failed."""

    @property
    def ok(self) -> bool:
        return all(finding.status != "failed" for finding in self.items)

    def row(self, item: CheckFinding) -> dict[str, Any]:
        return {"check": item.check, "status": item.status, "task": item.task, "seen": item.why}


class Audits(ResultTable[AttackResult]):
    """Audits, one for each target epsilon. ok: whether none of them shows that a mechanism does not do what it says."""

    @property
    def ok(self) -> bool:
        return not any(map(failure, self.items))

    def row(self, item: AttackResult) -> dict[str, Any]:
        subject, privacy, bound = item.subject, item.privacy, item.bound
        return {
            "task": subject.task,
            "mechanism": subject.mechanism,
            "access": item.access,
            "epsilon": subject.epsilon,
            "epsilon_claimed": privacy.epsilon_claimed,
            "epsilon_proved": privacy.epsilon_proved,
            "epsilon_audited": None if bound is None else bound.epsilon,
            "confidence": None if bound is None else bound.confidence,
            "delta": subject.delta,
            "failure": failure(item),
        }


def failure(result: AttackResult) -> str | None:
    """Why the audited release is not what its events say, or None."""
    bound, noise_p = result.bound, result.details.get("noise_p_value")
    if bound is not None and bound.epsilon > result.privacy.epsilon_proved:
        return f"it is refuted at {bound.confidence:.0%} confidence"
    if noise_p is not None and noise_p < _IMPOSSIBLE:
        return f"the noise that was drawn is not of the distribution that its releases declare (p = {noise_p:.1g})"
    return None


def _short(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else printable(str(value))
