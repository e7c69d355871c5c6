"""`dpicl run`: runs the missing cells of a suite."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from dataclasses import replace
from typing import Annotated, Any, Unpack

from dpicl.api.parameters import Cells, Count, Flag, Natural, SuiteName, verb
from dpicl.cli.output import Answer
from dpicl.cli.plan import cell_json, describe_untuned, stale_advice
from dpicl.cli.selecting import Shard, select_cells
from dpicl.core.cell import Cell
from dpicl.core.errors import UsageError
from dpicl.core.messages import count, duration, message
from dpicl.engines.local import make_engine
from dpicl.engines.session import run_missing
from dpicl.engines.worker import Done
from dpicl.plan.selection import Selection


@verb("dpicl run quick --mechanism tang --epsilon 1 --engine local --workers 2")
def run(
    suite: SuiteName,
    *,
    rerun_stale: bool = False,
    shard: Shard | None = None,
    engine: Annotated[str, Flag(metavar="inline|local|ray")] = "inline",
    workers: Count | None = None,
    address: Annotated[str | None, Flag(metavar="HOST:PORT")] = None,
    cpus: Count | None = None,
    gpus: Natural | None = None,
    **cells: Unpack[Cells],
) -> Answer:
    """Runs what is missing of a suite; finished cells are kept, and the same call goes on from there.

    Raises UsageError for what is not known or does not fit, and for stale results.

    rerun_stale: run stale cells again (other records, model or version); the old files are kept in quarantine/.
    engine: this process, worker processes, or Ray (default: inline).
    workers: workers of the engine (default: one for two cores).
    address: Ray: the cluster's head (default: RAY_ADDRESS).
    cpus: Ray: cores of each worker (default: they share a node's cores).
    gpus: Ray: GPUs of each worker (default: 1 where there are any, else 0).
    """
    selection = select_cells(suite, cells, shard)
    engine_made = make_engine(engine, workers, address=address, cpus=cpus, gpus=gpus)
    if advice := describe_untuned(selection):
        raise UsageError(advice)
    start = time.perf_counter()
    there, finished = run_missing(
        selection, engine_made, stale_advice(selection.suite_name), rerun_stale
    )
    return _summary(selection, there, finished, time.perf_counter() - start)


@verb("dpicl score record --task trec")
def score(
    suite: SuiteName,
    *,
    engine: Annotated[str, Flag(metavar="inline|local|ray")] = "inline",
    workers: Count | None = None,
    **cells: Unpack[Cells],
) -> Answer:
    """Scores what earlier runs released, where a suite has other test records or metrics by now; costs no privacy.

    A cell counts whose release would be the same as that of an earlier result of its row: texts of demonstrations, of
    any version of the suite. `dpicl run` does the same before it makes releases of its own.

    Raises UsageError for what is not known or does not fit, and for stale results.

    engine: this process, worker processes, or Ray (default: inline).
    workers: workers of the engine (default: one for two cores).
    """
    selection = select_cells(suite, cells, None)
    engine_made = make_engine(engine, workers)
    if not selection.store.results.is_dir():
        raise UsageError(
            f"There is no result of {selection.suite.name} under {selection.store.results}, so there is nothing to"
            " score; `dpicl run` with the same words makes releases."
        )
    if message := describe_untuned(selection):
        raise UsageError(message)
    start = time.perf_counter()
    there, finished = run_missing(
        selection, engine_made, stale_advice(selection.suite_name), scores_only=True
    )
    answer = _summary(selection, there, finished, time.perf_counter() - start)
    rest = len(selection.cells) - len(there) - len(finished)
    message = f"{count(rest, 'cell')} without a release that can be scored; `dpicl run` with the same words makes one."
    return replace(answer, shown=[message, *answer.shown]) if rest else answer


def _next(selection: Selection) -> str:
    """The command that comes next: the gate where the results are a submission's, else the board."""
    folder = selection.store.results.resolve().parent
    if (folder / "submission.yaml").is_file():
        return shlex.join(["dpicl", "submit", str(selection.store.results.parent)])
    return selection.command("board")


def _summary(
    selection: Selection,
    there: list[Cell],
    finished: list[Done],
    seconds: float,
) -> Answer:
    counts = Counter(done.status for done in finished)
    counts["present"] += len(there)
    failed = [done for done in finished if done.status == "failed"]
    for text, number in Counter(done.message for done in failed).items():
        message(f"dpicl: {count(number, 'cell')} failed: {text}")
    for reason, number in sum(
        (Counter(done.failures) for done in finished), Counter[str]()
    ).items():
        message(
            f"dpicl: The model gave no answer to {count(number, 'prompt')} of slots, which abstained: {reason}."
        )
    document = {
        "suite": selection.suite.name,
        "version": selection.suite.version,
        "results": selection.store.results,
        "counts": {status: counts[status] for status in ("done", "present", "skipped", "failed")},
        "cells": [_describe_finished(done, selection) for done in finished],
        "seconds": round(seconds, 2),
    }
    shown = [
        f"{count(counts['done'], 'cell')} done, {counts['present']} already present, {counts['skipped']} skipped,"
        f" {counts['failed']} failed, in {duration(seconds)}. Results: {selection.store.folder}"
    ]
    if not failed:
        shown.append(f"Next: {_next(selection)}")
    elif len(failed) == len(finished) and not there:
        shown = []
    died = all(done.worker_died for done in failed)  # then nothing in the suite is to be fixed
    return Answer(document, shown, (1 if died else 2) if failed else 0)


def _describe_finished(done: Done, selection: Selection) -> dict[str, Any]:
    return {
        **cell_json(done.cell),
        "status": done.status,
        "seconds": round(done.seconds, 2),
        "score": done.score,
        "message": done.message or None,
        "failures": dict(done.failures),
        "path": selection.store.path(done.cell) if done.status in ("done", "present") else None,
    }
