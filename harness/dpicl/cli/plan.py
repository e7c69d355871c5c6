"""`dpicl plan`: what `dpicl run` would do of a suite, and how much would find a difference."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from operator import attrgetter
from typing import Annotated, Any, Unpack

from pydantic import Field

from dpicl.api.parameters import Cells, Flag, SuiteName, verb
from dpicl.cli import call, output
from dpicl.cli.output import Answer
from dpicl.cli.selecting import Shard, selected
from dpicl.core.cell import Cell
from dpicl.core.errors import UsageError
from dpicl.core.field_types import Number
from dpicl.core.messages import count, duration, message, named
from dpicl.data.sources import SOURCES
from dpicl.evaluation.statistics import LEVEL
from dpicl.plan import sizing
from dpicl.plan.costs import CostEstimate, Costs
from dpicl.plan.headroom import Headroom, headroom_columns, headrooms
from dpicl.plan.presence import describe_stale, find_presence, find_skipped, select_current
from dpicl.plan.selection import Selection
from dpicl.plan.suite import AS_IT_IS
from dpicl.results.fingerprints import Fingerprints
from dpicl.results.schema import Result
from dpicl.tables.document import Block, Column, Table, make_table, notes, text_table


@verb("dpicl plan quick --epsilon 1")
def plan(
    suite: SuiteName,
    *,
    shard: Shard | None = None,
    detect: Annotated[Number, Field(gt=0, lt=1), Flag(metavar="DIFFERENCE")] | None = None,
    power: Annotated[Number, Field(ge=0.5, lt=1), Flag(metavar="P")] | None = None,
    **cells: Unpack[Cells],
) -> Answer:
    """What `run` would do: cells, which of them are done, what the rest costs. Or, with `detect`, how much is needed.

    Raises UsageError for what is not known or does not fit.

    detect: say how many seeds and test records find such a difference of scores (0.03) between any two rows.
    power: the probability with which --detect finds it (default: 0.8).
    """
    if power is not None and detect is None:
        raise UsageError("--power goes with --detect; add --detect 0.03, or leave it out.")
    selection = selected(suite, cells, shard)
    results, damaged = selection.store.load_all()
    output.report_damaged(damaged)
    if detect is not None:
        return _sizes(selection, results, detect, 0.8 if power is None else power)
    return _cells(selection, results, str(suite))


def _cells(selection: Selection, results: Sequence[Result], suite: str) -> Answer:
    """Every cell of a selection, whether it is done, and what it costs."""
    found = find_presence(selection.cells, results, Fingerprints())
    left_out = find_skipped(found.missing, selection.mechanisms)
    status = {cell.id: "present" for cell in found.there} | dict.fromkeys(left_out, "skipped")
    status |= {each.cell.id: "stale" for each in found.stale}
    because = {each.cell.id: each.reason for each in found.stale} | left_out
    missing = [cell for cell in selection.cells if status.get(cell.id) not in ("present", "skipped")]
    costs = Costs(results, selection.mechanisms)
    estimates = {**costs.estimates(selection.cells), **costs.estimates(missing)}
    seconds = [value for cell in missing if (value := estimates[cell.id].seconds) is not None]
    unmeasured = list(dict.fromkeys(cell.model for cell in missing if estimates[cell.id].seconds is None))
    gains = headrooms(result for result in results if status.get(result.cell_id) == "present")
    document = {
        "suite": selection.suite.name,
        "version": selection.suite.version,
        "present": len(found.there),
        "stale": len(found.stale),
        "skipped": len(left_out),
        "missing": len(found.missing) - len(left_out),
        "tokens": sum(estimates[cell.id].tokens for cell in missing),
        "seconds": None if unmeasured else sum(seconds),
        "untuned": untuned_rows(selection),
        "headroom": [{**asdict(one), "rewards": one.rewards} for one in gains],
        "cells": [
            {
                **cell_json(cell),
                "options": cell.options,
                "status": status.get(cell.id, "missing"),
                "reason": because.get(cell.id),
                **asdict(estimates[cell.id]),
                "path": selection.store.path(cell),
            }
            for cell in selection.cells
        ],
    }
    cells = [cell for cell in selection.cells if cell.id not in left_out]
    shown: list[Block | str] = [_plan_table(cells, status, estimates), _totals(document, sum(seconds), unmeasured)]
    if gains:
        shown.append(_headroom_table(gains))
    shown += [f"Skipped: {row} on {', '.join(tasks)}: {why}" for row, tasks, why in _reasons(selection.cells, left_out)]
    if found.stale:
        shown.append(f"Stale: computed on different data (fingerprint mismatch: {describe_stale(found.stale)}).")
        shown.append(f"Next: {stale_advice(suite)}.")
    else:
        run = shlex.join(["dpicl", "run", *call.words(suite)])
        shown.append(untuned(selection) or f"Next: {run if missing else selection.command('board')}")
    return Answer(document, shown)


def _totals(plan: Mapping[str, Any], seconds: float, unmeasured: Sequence[str]) -> str:
    """How many cells are done and left, and what these cost, in a sentence. unmeasured: models of which no cell has run
    on this machine; seconds: of all others."""
    parts = [f"{plan['present']} done", *(f"{plan[key]} {key}" for key in ("stale", "skipped") if plan[key])]
    cost = ""
    if plan["missing"] or plan["stale"]:
        names = ", ".join(unmeasured)
        time = f"about {duration(seconds)}" if seconds or not names else f"time unknown until a cell of {names} has run"
        time += f" and what {names} takes, of which no cell has run" if seconds and names else ""
        which = " with the stale ones" if plan["stale"] else ""
        cost = f" ({plan['tokens'] / 1e6:,.3g} million tokens{which}, {time} in one process)"
    return f"{count(len(plan['cells']), 'cell')}: {', '.join(parts)}, {plan['missing']} to do{cost}."


def _headroom_table(gains: Sequence[Headroom]) -> Table:
    named = [name for name in ("task", "model", "metric") if name != "model" or len({one.model for one in gains}) > 1]
    columns = [*(Column(name, name, attrgetter(name)) for name in named), *headroom_columns(lambda one: one)]
    title = "Headroom, from public to real demonstrations"
    note = "Where the interval includes 0 a task does not reward private data with this model."
    return make_table(title, columns, gains, keep=len(named), heading=True, notes=(note,))


def untuned_rows(selection: Selection) -> list[str]:
    """The selected rows that `dpicl tune` has yet to choose options for."""
    selected = {cell.label for cell in selection.cells}
    return [row for row in selection.suite.untuned if row in selected]


def untuned(selection: Selection) -> str:
    """A sentence about `untuned_rows`; '' where there are none."""
    if not (rows := untuned_rows(selection)):
        return ""
    command = replace(selection, changes=AS_IT_IS).command("tune")
    return f"Run `{command}` first: it chooses the options of {count(len(rows), 'row')} ({named(rows, 3)})."


def stale_advice(suite: str) -> str:
    """What to do about results that were computed on different data."""
    words = [word for word in call.words(suite) if word != "--rerun-stale"]
    again = shlex.join(["dpicl", "run", *words, "--rerun-stale"])
    return f"`{again}` runs them again and keeps the old files in quarantine/, another --results folder keeps both"


def cell_json(cell: Cell) -> dict[str, Any]:
    keys = ("task", "mechanism", "label", "model", "epsilon", "delta", "seed", "source", "test_records")
    return {"id": cell.id, **{key: getattr(cell, key) for key in keys}}


def _sizes(selection: Selection, results: Sequence[Result], detect: float, power: float) -> Answer:
    """What `plan --detect` says: seeds and test records of least cost for every task and epsilon."""
    suite = selection.suite
    sources = SOURCES if suite.source == "auto" else (suite.source,)  # as on a board: results say what they are from
    wanted = {(cell.task, cell.model, cell.label, cell.epsilon, cell.seed) for cell in selection.cells}
    own = [
        result
        for result in results
        if (cell := result.cell).suite_version == suite.version
        and result.suite.hash == suite.hash
        and cell.source in sources
        and (cell.task, cell.model, cell.label, cell.epsilon, cell.seed) in wanted
    ]
    if results and not own:
        message(f"{count(len(results), 'result')} with other suite settings, model or options left out.")
    own, left_out = select_current(own, Fingerprints(download=False))
    for note in left_out:
        message(note)
    found = sizing.tables(own, detect, power)
    if without := {cell.task: None for cell in selection.cells if cell.task not in {table.task for table in found}}:
        message(f"No two rows have results at two common seeds on {', '.join(without)}.")
    document = {
        "suite": suite.name,
        "version": suite.version,
        "detect": detect,
        "power": power,
        "tables": [asdict(table) for table in found],
    }
    return Answer(
        document, [text_table(_SIZES, map(_size_row, found), keep=3), *notes([_sizes_meaning(found, detect, power)])]
    )


_SIZES = ("model", "task", "ε", "rows", "sd seed", "sd record", "sd rest", "now", "MDE", "needs", "costs")


def _size_row(table: sizing.Table) -> list[str]:
    deviations = (table.variances.by_seed, table.variances.by_document, table.variances.rest)
    now, needed = table.now, table.needed
    return [
        table.model,
        table.task,
        f"{table.epsilon:g}",
        str(table.rows),
        *(f"{max(0.0, variance) ** 0.5:.3f}" for variance in deviations),
        f"{now.seeds} × {now.documents}",
        f"{now.detects:.3f}" if now.detects < 1 else "none",
        f"{needed.seeds} × {needed.documents}" if needed else f"more than {sizing.SEEDS[-1]} × {sizing.DOCUMENTS[-1]}",
        duration(needed.seconds) if needed else "",
    ]


def _sizes_meaning(found: Sequence[sizing.Table], detect: float, power: float) -> str:
    made_from = {f"{table.task}: {table.source}": None for table in found}
    return (
        f"Records: {', '.join(made_from)}. Sizes are seeds × test records. They find a difference of {detect:g} between"
        f" any two rows of a table with probability {power:g}, at a family-wise error of {1 - LEVEL:.2g}. Costs are of"
        " one process, all rows. MDE: what the results at hand find as often. sd: of the difference of two rows, by"
        " seed, by test record, and what is left."
    )


def _reasons(cells: Sequence[Cell], left_out: Mapping[str, str]) -> list[tuple[str, list[str], str]]:
    """(row, tasks, reason) of cells that are skipped."""
    groups: dict[tuple[str, str], dict[str, None]] = {}
    for cell in cells:
        if reason := left_out.get(cell.id):
            groups.setdefault((cell.label, reason), {})[cell.task] = None
    return [(row, list(tasks), reason) for (row, reason), tasks in groups.items()]


def _plan_table(cells: Sequence[Cell], status: Mapping[str, str], costs: Mapping[str, CostEstimate]) -> Table:
    groups: dict[tuple[str, str, str, str, float], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.model, cell.task, cell.source, cell.label, cell.epsilon), []).append(cell)
    named = {"model": "model", "task": "task", "source": "source", "label": "mechanism"}
    named = {name: head for name, head in named.items() if name in ("task", "label") or _differ(cells, name)}
    counted = {"present": "done", "stale": "stale"} if "stale" in status.values() else {"present": "done"}
    rows = []
    for own in groups.values():
        first, found = own[0], Counter(status.get(cell.id) for cell in own)
        epsilon = "∞" if math.isinf(first.epsilon) else f"{first.epsilon:g}"
        tokens = sum(costs[cell.id].tokens for cell in own)
        numbers = [len(own), *(found[each] for each in counted)]
        names = [str(getattr(first, name)) for name in named]
        rows.append([*names, epsilon, *map(str, numbers), f"{tokens / 1e6:.2f} M"])
    return text_table([*named.values(), "ε", "cells", *counted.values(), "tokens"], rows, keep=len(named) + 1)


def _differ(cells: Sequence[Cell], name: str) -> bool:
    return len({getattr(cell, name) for cell in cells}) > 1
