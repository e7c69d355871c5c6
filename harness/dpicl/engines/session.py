"""Runs the missing cells of a selection and shows progress, for `dpicl run` and `dpicl.evaluate`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from dpicl import models
from dpicl.core.cell import Cell
from dpicl.core.errors import UsageError
from dpicl.core.interrupts import stop_on_term
from dpicl.core.messages import count, message
from dpicl.engines.local import Engine
from dpicl.engines.progress import show_progress
from dpicl.engines.worker import CellProgress, Done, Job
from dpicl.plan.costs import Costs
from dpicl.plan.presence import (
    Presence,
    check_sources,
    describe_stale,
    find_presence,
    find_releases,
)
from dpicl.plan.selection import Selection
from dpicl.results.fingerprints import Fingerprints
from dpicl.results.schema import Result
from dpicl.results.store import Damaged, report_damaged


def run_missing(
    selection: Selection,
    engine: Engine,
    advice: str,
    rerun_stale: bool = False,
    progress: bool = True,
    scores_only: bool = False,
) -> tuple[list[Cell], list[Done]]:
    """(the cells of a selection that are there, how every other one ended, in the order in which they did);
    `Costs.sort_by_collection` says who begins. Cells that another run has locked are waited for, at the end.

    advice: what to do about stale results. rerun_stale: whether they are made again; the old
    files are kept in quarantine/. progress: whether it is shown. scores_only: whether cells are left out that need a
    new release; of the others the earlier release is scored either way (`dpicl.plan.presence`).
    Raises UsageError for such results, and DpiclError where nothing could be run: without the records or the model of a
    cell, or with a folder that takes no result.
    """
    check_sources(selection.cells)
    known, damaged = selection.store.load_all()
    selection.store.prepare()
    selection.store.set_aside(damaged)
    if progress:
        report_damaged(damaged, moved=True)
    records = Fingerprints()
    presence = find_presence(selection.cells, known, records, selection.mechanisms)
    servers = _find_servers(presence.missing)
    if servers:
        presence = find_presence(selection.cells, known, records, selection.mechanisms, servers)
    if presence.unknown and progress:
        message(presence.unknown)
    missing = _list_to_do(selection, presence, rerun_stale, advice)
    releases = find_releases(missing, known, records, selection.mechanisms, servers)
    if scores_only:
        missing = [cell for cell in missing if cell.id in releases]
    if not missing:
        return presence.there, []
    if releases and progress:
        message(
            f"{count(len(releases), 'cell')} only to be scored: an earlier run released what they need."
        )
    _require_there(missing, records)
    job = Job(
        selection.reference, selection.store.results, selection.plugins, 0, releases, scores_only
    )
    return presence.there, _run(selection, missing, known, job, engine, progress)


def _find_servers(cells: Sequence[Cell]) -> dict[str, str]:
    """Name -> pin of every model on a server that the cells are to ask. Raises ModelError where one does not answer."""
    addresses = {cell.model: cell.address for cell in cells if cell.model.startswith("server:")}
    return {name: models.load(address).identity.pin for name, address in addresses.items()}


def _list_to_do(
    selection: Selection, presence: Presence, rerun_stale: bool, advice: str
) -> list[Cell]:
    """The missing cells, and the stale ones, whose files are moved. Raises UsageError for stale ones otherwise."""
    if not presence.stale:
        return presence.missing
    if not rerun_stale:
        verb = "is" if len(presence.stale) == 1 else "are"
        raise UsageError(
            f"{count(len(presence.stale), 'result')} under {selection.store.results} {verb} stale"
            f" ({describe_stale(presence.stale)}). Nothing was run; {advice}."
        )
    selection.store.set_aside(
        [Damaged(selection.store.path(each.cell), each.reason) for each in presence.stale]
    )
    message(f"{count(len(presence.stale), 'stale result')} moved into quarantine/.")
    stale = [each.cell for each in presence.stale]
    missing_ids = {cell.id for cell in (*presence.missing, *stale)}
    return [cell for cell in selection.cells if cell.id in missing_ids]


def _run(
    selection: Selection,
    missing: Sequence[Cell],
    known: Sequence[Result],
    job: Job,
    engine: Engine,
    progress: bool,
) -> list[Done]:
    """known: results that costs are estimated from."""
    ordered = Costs(known, selection.mechanisms).sort_by_collection(missing)
    finished: list[Done] = []

    with show_progress(len(ordered)) if progress else nullcontext(lambda event: None) as show:

        def report(event: CellProgress | Done) -> None:
            show(event)
            if isinstance(event, Done):
                finished.append(event)

        with stop_on_term():
            engine.run(ordered, job, report)
            while busy := [done.cell for done in finished if done.status == "busy"]:
                if progress:
                    message(f"Waiting for {count(len(busy), 'cell')} that another run is doing.")
                finished = [done for done in finished if done.status != "busy"]
                for cell in busy:
                    with selection.store.lock(cell.id, wait=True):
                        pass
                engine.run(busy, job, report)
    return finished


def _require_there(cells: Sequence[Cell], records: Fingerprints) -> None:
    """Raises DpiclError where a model or the records of a cell cannot be had: once, and before the first cell."""
    for name in dict.fromkeys(cell.model for cell in cells):
        models.require_there(name)
    for cell in {
        (c.task, c.source, c.train_records, c.test_records, c.fresh_test_records): c for c in cells
    }.values():
        records.find_at_hand(cell)
