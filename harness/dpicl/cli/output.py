"""Writes answers to stdout and messages to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from dpicl.core.json_text import to_plain
from dpicl.core.printable import make_printable

if TYPE_CHECKING:
    from dpicl.tables.document import Block


@dataclass(frozen=True)
class Answer:
    """What a command answers: a JSON document; for people blocks, and texts that are not wrapped; the exit code."""

    document: Any
    shown: Iterable[Block | str]
    code: int = 0


def emit(shown: Iterable[Block | str]) -> None:
    """The answer, for people."""
    from dpicl.tables.console import to_text

    for is_text, parts in groupby(shown, key=lambda part: isinstance(part, str)):
        if is_text:
            sys.stdout.writelines(make_printable(str(part).rstrip("\n")) + "\n" for part in parts)
        else:
            sys.stdout.write(to_text(part for part in parts if not isinstance(part, str)))


def emit_json(document: Any) -> None:
    """The answer as one JSON document; infinity and NaN are texts, as in result files."""
    sys.stdout.write(json.dumps(to_plain(document), indent=1) + "\n")
