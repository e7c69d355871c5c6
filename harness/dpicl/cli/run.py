"""`dpicl run`: does what is missing of a suite. `dpicl plan`: says what that would be."""

from __future__ import annotations

import argparse
import math
import shlex
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from dpicl.cli import output
from dpicl.cli.arguments import (
    SOURCES,
    Subparsers,
    add_command,
    add_selection_flags,
    selected,
)
from dpicl.cli.engine_flags import add_engine_flags, engine_of
from dpicl.core.cell import Cell
from dpicl.core.errors import UsageError
from dpicl.core.messages import suite_command
from dpicl.core.vocabulary import RECORD_CENTRAL
from dpicl.engines.session import prepare, run_missing
from dpicl.engines.worker import CellProgress, Done, Job
from dpicl.evaluation.inference import LEVEL
from dpicl.plan import sizing
from dpicl.plan.costs import Costs
from dpicl.plan.headroom import Headroom, headrooms
from dpicl.plan.presence import Presence, describe_stale, find_presence, find_skipped, select_current
from dpicl.plan.selection import Selection
from dpicl.results.fingerprints import Fingerprints
from dpicl.results.schema import Result
from dpicl.results.store import Damaged


class Follower(Protocol):
    """What is told of cells as they finish, such as a sink of results; it never stops a run."""

    def finished(self, cell: Cell) -> None:
        """A cell is over."""

    def finish(self) -> None:
        """The run is over."""


#: (arguments, selection, the cells that will be run) -> what follows them.
Follow = Callable[[argparse.Namespace, "Selection", "Sequence[Cell]"], Follower]


def add(
    subparsers: Subparsers, wandb: Follow | None = None, wandb_flags: Callable[[Any, str], None] | None = None
) -> None:
    """Adds both commands. wandb: what follows a run with --wandb; wandb_flags: adds its flags, with a prefix."""
    run = add_command(
        subparsers, "run", "dpicl run quick --mechanism tang --epsilon 1 --engine local --workers 2", _run
    )
    add_selection_flags(run)
    run.add_argument(
        "--rerun-stale",
        action="store_true",
        help="run again what was computed on different data; the old files are kept in quarantine/",
    )
    run.share("--shard")
    add_engine_flags(run)
    run.set_defaults(follow=wandb, wandb=False)
    if wandb_flags is not None:
        run.add_argument("--wandb", action="store_true", help="publish rows to W&B as they finish (docs/releases.md)")
        wandb_flags(run, "wandb-")
    plan = add_command(subparsers, "plan", "dpicl plan quick --epsilon 1", _plan)
    add_selection_flags(plan)
    plan.share("--shard")
    plan.add_argument(
        "--detect",
        type=float,
        metavar="DIFFERENCE",
        help="say how many seeds and test records find such a difference of scores (0.03) between any two rows",
    )
    plan.add_argument(
        "--power", type=float, metavar="P", help="the probability with which --detect finds it (default: 0.8)"
    )


def _run(arguments: argparse.Namespace) -> int:
    _check_wandb(arguments)
    selection = selected(arguments)
    engine = engine_of(arguments)
    if said := _untuned(selection):
        raise UsageError(said)
    results, damaged = prepare(selection)
    output.report_damaged(damaged, moved=True)
    found = find_presence(selection.cells, results, Fingerprints())
    there, missing = found.there, _to_do(arguments, selection, found)
    job = Job(selection.reference, arguments.results, tuple(arguments.plugin))
    live = arguments.follow(arguments, selection, missing) if arguments.wandb else None

    def follow(event: CellProgress | Done) -> None:
        if live is not None and isinstance(event, Done) and event.status != "busy":
            live.finished(event.cell)

    start = time.perf_counter()
    finished = run_missing(selection, missing, results, engine, job, follow)
    if live is not None:
        live.finish()
    return _summary(arguments, selection, there, finished, time.perf_counter() - start)


def _untuned(selection: Selection) -> str:
    """A sentence about the selected rows that `dpicl tune` has yet to choose options for; '' where there are none."""
    selected = {cell.label for cell in selection.cells}
    if not (rows := [row for row in selection.suite.untuned if row in selected]):
        return ""
    command = suite_command("tune", selection.asked, plugins=selection.plugins, results=selection.store.results)
    named = ", ".join(rows[:3]) + (f" and {len(rows) - 3} more" if len(rows) > 3 else "")
    return f"Run `{command}` first: it chooses the options of {output.count(len(rows), 'row')} ({named})."


def _check_wandb(arguments: argparse.Namespace) -> None:
    """Raises UsageError for flags of W&B without --wandb."""
    for name in ("project", "entity", "mode"):
        if getattr(arguments, f"wandb_{name}", None) is not None and not arguments.wandb:
            raise UsageError(f"--wandb-{name} publishes nothing by itself; add --wandb, or leave it out.")


def _next(arguments: argparse.Namespace, selection: Selection) -> str:
    """The command that comes next: the gate where the results are a submission's, else the board."""
    folder: Path = arguments.results.resolve().parent
    if (folder / "submission.yaml").is_file():
        return shlex.join(["dpicl", "submit", str(arguments.results.parent)])
    return selection.command("board")


def _summary(
    arguments: argparse.Namespace, selection: Selection, there: list[Cell], finished: list[Done], seconds: float
) -> int:
    counts = Counter(done.status for done in finished)
    counts["present"] += len(there)
    failed = [done for done in finished if done.status == "failed"]
    if arguments.json:
        output.emit_json(
            {
                "suite": selection.suite.name,
                "version": selection.suite.version,
                "results": arguments.results,
                "counts": {status: counts[status] for status in ("done", "present", "skipped", "failed")},
                "cells": [_finished_json(done, selection) for done in finished],
                "seconds": round(seconds, 2),
            }
        )
    elif len(failed) < len(finished) or there:
        output.emit(
            f"{output.count(counts['done'], 'cell')} done, {counts['present']} already present, "
            f"{counts['skipped']} skipped, {counts['failed']} failed, in {output.duration(seconds)}."
            f" Results: {selection.store.folder}"
        )
        if not failed:
            output.emit(f"Next: {_next(arguments, selection)}")
    for text, number in Counter(done.message for done in failed).items():
        output.message(f"dpicl: {output.count(number, 'cell')} failed: {text}")
    if all(done.worker_died for done in failed):
        return 1 if failed else 0  # nothing in the suite is to be fixed
    return 2


def _finished_json(done: Done, selection: Selection) -> dict[str, Any]:
    return {
        **_cell_json(done.cell),
        "status": done.status,
        "seconds": round(done.seconds, 2),
        "score": done.score,
        "message": done.message or None,
        "path": selection.store.path(done.cell) if done.status in ("done", "present") else None,
    }


def _cell_json(cell: Cell) -> dict[str, Any]:
    keys = ("task", "mechanism", "label", "model", "epsilon", "delta", "seed", "source", "test_records")
    return {"id": cell.id, **{key: getattr(cell, key) for key in keys}}


def _to_do(arguments: argparse.Namespace, selection: Selection, found: Presence) -> list[Cell]:
    """The cells to run. With --rerun-stale stale ones too, whose old files are kept; raises UsageError without it."""
    if not found.stale:
        return found.missing
    if not arguments.rerun_stale:
        verb = "was" if len(found.stale) == 1 else "were"
        raise UsageError(
            f"{output.count(len(found.stale), 'result')} under {arguments.results} {verb} computed on different data"
            f" (fingerprint mismatch: {describe_stale(found.stale)}). Nothing was run; {_stale_advice(arguments)}."
        )
    selection.store.set_aside([Damaged(selection.store.path(each.cell), each.reason) for each in found.stale])
    stale = {each.cell.id for each in found.stale}
    missing = {cell.id for cell in found.missing}
    output.message(f"{output.count(len(stale), 'result')} computed on different data moved into quarantine/.")
    return [cell for cell in selection.cells if cell.id in stale | missing]


def _stale_advice(arguments: argparse.Namespace) -> str:
    words = [word for word in arguments.argv[1:] if word != "--rerun-stale"]
    again = shlex.join(["dpicl", "run", *words, "--rerun-stale"])
    return f"`{again}` runs them again and keeps the old files in quarantine/, another --results folder keeps both"


def _plan(arguments: argparse.Namespace) -> int:
    if arguments.power is not None and arguments.detect is None:
        raise UsageError("--power goes with --detect; add --detect 0.03, or leave it out.")
    selection = selected(arguments)
    results, damaged = selection.store.load_all()
    output.report_damaged(damaged, moved=False)
    if arguments.detect is not None:
        return _sizes(arguments, selection, results)
    found = find_presence(selection.cells, results, Fingerprints())
    status = {cell.id: "present" for cell in found.there} | {each.cell.id: "stale" for each in found.stale}
    left_out = find_skipped(found.missing, selection.mechanisms)
    status |= dict.fromkeys(left_out, "skipped")
    because = {each.cell.id: each.reason for each in found.stale} | left_out
    missing = [cell for cell in selection.cells if status.get(cell.id) not in ("present", "skipped")]
    costs = Costs(results, selection.mechanisms)
    estimates = {**costs.estimates(selection.cells), **costs.estimates(missing)}
    seconds = [estimates[cell.id].seconds for cell in missing]
    known = [value for value in seconds if value is not None]
    total = sum(known) if len(known) == len(seconds) else None
    tokens = sum(estimates[cell.id].tokens for cell in missing)
    there = {(cell.id, cell.label) for cell in found.there}
    headroom = headrooms(result for result in results if (result.cell_id, result.cell.label) in there)
    if arguments.json:
        output.emit_json(
            {
                "suite": selection.suite.name,
                "version": selection.suite.version,
                "present": len(found.there),
                "stale": len(found.stale),
                "skipped": len(left_out),
                "missing": len(found.missing) - len(left_out),
                "tokens": tokens,
                "seconds": total,
                "headroom": [{**asdict(one), "rewards": one.rewards} for one in headroom],
                "cells": [
                    {
                        **_cell_json(cell),
                        "options": cell.options,
                        "status": status.get(cell.id, "missing"),
                        "reason": because.get(cell.id),
                        "tokens": estimates[cell.id].tokens,
                        "seconds": estimates[cell.id].seconds,
                        "path": selection.store.path(cell),
                    }
                    for cell in selection.cells
                ],
            }
        )
        return 0
    shown = [cell for cell in selection.cells if cell.id not in left_out]
    _plan_table(shown, status, {key: value.tokens for key, value in estimates.items()})
    time_text = "time unknown until a cell has run" if total is None else f"about {output.duration(total)}"
    which = " with the stale ones" if found.stale else ""
    cost = f" ({tokens / 1e6:,.3g} million tokens{which}, {time_text} in one process)" if missing else ""
    cells, stale = output.count(len(selection.cells), "cell"), f", {len(found.stale)} stale" if found.stale else ""
    fitting = f", {len(left_out)} skipped" if left_out else ""
    to_do = len(found.missing) - len(left_out)
    output.emit(f"\n{cells}: {len(found.there)} done{stale}{fitting}, {to_do} to do{cost}.")
    _headroom_table(headroom)
    for name, tasks, reason in _reasons(selection.cells, left_out):
        output.emit(f"Skipped: {name} on {', '.join(tasks)}: {reason}")
    if found.stale:
        output.emit(f"Stale: computed on different data (fingerprint mismatch: {describe_stale(found.stale)}).")
        output.emit(f"Next: {_stale_advice(arguments)}.")
        return 0
    run = shlex.join(["dpicl", "run", *arguments.argv[1:]])
    output.emit(_untuned(selection) or f"Next: {run if missing else selection.command('board')}")
    return 0


def _sizes(arguments: argparse.Namespace, selection: Selection, results: Sequence[Result]) -> int:
    """What `plan --detect` says: seeds and test records of least cost for every task and epsilon."""
    power = 0.8 if arguments.power is None else arguments.power
    suite = selection.suite
    sources = SOURCES if suite.source == "auto" else (suite.source,)  # as on a board: results say what they are from
    wanted = {(cell.task, cell.model, cell.label, cell.epsilon) for cell in selection.cells}
    own = [
        result
        for result in results
        if (cell := result.cell).suite_version == suite.version
        and result.suite.hash == suite.hash
        and cell.source in sources
        and (cell.task, cell.model, cell.label, cell.epsilon) in wanted
    ]
    if results and not own:
        output.message(f"{output.count(len(results), 'result')} with other suite settings, model or options left out.")
    own, notes = select_current(own, Fingerprints(download=False))
    for note in notes:
        output.message(note)
    found = sizing.tables(own, arguments.detect, power)
    if without := {cell.task: None for cell in selection.cells if cell.task not in {table.task for table in found}}:
        output.message(f"No two rows have results at two common seeds on {', '.join(without)}.")
    if arguments.json:
        output.emit_json(
            {
                "suite": suite.name,
                "version": suite.version,
                "detect": arguments.detect,
                "power": power,
                "tables": [asdict(table) for table in found],
            }
        )
        return 0
    rows = []
    for table in found:
        deviations = (table.variances.by_seed, table.variances.by_document, table.variances.rest)
        now, needed = table.now, table.needed
        rows.append(
            [
                table.model,
                table.task + ("" if table.notion == RECORD_CENTRAL.name else f" ({table.notion})"),
                f"{table.epsilon:g}",
                str(table.rows),
                *(f"{max(0.0, variance) ** 0.5:.3f}" for variance in deviations),
                f"{now.seeds} × {now.documents}",
                f"{now.detects:.3f}" if now.detects < 1 else "none",
                f"{needed.seeds} × {needed.documents}" if needed else "more than 100 seeds",
                output.duration(needed.seconds) if needed else "",
            ]
        )
    columns = ["model", "task", "ε", "rows", "sd seed", "sd record", "sd rest", "now", "MDE", "needs", "costs"]
    output.emit_table(columns, rows)
    made_from = {f"{table.task}: {table.source}": None for table in found}
    output.emit(
        f"\nRecords: {', '.join(made_from)}. Sizes are seeds × test records. They find a difference of"
        f" {arguments.detect:g} between any two rows of a table with probability {power:g}, at a family-wise error of"
        f" {1 - LEVEL:.2g}. Costs are of one process, all rows. MDE: what the results at hand find as often."
        " sd: of the difference of two rows, by seed, by test record, and what is left."
    )
    return 0


def _reasons(cells: Sequence[Cell], left_out: Mapping[str, str]) -> list[tuple[str, list[str], str]]:
    """(row, tasks, reason) of cells that are skipped."""
    groups: dict[tuple[str, str], dict[str, None]] = {}
    for cell in cells:
        if reason := left_out.get(cell.id):
            groups.setdefault((cell.label, reason), {})[cell.task] = None
    return [(row, list(tasks), reason) for (row, reason), tasks in groups.items()]


def _headroom_table(found: Sequence[Headroom]) -> None:
    """What real demonstrations gain over public ones, so far."""
    if not found:
        return
    several = len({one.model for one in found}) > 1
    rows = [
        [
            *([one.model] if several else []),
            *(one.task, one.metric, str(one.shots), f"{one.public:.3f} to {one.real:.3f}"),
            f"{one.gain:.3f} ({one.low:.3f} to {one.high:.3f})",
            f"{len(one.seeds)} × {one.documents}",
            "yes" if one.rewards else "no",
        ]
        for one in found
    ]
    where = sum(one.development for one in found)
    which = "development seeds" if where == len(found) else "the rows' seeds" if not where else "both kinds of seeds"
    output.emit(f"\nHeadroom, from public to real demonstrations, on {which}:")
    columns = ["task", "metric", "shots", "from, to", "headroom (95%)", "seeds × records", "rewards"]
    output.emit_table([*(["model"] if several else []), *columns], rows)


def _plan_table(cells: Sequence[Cell], status: dict[str, str], tokens: dict[str, int]) -> None:
    groups: dict[tuple[str, str, str, str, float], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.model, cell.task, cell.source, cell.label, cell.epsilon), []).append(cell)
    stale = "stale" in status.values()
    shown = {"model": len({key[0] for key in groups}) > 1, "source": len({key[2] for key in groups}) > 1}
    rows = [
        [
            *([model] if shown["model"] else []),
            task,
            *([source] if shown["source"] else []),
            label,
            "∞" if math.isinf(epsilon) else f"{epsilon:g}",
            str(len(own)),
            str(sum(status.get(cell.id) == "present" for cell in own)),
            *([str(sum(status.get(cell.id) == "stale" for cell in own))] if stale else []),
            f"{sum(tokens[cell.id] for cell in own) / 1e6:.2f} M",
        ]
        for (model, task, source, label, epsilon), own in groups.items()
    ]
    columns = [name for name in ("model", "task", "source", "mechanism") if shown.get(name, True)]
    output.emit_table([*columns, "ε", "cells", "done", *(["stale"] if stale else []), "tokens"], rows)
