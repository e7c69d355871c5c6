"""The matrix of a suite: every mechanism on every task, what ran of it, and why the rest cannot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpicl.core.cell import Cell
from dpicl.core.messages import epsilon_text
from dpicl.leaderboards.model.text import gather
from dpicl.plan.presence import explain_skip
from dpicl.plan.selection import Selection
from dpicl.results.schema import Result
from dpicl.tables.document import Block, notes, text_table

#: Stands where a mechanism cannot do a task, and where it could and the suite does not ask for it.
CANNOT, NOT_ASKED = "–", "."


@dataclass(frozen=True)
class Entry:
    """A mechanism on a task. done, planned: seeds by epsilon. reason: why it cannot; "" where it can."""

    mechanism: str
    task: str
    done: Mapping[float, int]
    planned: Mapping[float, int]
    reason: str = ""

    @property
    def text(self) -> str:
        """'10' or '10+10' seeds done, by epsilon; '3 of 10' where some are missing."""
        if self.reason:
            return CANNOT
        parts = []
        for epsilon, planned in sorted(self.planned.items()):
            done = self.done.get(epsilon, 0)
            parts.append(f"{done} of {planned}" if done < planned else str(done))
        return " + ".join(parts) or NOT_ASKED

    def to_json(self) -> dict[str, Any]:
        """The entry with its epsilons as texts."""
        return {
            "mechanism": self.mechanism,
            "task": self.task,
            "done": {epsilon_text(epsilon): seeds for epsilon, seeds in self.done.items()},
            "asked": {epsilon_text(epsilon): seeds for epsilon, seeds in self.planned.items()},
            "reason": self.reason,
        }


def list_entries(selection: Selection, results: Iterable[Result]) -> list[Entry]:
    """Every mechanism that a suite names on each of its tasks: the seeds of the model and row that have most."""
    planned = _count_seeds(selection.cells)
    done = _count_seeds(result.cell for result in results)
    entries = []
    for name in dict.fromkeys(entry.name for entry in selection.suite.mechanisms):
        for task in selection.suite.tasks:
            reason = explain_skip(selection.mechanisms[name], {}, task)
            entries.append(Entry(name, task, done[name, task], planned[name, task], reason))
    return entries


def _count_seeds(cells: Iterable[Cell]) -> dict[tuple[str, str], dict[float, int]]:
    """(mechanism, task) -> epsilon -> seeds of the row with most of them; development seeds do not count."""
    seeds: dict[tuple[str, str, float, str, str], set[int]] = defaultdict(set)
    for cell in cells:
        if not cell.development:
            seeds[cell.mechanism, cell.task, cell.epsilon, cell.label, cell.model].add(cell.seed)
    most: dict[tuple[str, str], dict[float, int]] = defaultdict(dict)
    for (mechanism, task, epsilon, *_), of_row in seeds.items():
        of_pair = most[mechanism, task]
        of_pair[epsilon] = max(of_pair.get(epsilon, 0), len(of_row))
    return most


def matrix_blocks(entries: Sequence[Entry]) -> list[Block]:
    """A line a mechanism and a column a task, then the reasons."""
    tasks = list(dict.fromkeys(entry.task for entry in entries))
    lines: dict[str, list[str]] = defaultdict(list)
    for entry in entries:
        lines[entry.mechanism].append(entry.text)
    rows = [[mechanism, *texts] for mechanism, texts in lines.items()]
    table = text_table(["mechanism", *tasks], rows, "Seeds done, by epsilon from small to large")
    reasons = [
        (f"{CANNOT} {entry.mechanism}: {entry.reason}", entry.task)
        for entry in entries
        if entry.reason
    ]
    meaning = f"{NOT_ASKED} it could, and the suite does not ask for it."
    return [table, *notes([meaning, *gather(reasons)])]
