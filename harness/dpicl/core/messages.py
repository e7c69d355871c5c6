"""Sentences for people on stderr, and the words in them."""

from __future__ import annotations

import math
import sys
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from dpicl.core.printable import printable, shortened


def message(text: str) -> None:
    """Anything that is not the answer."""
    sys.stderr.write(printable(shortened(text.rstrip("\n"))) + "\n")
    sys.stderr.flush()


def capitalized(text: str) -> str:
    """The text as the beginning of a sentence. A Greek letter is a symbol and stays: ε is not Ε."""
    return text if "α" <= text[:1] <= "ω" else text[:1].upper() + text[1:]


def duration(seconds: float | None) -> str:
    """'4.5 s', '45 s', '12 min', '3.4 h'; 'unknown' for None."""
    if seconds is None:
        return "unknown"
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def rounded_up(bound: float, digits: int = 4) -> str:
    """An upper bound that holds as it is shown: rounded up at that digit."""
    return _rounded(bound, digits, ROUND_CEILING)


def rounded_down(bound: float, digits: int = 4) -> str:
    """A lower bound that holds as it is shown: rounded down at that digit."""
    return _rounded(bound, digits, ROUND_FLOOR)


def _rounded(bound: float, digits: int, way: str) -> str:
    if not 0 < bound < math.inf:
        return "infinity" if bound > 0 else f"{bound:g}"
    exact = Decimal(repr(float(bound)))
    return f"{exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), way).normalize():f}"


def count(number: int, noun: str) -> str:
    """'1 cell', '3 cells'."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
