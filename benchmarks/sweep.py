"""What the commands cost on a large sweep: CPU seconds and peak memory of `plan`, `run`, `board` and `board --html`.

    python -m benchmarks.sweep
    python -m benchmarks.sweep --cells 1250 10000 --shapes few --keep FOLDER

A sweep has two tasks, two mechanisms in many settings (a row each), five epsilons or ten, and the simulated model.
"few": 50 seeds a row, 200 rows at 10,000 cells. "many": 5 seeds a row, 2,000 rows. "one": 2,000 rows of one task at one
epsilon, so that all pairs of them are compared. The two reference baselines come on top. One cell of each task and
mechanism is run; every other result is a copy of it under another cell (whose id the project's own code computes), with
outcomes of its own. So the files are as large as real ones, and `plan` and `run` find them.

Every command runs in a process of its own. CPU seconds are of user and system mode, which other work on the machine
changes little; wall clock stands beside them. Prints a JSON object for each sweep.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from dpicl.core.cell import Cell
from dpicl.plan.selection import Selection, select
from dpicl.results.schema import Result, to_text

#: Shape -> tasks, epsilons, seeds.
SHAPES: dict[str, tuple[list[str], list[float], int]] = {
    "few": (["agnews", "trec"], [0.5, 1, 2, 4, 8], 50),
    "many": (["agnews", "trec"], [0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8], 5),
    "one": (["agnews"], [1], 5),
}
CELLS, DOCUMENTS = (1250, 2500, 5000, 10000), 100
TANG = {"slots": 4, "examples_per_slot": 1, "tokens": 4, "top_k": 10, "record_tokens": 8}
VOTING = {"slots": 3, "examples_per_slot": 1, "record_tokens": 8}


def suite(shape: str, cells: int) -> dict[str, Any]:
    """The suite that has as many cells, besides the reference baselines."""
    tasks, epsilons, seeds = SHAPES[shape]
    settings = math.ceil(cells / len(tasks) / len(epsilons) / seeds)
    rows = [
        {"name": "voting", "label": f"voting-{at}", "options": {**VOTING, "slots": 2 + at}}
        if at % 4 == 0
        else {"name": "tang", "label": f"tang-{at}", "options": {**TANG, "slots": 2 + at}}
        for at in range(settings)
    ]
    return {
        "name": "sweep",
        "version": 1,
        "source": "synthetic",
        "models": ["sim"],
        "seeds": list(range(seeds)),
        "epsilons": epsilons,
        "test_records": DOCUMENTS,
        "train_records": 100,
        "tasks": tasks,
        "mechanisms": [{"name": "zero_shot"}, {"name": "real_demonstrations"}, *rows],
    }


def make(folder: Path, shape: str, cells: int) -> Selection:
    """Writes a finished sweep, its suite in ``sweep.yaml`` and its results, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    file, results = folder / "sweep.yaml", folder / "results"
    file.write_text(yaml.safe_dump(suite(shape, cells)), encoding="utf-8")
    selection = select(str(file), results)
    first = {(cell.task, cell.mechanism): cell for cell in reversed(selection.cells)}
    labels = [word for label in {cell.label for cell in first.values()} for word in ("--mechanism", label)]
    epsilon = str(SHAPES[shape][1][0])
    seed = str(selection.cells[0].seed)
    command = ["run", str(file), "--results", str(results), "--epsilon", epsilon, "--seed", seed, *labels]
    _dpicl(command, folder)
    made = {}
    for key, cell in first.items():
        found = selection.store.read(cell)
        assert found is not None, f"{cell} has no result"
        made[key] = found
    for number, cell in enumerate(selection.cells):
        path = selection.store.path(cell)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(to_text(copy(made[cell.task, cell.mechanism], cell, number)), encoding="utf-8")
    return selection


def copy(result: Result, cell: Cell, number: int) -> Result:
    """The result of one cell as that of another of the same task and mechanism, with outcomes drawn anew."""
    generator = np.random.default_rng(number)
    data = json.loads(result.model_dump_json())
    data |= {"cell_id": cell.id, "cell": cell.model_dump(mode="json")}
    data["privacy"] |= {"epsilon_target": data["cell"]["epsilon"]}
    if math.isfinite(cell.epsilon):
        data["privacy"]["epsilon_proved"] = cell.epsilon * 0.999
    low, high = {"zero_shot": (0.3, 0.3), "real_demonstrations": (0.8, 0.8)}.get(cell.mechanism, (0.35, 0.75))
    share = low + (high - low) * (sum(map(ord, cell.label)) % 17) / 16
    for metric, documents in data["documents"].items():
        outcomes = (generator.random(len(documents["ids"])) < share).astype(float)
        documents["outcomes"] = outcomes.tolist()
        value = float(outcomes.mean())
        data["scores"][metric] = {"value": value, "low": max(0.0, value - 0.1), "high": min(1.0, value + 0.1)}
    return Result.model_validate_json(json.dumps(data), strict=True)


def measured(folder: Path, selection: Selection) -> Iterator[tuple[str, dict[str, float]]]:
    """(command, its cost) of a finished sweep."""
    of = [str(folder / "sweep.yaml"), "--results", str(folder / "results")]
    commands = {
        "plan": ["plan", *of],
        "resume": ["run", *of],
        "board": ["board", *of, "--no-submissions"],
        "html": ["board", *of, "--no-submissions", "--html", str(folder / "site")],
    }
    for name, command in commands.items():
        yield name, _dpicl(command, folder)
    site = [path for path in (folder / "site").rglob("*") if path.is_file()]
    yield "site", {"files": len(site), "megabytes": round(sum(path.stat().st_size for path in site) / 1e6, 2)}


def _dpicl(arguments: Sequence[str], folder: Path) -> dict[str, float]:
    """What one command costs in a process of its own: CPU and wall-clock seconds, the most memory in MB."""
    environment = {**os.environ, "DPICL_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    start = time.perf_counter()
    with (folder / "output.txt").open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "dpicl", *arguments], env=environment, stdout=out, stderr=subprocess.STDOUT
        )
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        said = (folder / "output.txt").read_text("utf-8", "replace")[-2000:]
        raise SystemExit(f"dpicl {' '.join(arguments)} ended with {process.returncode}:\n{said}")
    return {
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
        "seconds": round(time.perf_counter() - start, 2),
        "memory_mb": round(used.ru_maxrss / 1024),
    }


def sweep(shape: str, cells: int, folder: Path) -> dict[str, Any]:
    """What each command costs on one sweep, which is made in the folder where it is not there."""
    selection = make(folder, shape, cells)
    rows = len({(cell.task, cell.label, cell.epsilon) for cell in selection.cells})
    return {"shape": shape, "cells": len(selection.cells), "rows": rows, **dict(measured(folder, selection))}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, nargs="+", default=CELLS)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=["few", "many"])
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the sweeps there, and use those that are there")
    given = parser.parse_args()
    for shape in given.shapes:
        for cells in given.cells:
            with tempfile.TemporaryDirectory() as temporary:
                folder = Path(temporary) if given.keep is None else given.keep / f"{shape}-{cells}"
                print(json.dumps(sweep(shape, cells, folder)), flush=True)
