"""Writes messages to stderr, and formats the numbers and lists in them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TextIO

from dpicl.core.printable import make_printable, shorten

#: The words of the current command line; none where a program calls.
COMMAND: ContextVar[tuple[str, ...]] = ContextVar("COMMAND", default=())
#: Above it the third decimal of an epsilon is not shown.
_LARGE = 1e9
#: Things that a sentence names; of more it gives the number.
MOST_NAMED = 6


def message(text: str, stream: TextIO | None = None) -> None:
    """Anything that is not the answer. stream: where to; None: stderr as it is now."""
    stream = stream or sys.stderr
    stream.write(make_printable(shorten(text.rstrip("\n"))) + "\n")
    stream.flush()


def capitalize(text: str) -> str:
    """The text as the beginning of a sentence. A Greek letter is a symbol and stays: ε is not Ε."""
    return text if "α" <= text[:1] <= "ω" else text[:1].upper() + text[1:]


def duration(seconds: float | None) -> str:
    """'4.5 s', '45 s', '12 min', '3.4 h'; 'unknown' for None."""
    if seconds is None:
        return "unknown"
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def show_rounded_up(bound: float, digits: int = 4) -> str:
    """An upper bound that holds as it is shown: rounded up at that digit."""
    return _round(bound, digits, ROUND_CEILING)


def round_down(bound: float) -> str:
    """A lower bound that holds as it is shown: rounded down at the fourth digit."""
    return _round(bound, 4, ROUND_FLOOR)


def _round(bound: float, digits: int, way: str) -> str:
    if not 0 < bound < math.inf:
        return "infinity" if bound > 0 else f"{bound:g}"
    exact = Decimal(repr(float(bound)))
    return f"{exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), way).normalize():f}"


def count(number: int, noun: str) -> str:
    """'1 cell', '3 cells', '1,000 cells'."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def names_text(names: Iterable[str], last: str = "and") -> str:
    """'a', 'a and b', 'a, b and c'."""
    listed = list(names)
    return f" {last} ".join(([", ".join(listed[:-1])] if listed[:-1] else []) + listed[-1:])


def join_names(things: Iterable[str], most: int = MOST_NAMED) -> str:
    """'a', 'a and b', 'a, b, c, d, e, f and 3 more'."""
    listed = list(dict.fromkeys(things))
    more = len(listed) - most
    return names_text([*listed[:most], f"{more} more"] if more > 0 else listed)


def score_text(score: float) -> str:
    """A score between 0 and 1 with three decimals."""
    return f"{score:.3f}"


def signed_text(difference: float) -> str:
    """'0.031', '−0.031'."""
    return f"{difference:z.3f}".replace("-", "−")


def epsilon_text(epsilon: float | None) -> str:
    """'0', '1', '0.998', '∞', or '–' when nothing was stated. Rounded up at the third decimal, as a bound must be."""
    return _third_decimal(epsilon, lambda value: math.ceil(value - 1e-9))


def bound_text(epsilon: float | None) -> str:
    """A lower bound: as `epsilon_text`, but rounded down at the third decimal."""
    return _third_decimal(epsilon, lambda value: math.floor(value + 1e-9))


def _third_decimal(epsilon: float | None, rounded: Callable[[float], int]) -> str:
    if epsilon is None:
        return "–"
    if math.isinf(epsilon):
        return "∞"
    return f"{rounded(epsilon * 1000) / 1000:.6g}" if epsilon < _LARGE else f"{epsilon:.6g}"


def queries_words(queries: int | None) -> str:
    """'any number of queries', '1 query', '30 queries'."""
    return (
        "any number of queries"
        if queries is None
        else f"{queries:,} " + ("query" if queries == 1 else "queries")
    )


def confidence_text(confidence: float) -> str:
    """'95%', '97.5%', '98.3%'. Rounded down, as a promise must be; at 1 nothing was sampled."""
    if confidence == 1:
        return "no sampling error"
    return f"{math.floor(confidence * 1000 + 1e-6) / 10:g}%"
