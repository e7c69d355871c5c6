"""What benchmarks share: the options that each takes, and what it prints."""

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


def describe(result: dict[str, Any]) -> str:
    """One line about a `report`."""
    sides = f"{result['ours_seconds']:g} s against {result['reference_seconds']:g} s"
    return f"{result['name']}: {result['ratio']:g} times faster ({sides}), agreement: {result['agreement']}"


def table(rows: Sequence[dict[str, Any]]) -> str:
    """A line a row: name and value of each column."""
    return "\n".join("  ".join(f"{name} {value}" for name, value in row.items()) for row in rows)


def main(
    run: Callable[..., dict[str, Any]],
    doc: str | None,
    describe: Callable[[dict[str, Any]], str] = describe,
    **options: dict[str, Any],
) -> int:
    """Runs a benchmark and prints it: one JSON document with --json, else as ``describe`` says it.

    options: argparse's keywords for each argument of ``run``. Returns 1 where both sides disagree.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    for name, keywords in options.items():
        parser.add_argument(f"--{name.replace('_', '-')}", **keywords)
    given = vars(parser.parse_args())
    as_json = given.pop("json")
    result, seconds = timed(lambda: run(**given))
    here = manifest.machine()
    machine = {"processor": here.cpu, "cores": here.cores, "system": platform.system()}
    result |= {"seconds": round(seconds, 1), "machine": {**machine, "python": platform.python_version()}}
    print(json.dumps(result, indent=1) if as_json else describe(result))
    return 0 if result.get("agreement", True) else 1
