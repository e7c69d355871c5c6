"""Numbers and names as the board shows them, and notes: what is said of several things stands once."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable

#: Things that a note names; of more it gives the number.
MOST_NAMED = 6
#: Above it the third decimal of an epsilon is not shown.
_LARGE = 1e9


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


def score_text(score: float) -> str:
    """A score between 0 and 1 with three decimals."""
    return f"{score:.3f}"


def signed_text(difference: float) -> str:
    """'0.031', '−0.031'."""
    return f"{difference:z.3f}".replace("-", "−")


def p_number(p: float) -> str:
    """'0.031', '<0.001'."""
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def recovery_text(recovery: float | None) -> str:
    """A recovery as a percentage, 'n/a' when it is not defined."""
    return "n/a" if recovery is None else f"{100 * recovery:.0f}%"


def interval_text(interval: tuple[float, float] | None) -> str:
    """The limits of a recovery's interval as percentages, '–' where it has none."""
    return "–" if interval is None else " to ".join(recovery_text(end) for end in interval)


def queries_text(queries: int | None) -> str:
    """Q, the number of queries that an epsilon covers."""
    return "any" if queries is None else f"{queries:,}"


def seeds_text(seeds: Iterable[int]) -> str:
    """Seeds with runs drawn together: (0, 1, 2, 5) is '0–2, 5'."""
    runs: list[list[int]] = []
    for seed in sorted(seeds):
        if runs and seed == runs[-1][1] + 1:
            runs[-1][1] = seed
        else:
            runs.append([seed, seed])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in runs)


def queries_words(queries: int | None) -> str:
    """'any number of queries', '1 query', '30 queries'."""
    return "any number of queries" if queries is None else f"{queries:,} " + ("query" if queries == 1 else "queries")


def names_text(names: Iterable[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    listed = list(names)
    return " and ".join(([", ".join(listed[:-1])] if listed[:-1] else []) + listed[-1:])


def counted(number: int, noun: str = "result") -> str:
    """'1 result', '2 results'."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def confidence_text(confidence: float) -> str:
    """'95%', '97.5%', '98.3%'. Rounded down, as a promise must be; at 1 nothing was sampled."""
    if confidence == 1:
        return "no sampling error"
    return f"{math.floor(confidence * 1000 + 1e-6) / 10:g}%"


def gathered(notes: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Of (what is said, of what): 'WHAT: a, b and c.', in the order in which it is said first."""
    found: dict[str, list[str]] = defaultdict(list)
    for said, about in notes:
        found[said].append(about)
    return tuple(f"{said}: {named(about)}." for said, about in found.items())


def named(things: Iterable[str], most: int = MOST_NAMED) -> str:
    """'a', 'a and b', 'a, b, c, d, e, f and 3 more'."""
    listed = list(dict.fromkeys(things))
    more = len(listed) - most
    return names_text([*listed[:most], f"{more} more"] if more > 0 else listed)
