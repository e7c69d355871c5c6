"""Doing what is missing of a selection, and showing how far it has come: for `dpicl run` and `dpicl.evaluate`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from dpicl import models
from dpicl.core.cell import Cell
from dpicl.core.interrupts import stopped_by_term
from dpicl.core.messages import count, message
from dpicl.engines.local import Engine
from dpicl.engines.progress import show_progress
from dpicl.engines.worker import CellProgress, Done, Job
from dpicl.plan.costs import Costs
from dpicl.plan.presence import check_sources
from dpicl.plan.selection import Selection
from dpicl.results.fingerprints import Fingerprints
from dpicl.results.schema import Result
from dpicl.results.store import Damaged


def run_missing(
    selection: Selection,
    missing: Sequence[Cell],
    known: Sequence[Result],
    engine: Engine,
    job: Job,
    progress: bool = True,
) -> list[Done]:
    """How every missing cell of a selection ended, in the order in which they did; `Costs.in_order` says who begins.
    Cells that another run has locked are waited for, at the end.

    known: results that costs are estimated from. progress: whether it is shown.
    """
    if not missing:
        return []
    require_there(missing)
    ordered = Costs(known, selection.mechanisms).in_order(missing)
    finished: list[Done] = []

    with show_progress(len(ordered)) if progress else nullcontext(lambda event: None) as show:

        def report(event: CellProgress | Done) -> None:
            show(event)
            if isinstance(event, Done):
                finished.append(event)

        with stopped_by_term():
            engine.run(ordered, job, report)
            if busy := [done.cell for done in finished if done.status == "busy"]:
                if progress:
                    message(f"Waiting for {count(len(busy), 'cell')} that another run is doing.")
                engine.run(busy, job, report, wait_for_locks=True)
    return [done for done in finished if done.status != "busy"]


def prepare(selection: Selection) -> tuple[list[Result], list[Damaged]]:
    """(the results that are there, files that were none and are set aside now).

    Raises DpiclError where nothing could be run: without the records of a cell, or a folder that takes no result.
    """
    check_sources(selection.cells)
    selection.store.prepare()
    results, damaged = selection.store.load_all()
    selection.store.set_aside(damaged)
    return results, damaged


def require_there(cells: Sequence[Cell]) -> None:
    """Raises DpiclError where a model or the records of a cell cannot be had: once, and before the first cell."""
    for name in dict.fromkeys(cell.model for cell in cells):
        models.require_there(name)
    records = Fingerprints()
    for cell in {(c.task, c.source, c.train_records, c.test_records): c for c in cells}.values():
        records.at_hand(cell)
