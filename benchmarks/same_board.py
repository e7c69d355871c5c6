"""Compares two documents of `dpicl board SUITE --json`: every number must be equal; keys may be added.

    python -m benchmarks.same_board OLD.json NEW.json

Prints a line a difference and the number of values that were compared; exit code 1 where there is a difference. The
path of the written page is no part of a board.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def differences(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """A line for every value of the old document that the new one lacks or has changed."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            if key not in new:
                yield f"{place}.{key}: gone"
            elif (place, key) != ("", "page"):
                yield from differences(value, new[key], f"{place}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, f"{place}[{number}]")
    elif type(old) is not type(new) or old != new:
        yield f"{place}: {str(old)[:100]} → {str(new)[:100]}"


def size(document: Any) -> int:
    """How many plain values a document holds."""
    if isinstance(document, dict | list):
        return sum(map(size, document.values() if isinstance(document, dict) else document))
    return 1


def main() -> int:
    """Exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "documents", nargs=2, type=Path, metavar="JSON", help="the old one and the new one"
    )
    old, new = (json.loads(path.read_text("utf-8")) for path in parser.parse_args().documents)
    changed = list(differences(old, new))
    print(*changed, f"{len(changed)} differences in {size(old)} values", sep="\n")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
