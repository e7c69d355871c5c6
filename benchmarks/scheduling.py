"""What an engine adds to the work: cells of one second, on one worker, against the same cells one after the other.

    python -m benchmarks.scheduling --json

A plug-in sleeps for a second in each release, so a cell is a second of work and hardly any computing. Every engine runs
`CELLS` of them with one worker on this machine (Ray: a local cluster of one core).
`share`: what it takes longer than the cells say that they took, from the begin of the first cell to the last result on
disk; starting processes comes before and is given as `start_seconds`. Promised: at most 0.05.
`parent_cpu_seconds`: of computing in the process that hands out the cells, a cell (inline: all that is computed).
`agreement`: whether every engine did every cell once.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks._report import main, table
from dpicl.engines.local import make_engine
from dpicl.engines.worker import Job
from dpicl.plan.selection import select

CELLS = 40
PROMISED_SHARE = 0.05
PLUGIN = """\
import os
import time
from dataclasses import dataclass
from pathlib import Path

from dp_accounting import dp_event as dp

from dpicl.mechanism.bases import Demonstration, DemonstrationMechanism


@dataclass(frozen=True)
class Sleeper(DemonstrationMechanism):
    name = "sleeper"
    knob = None

    def events(self, knob, sizes):
        return dp.NoOpDpEvent()

    def __post_init__(self):  # what a cell begins with
        begun = Path(os.environ.get("DPICL_SCHEDULING", os.devnull))
        if not begun.exists():
            begun.write_text(str(time.time()))

    def release(self, private, context):
        time.sleep(1)
        return [Demonstration("text", label, 1) for label in context.shots]
"""
SUITE = f"""\
name: scheduling
version: 1
source: synthetic
model: sim
seeds: {list(range(CELLS))}
epsilons: [1]
tasks: [agnews]
test_records: 4
train_records: 60
mechanisms: [{{name: sleeper}}]
"""
ENGINES: dict[str, dict[str, Any]] = {"inline": {}, "local": {}, "ray": {"address": "local", "cpus": 1}}


def run() -> dict[str, Any]:
    """All engines, one after the other."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["DPICL_CACHE"] = str(folder / "cache")
        (folder / "sleeper.py").write_text(PLUGIN)
        (folder / "suite.yaml").write_text(SUITE)
        for engine, settings in ENGINES.items():
            before = time.process_time()
            work, whole, start, done = _run(folder, engine, settings)
            parent = round((time.process_time() - before) / CELLS, 4)
            share = round(whole / work - 1, 4)
            rows.append(
                {"engine": engine, "share": share, "start_seconds": start, "parent_cpu_seconds": parent, "done": done}
            )
    agreement = all(row["done"] == CELLS for row in rows)
    return {
        "name": "scheduling",
        "cells": CELLS,
        "promised_share": PROMISED_SHARE,
        "agreement": agreement,
        "rows": rows,
    }


def _run(folder: Path, name: str, settings: dict[str, Any]) -> tuple[float, float, float, int]:
    """(seconds of work, seconds that they took, seconds before the first one began, cells done)."""
    plugins = (folder / "sleeper.py",)
    selection = select(str(folder / "suite.yaml"), folder / name, plugins)
    selection.store.prepare()
    begun = folder / f"{name}-begun"
    os.environ["DPICL_SCHEDULING"] = str(begun)
    start = time.time()
    job = Job(selection.reference, folder / name, plugins)
    make_engine(name, 1, **settings).run(selection.cells, job, lambda event: None)
    results = selection.store.load_all()[0]
    work = sum(sum(result.cost.seconds.values()) for result in results)
    last = max(selection.store.path(result.cell).stat().st_mtime for result in results)
    first = float(begun.read_text())
    return work, last - first, round(first - start, 2), len(results)


if __name__ == "__main__":
    sys.exit(main(run, __doc__, lambda result: table(result["rows"])))
