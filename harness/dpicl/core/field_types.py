"""Types of the fields of files: ranges of numbers, and infinity where it is allowed."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from dpicl.core.json_text import WHOLE


def _infinities(value: Any) -> Any:
    return float(value) if value in ("Infinity", "-Infinity") else value


def _a_number(value: float) -> float:
    if math.isnan(value):
        raise ValueError("should be a number")
    return value


#: Epsilon >= 0; "Infinity" in a file, since JSON has no number for it. Never NaN.
Epsilon = Annotated[float, BeforeValidator(_infinities), Field(ge=0)]
Delta = Annotated[float, Field(gt=0, lt=1)]
#: A score or a rate in [0, 1].
Share = Annotated[float, Field(ge=0, le=1)]
#: Any number but NaN; the infinite ones are texts in a file.
Real = Annotated[float, BeforeValidator(_infinities), AfterValidator(_a_number)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
#: Seconds, megabytes.
Amount = Annotated[float, Field(ge=0, lt=1e9)]
Count = Annotated[int, Field(ge=0, lt=WHOLE)]
Positive = Annotated[int, Field(ge=1, lt=WHOLE)]


def written_if_set(default: Any = None) -> Any:
    """A field of a later version: a file has it where it is not its default, so that older files stay as they are."""
    return Field(default=default, exclude_if=lambda value: value == default)


def parse_number(text: str) -> float:
    """A decimal, or a fraction such as 20/30000; 'inf' or '∞' is infinity, 'nan' no number.

    Raises ValueError for anything else, also for what is too large: nothing becomes infinite by its size.
    """
    above, slash, below = text.replace("∞", "inf").partition("/")
    parts = [float(part) for part in ((above, below) if slash else (above,))]
    if slash and (not parts[1] or not all(map(math.isfinite, parts))):
        raise ValueError("no number")
    if math.isinf(parts[0]) and not re.fullmatch(r"\s*[-+]?inf(inity)?\s*", above, re.IGNORECASE):
        raise ValueError("too large for a number")
    return parts[0] / parts[1] if slash else parts[0]


def number(value: Any) -> Any:
    """A float from a number or from a text like '1/30000'; other values are left to the schema."""
    if isinstance(value, bool):
        raise ValueError("must be a number")
    if isinstance(value, str):
        try:
            return parse_number(value)
        except ValueError:
            raise ValueError(
                "must be a number (a decimal, or a fraction such as 1/30000)"
            ) from None
    return value


def _require_whole(value: Any) -> Any:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError("must be a whole number")
    return value


def _require_positive(value: float) -> float:
    if not value > 0:
        raise ValueError("must be an epsilon above 0 ('inf' or .inf for no privacy)")
    return value


#: What people write in a suite, on the command line or in a program: texts are numbers too.
Number = Annotated[float, BeforeValidator(number)]
Whole = Annotated[int, BeforeValidator(_require_whole)]
Seed = Annotated[Whole, Field(ge=0, lt=WHOLE)]
TargetEpsilon = Annotated[Number, AfterValidator(_require_positive)]
TargetDelta = Annotated[Number, Field(gt=0, lt=1)]
#: Records, shots, queries, runs: no data set and no service has more, and every number made from them stays exact.
Quantity = Annotated[Whole, Field(ge=1, le=10**9)]
Shots = Annotated[Quantity, Field(le=10_000)]
