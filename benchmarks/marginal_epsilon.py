"""What a second epsilon costs once a voting cell is finished: the model's answers are there, only the release is new.

    python -m benchmarks.marginal_epsilon --json

Runs voting on AG News (synthetic records unless $DPICL_DATA holds real ones) with the embedded model in an empty
cache: first epsilon = 1, then epsilon = 8 and another noise seed, in one process with everything loaded.
`reference_seconds` is the first cell, `ours_seconds` the second one, both without loading; `share` is their quotient,
promised to be at most 0.05. The cells agree when the model read nothing for the second, and both releases stayed inside
their budgets.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

from benchmarks._report import main, report
from dpicl.core.cell import Cell
from dpicl.data.task import load_config
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.options import resolve_options
from dpicl.mechanism.registry import load_mechanisms
from dpicl.results.schema import Result, SuiteReference
from dpicl.run.pipeline import run_cell
from dpicl.run.workbench import Workbench

TASK = "agnews"
OPTIONS = {"slots": 10, "examples_per_slot": 2, "record_tokens": 32, "sampling_seed": 0}
QUERIES = 60
PROMISED_SHARE = 0.05


def run() -> dict[str, Any]:
    """Two cells of one collection, in a cache of their own."""
    from dpicl.data.config import load_config, source_spec
    from dpicl.data.sources import resolve

    with tempfile.TemporaryDirectory() as folder:
        bench = Workbench(load_mechanisms())
        source = resolve("auto", source_spec(load_config(TASK)))
        cells = [_cell(bench.mechanisms["voting"].cls, source, *terms) for terms in ((1.0, 0), (8.0, 1))]
        bench.model(cells[0].model)
        bench.task(cells[0])
        os.environ["DPICL_CACHE"] = folder
        first, second = (run_cell(cell, SuiteReference(name="benchmark", version=1, hash=""), bench) for cell in cells)
    share = _seconds(second) / _seconds(first)
    inside = all(cell.privacy.epsilon_proved <= cell.privacy.epsilon_target for cell in (first, second))
    return report(
        "marginal_epsilon",
        _seconds(second),
        _seconds(first),
        second.cost.tokens_read == 0 and inside,
        share=round(share, 4),
        promised_share=PROMISED_SHARE,
        phases={"first": first.cost.seconds, "second": second.cost.seconds},
        tokens_read=[first.cost.tokens_read, second.cost.tokens_read],
        queries=QUERIES,
        source=source,
        model=first.manifest.model.name,
        options=OPTIONS,
    )


def _cell(cls: type[Mechanism], source: str, epsilon: float, seed: int) -> Cell:
    return Cell(
        suite="benchmark", suite_version=1, task=TASK, task_version=load_config(TASK)["metadata"]["version"],
        source=source, mechanism="voting", label="voting", options=resolve_options(cls, TASK, OPTIONS),
        model="embedded", epsilon=epsilon, delta=1e-5, seed=seed, shots=4, test_records=QUERIES, train_records=None,
        noise="seeded", mode="proved",
    )  # fmt: skip


def _seconds(result: Result) -> float:
    """Everything but loading."""
    return sum(seconds for phase, seconds in result.cost.seconds.items() if phase != "load")


if __name__ == "__main__":
    sys.exit(main(run))
