"""Marks: what a reader must know of the proved ε of a row, by rules over its results and never by its name.

`up_to_rounding` and `checked` are the rules; everything that shows a row shows its marks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.results import Result

#: Precisions in which the rows of a batch move each other by 1e-5 and less (docs/accounting.md, floating point).
FINE_DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class Mark:
    """sign: beside the row's name. name: in a few words. why: what it means, as the end of a sentence."""

    sign: str
    name: str
    why: str


ROUNDING = Mark(
    "≈",
    "proved up to rounding",
    "the demonstrations were made by a model in less than float32, where one record may change how the prompts of"
    " other slots are rounded; the proof leaves that out (docs/accounting.md, floating point)",
)
NOT_CHECKED = Mark(
    "‡",
    "plug-in, not checked",
    "no result says that the mechanism's file passed `dpicl check`, so how far its ledger can be trusted is open",
)


def up_to_rounding(result: Result) -> bool:
    """Whether the proof holds for real numbers, and the code that ran may depart from them by a visible amount.

    So it is for demonstrations (they serve any number of queries) that cost a private event and a finite ε, where the
    model's dtype is coarser than float32. Answer mechanisms read every slot alone.
    """
    privacy = result.privacy
    finite = math.isfinite(privacy.epsilon_proved)
    return privacy.queries is None and finite and _private(privacy.event) and result.manifest.dtype not in FINE_DTYPES


def checked(result: Result) -> bool | None:
    """Whether the plug-in file behind a result passed the conformance kit; None for a mechanism of the package.

    A result file has no record of it, so for a plug-in the answer is no.
    """
    return None if result.cell.plugin is None else False


def marks_of(results: Iterable[Result]) -> tuple[Mark, ...]:
    """The marks of a row: one bad seed is enough."""
    found = list(results)
    rules = ((ROUNDING, any(map(up_to_rounding, found))), (NOT_CHECKED, any(checked(one) is False for one in found)))
    return tuple(mark for mark, holds in rules if holds)


def signs(marks: Iterable[Mark]) -> str:
    """'≈‡'."""
    return "".join(mark.sign for mark in marks)


def _private(event: Mapping[str, Any]) -> bool:
    """Whether any part of an event, as `harness.privacy.events.to_json` writes it, is more than NoOp."""
    left: list[Any] = [event]
    while left:
        match left.pop():
            case {"event": "none"}:
                continue
            case {"event": "parallel", "of": dict(branches)}:
                left.extend(branches.values())
            case {"event": "compose", "of": list(parts)}:
                left.extend(parts)
            case {"event": "poisson" | "fixed_size" | "repeat", "of": inner}:
                left.append(inner)
            case _:
                return True
    return False
