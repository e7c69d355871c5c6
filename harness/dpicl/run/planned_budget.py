"""What the cells of a run with secure noise will cost together, before the first of them is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from dpicl.core.cell import Cell
from dpicl.core.errors import BudgetExceeded, DpiclError
from dpicl.core.messages import count, rounded_up
from dpicl.mechanism.outputs import named_failure, skip_reason
from dpicl.run.budget import ChargeTo, NewRelease, Prospect, prospects, warn_of_uncounted
from dpicl.run.releasing import calibrated, declared, new_release
from dpicl.run.workbench import Workbench


def payer_of(cell: Cell, total_epsilon: float | None = None) -> ChargeTo:
    """The private set that a cell is charged to, besides those that have one of its records."""
    name = cell.task if cell.source == "local" else f"{cell.task}-{cell.source}"
    return ChargeTo(default=name, total_epsilon=total_epsilon)


def planned(cells: Sequence[Cell], bench: Workbench, total_epsilon: float | None) -> list[Prospect]:
    """What the cells with secure noise would make of every private set that they concern.

    Records are loaded, to know the sets that have them, and every cell is calibrated. A cell whose records cannot be
    read, or that cannot be calibrated, costs nothing: it will end with its error before it is charged. Raises as
    `prospects`.
    """
    if any(cell.secure for cell in cells):
        warn_of_uncounted()
    by_records: dict[tuple[str, str], list[Cell]] = {}
    for cell in (cell for cell in cells if cell.secure):
        by_records.setdefault((cell.task, cell.source), []).append(cell)
    found = []
    for own in by_records.values():
        try:
            records = bench.task(own[0]).train
        except DpiclError:
            continue
        releases = [release for cell in own if (release := _release_of(cell, bench)) is not None]
        found.append((records, releases, payer_of(own[0], total_epsilon)))
    return prospects(found)


def require_admitted(found: Sequence[Prospect]) -> None:
    """Raises BudgetExceeded where a set would not admit all that is planned."""
    if refused := next((each.refused for each in found if each.refused), ""):
        raise BudgetExceeded(refused)


def said(found: Prospect) -> str:
    """A sentence about one private set."""
    after, before = found.after, found.before
    more = after.releases - (before.releases if before else 0)
    spent = "is new"
    if before:
        spent = f"has spent epsilon = {rounded_up(before.sum_epsilon)} in {count(before.releases, 'release')}"
    limit = "no limit was stated (--total-epsilon)" if after.limit is None else f"the limit is {after.limit:g}"
    return (
        f"Private set '{after.private_set}' {spent}; {more} more bring the sum to epsilon ="
        f" {rounded_up(after.sum_epsilon)} (delta = {after.sum_delta:g}); {limit}. If nobody looks at one before the"
        f" settings of all are chosen, they cost epsilon = {rounded_up(after.epsilon)} together at delta ="
        f" {after.delta:g}."
    )


def as_json(found: Prospect) -> dict[str, Any]:
    """The same as JSON."""
    before = None if found.before is None else asdict(found.before)
    return {"before": before, "after": asdict(found.after), "admitted": not found.refused, "refused": found.refused}


def _release_of(cell: Cell, bench: Workbench) -> NewRelease | None:
    mechanism, task, config = bench.mechanism(cell), bench.task(cell), cell.release
    try:
        if named_failure(mechanism, lambda: skip_reason(mechanism, task.public_view())):
            return None
        _, _, sizes = declared(mechanism, task, config)
        made = named_failure(
            mechanism, lambda: calibrated(mechanism, sizes, config.epsilon, config.accounted_delta, config.mode)
        )
    except DpiclError:
        return None
    return new_release(mechanism, task, cell.model, config, made, sizes)
