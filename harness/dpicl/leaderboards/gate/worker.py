"""A process of its own for submitted code: `python -m dpicl.leaderboards.gate.worker JOB ANSWER`, two JSON files.

Jobs: "events" (what a mechanism declares that each run charges) and "rerun" (cells, run again). The gate starts it with
an empty environment and a time limit (dpicl.leaderboards.gate.code). It is no sandbox: it reads what its user can.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dpicl.core.cell import Cell
from dpicl.core.errors import DpiclError
from dpicl.leaderboards.gate.ledgers import events_of
from dpicl.mechanism.registry import load_mechanisms
from dpicl.run.results import Result, SuiteReference
from dpicl.run.store import Store

Job = Mapping[str, Any]


def _events(job: Job) -> list[Any]:
    results = [Result.model_validate_json(Path(name).read_text(encoding="utf-8")) for name in job["results"]]
    return events_of(results, [Path(plugin) for plugin in job["plugins"]])


def _rerun(job: Job) -> list[str]:
    """Runs each cell into job["results"]; the answer is the files."""
    from dpicl.run.pipeline import run_cell  # loads torch, which the other job does without
    from dpicl.run.workbench import Workbench

    bench = Workbench(load_mechanisms(Path(plugin) for plugin in job["plugins"]))
    suite = SuiteReference.model_validate(job["suite"])
    store = Store(Path(job["results"]), suite.name)
    store.prepare()
    written = []
    for data in job["cells"]:
        cell = Cell.model_validate(data)
        sys.stderr.write(f"running {cell}\n")
        with store.lock(cell):
            written.append(str(store.write(run_cell(cell, suite, bench))))
    return written


_JOBS: Mapping[str, Callable[[Job], list[Any]]] = {"events": _events, "rerun": _rerun}


def main(job_file: str, answer_file: str) -> int:
    """Does the job; the answer is {"answer": ...} or {"error": one sentence}."""
    job = json.loads(Path(job_file).read_text(encoding="utf-8"))
    document: dict[str, Any]
    try:
        document = {"answer": _JOBS[job["kind"]](job)}
    except DpiclError as error:
        document = {"error": " ".join(str(error).split())}
    Path(answer_file).write_text(json.dumps(document), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
