"""What every benchmark prints: both sides' seconds from one run, their ratio, whether they agree, and the machine."""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dpicl.results import manifest

T = TypeVar("T")


def report(name: str, ours_seconds: float, reference_seconds: float, agreement: bool, **details: Any) -> dict[str, Any]:
    """The JSON of one benchmark, or of one of its settings; `main` adds the machine.

    ratio: how many times faster ours is. agreement: whether both sides gave the same answer, as the benchmark says.
    """
    return {
        "name": name,
        "ratio": round(reference_seconds / ours_seconds, 2),
        "agreement": bool(agreement),
        "ours_seconds": round(ours_seconds, 4),
        "reference_seconds": round(reference_seconds, 4),
        **details,
    }


def of_settings(name: str, rows: Sequence[dict[str, Any]], **details: Any) -> dict[str, Any]:
    """The JSON of a benchmark of several settings. rows: a `report` of each."""
    ours, theirs = (sum(row[key] for row in rows) for key in ("ours_seconds", "reference_seconds"))
    agreement, lowest = all(row["agreement"] for row in rows), min(row["ratio"] for row in rows)
    return report(name, ours, theirs, agreement, lowest_ratio=lowest, settings=rows, **details)


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What it gives, and the seconds that it took."""
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def machine() -> dict[str, Any]:
    """The processor, its cores that this process may use, and the versions that matter for speed."""
    here = manifest.machine()
    return {
        "processor": here.cpu, "cores": here.cores, "system": platform.system(), "python": platform.python_version()
    }  # fmt: skip


def main(run: Callable[[], dict[str, Any]]) -> int:
    """Runs a benchmark and prints it: one JSON document with --json, else one line. Exit code 1 on disagreement."""
    parser = argparse.ArgumentParser(description=run.__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    result = {**run(), "machine": machine()}
    if arguments.json:
        print(json.dumps(result, indent=2))
    else:
        sides = f"{result['ours_seconds']:g} s against {result['reference_seconds']:g} s"
        print(f"{result['name']}: {result['ratio']:g} times faster ({sides}), agreement: {result['agreement']}")
    return 0 if result["agreement"] else 1
