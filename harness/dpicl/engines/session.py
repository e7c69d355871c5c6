"""Doing what is missing of a selection, and showing how far it has come: for `dpicl run` and `dpicl.evaluate`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from dpicl import models
from dpicl.core.cell import Cell
from dpicl.core.interrupts import stopped_by_term
from dpicl.core.messages import count, message
from dpicl.engines.local import Engine, work
from dpicl.engines.progress import TimeLeft, shown
from dpicl.engines.worker import CellProgress, Done, Job, Report
from dpicl.plan.costs import Costs
from dpicl.plan.selection import Selection
from dpicl.results.fingerprints import Fingerprints
from dpicl.results.schema import Result


def run_missing(
    selection: Selection,
    missing: Sequence[Cell],
    known: Sequence[Result],
    engine: Engine,
    job: Job,
    follow: Report = lambda event: None,
    progress: bool = True,
) -> list[Done]:
    """How every missing cell of a selection ended, in the order in which they did; `Costs.in_order` says who begins.

    known: results that estimates are made from. follow: called with every event. progress: whether it is shown.
    """
    if not missing:
        return []
    require_there(missing)
    costs = Costs(known, selection.mechanisms)
    ordered = costs.in_order(missing)
    seconds = {key: estimate.seconds for key, estimate in costs.estimates(ordered).items()}
    left = TimeLeft(seconds, getattr(engine, "workers", None) or 1)

    def waiting(cells: int) -> None:
        if progress:
            message(f"Waiting for {count(cells, 'cell')} that another run is doing.")

    with shown(len(ordered), left) if progress else nullcontext(lambda event: None) as show:

        def report(event: CellProgress | Done) -> None:
            show(event)
            follow(event)

        with stopped_by_term():
            return work(engine, ordered, job, report, waiting)


def require_there(cells: Sequence[Cell]) -> None:
    """Raises DpiclError where a model or the records of a cell cannot be had: once, and before the first cell."""
    for name in dict.fromkeys(cell.model for cell in cells):
        models.require_there(name)
    records = Fingerprints()
    for cell in {(c.task, c.source, c.train_records, c.test_records): c for c in cells}.values():
        records.at_hand(cell)
