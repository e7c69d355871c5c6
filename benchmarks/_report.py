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


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What it gives, and the seconds that it took."""
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def table(rows: Sequence[dict[str, Any]]) -> str:
    """A line a row: name and value of each column."""
    return "\n".join("  ".join(f"{name} {value}" for name, value in row.items()) for row in rows)


def main(
    run: Callable[..., dict[str, Any]],
    doc: str | None,
    describe: Callable[[dict[str, Any]], str],
    **options: dict[str, Any],
) -> int:
    """Runs a benchmark and prints it: one JSON document with --json, else as ``describe`` says it.

    options: argparse's keywords for each argument of ``run``. Returns 1 where its `agreement` is False.
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
