"""Notes: what a reader must know beside the numbers. What is said of several things stands once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from dpicl.leaderboards.model.text import names_text

#: Things that a note names; of more it gives the number.
MOST_NAMED = 6


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
