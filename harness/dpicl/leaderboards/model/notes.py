"""Notes: what a reader must know beside the numbers. The most important first, and what repeats once, with a count."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from dpicl.leaderboards.model.text import names_text

#: Things that a note names; of more it gives the number.
MOST_NAMED = 6
#: Different notes of one weight; of more the last one says what they are about.
MOST_NOTES = 8


class Weight(IntEnum):
    """How important a note is, the most important first."""

    MODEL = 0
    REFUTED = 1
    DOUBT = 2
    UNRANKED = 3
    PROOF = 4
    LEFT_OUT = 5
    SEEDS = 6
    RANKING = 7


@dataclass(frozen=True)
class Note:
    """about: what it is said of ('tang at ε = 1 on agnews'), or "". one: what follows it, without the full stop.

    many, unit: the same for several: '12 rows are not ranked: …'. Where nothing is named, ``one`` is the sentence.
    """

    weight: Weight
    about: str
    one: str
    many: str = ""
    unit: str = "rows"


def gathered(notes: Iterable[Note]) -> tuple[str, ...]:
    """One sentence for everything of which the same is said, by weight; within one weight in the given order."""
    by_weight: dict[Weight, dict[tuple[str, str, str], dict[str, None]]] = defaultdict(dict)
    for note in notes:
        by_weight[note.weight].setdefault((note.one, note.many or note.one, note.unit), {})[note.about] = None
    return tuple(text for weight in sorted(by_weight) for text in _of_one_weight(by_weight[weight]))


def named(things: Iterable[str]) -> str:
    """'a', 'a and b', 'a, b, c, d, e, f and 3 more'."""
    listed = list(dict.fromkeys(things))
    more = len(listed) - MOST_NAMED
    return names_text([*listed[:MOST_NAMED], f"{more} more"] if more > 0 else listed)


def _of_one_weight(found: Mapping[tuple[str, str, str], Mapping[str, None]]) -> Iterator[str]:
    kept = len(found) if len(found) <= MOST_NOTES else MOST_NOTES - 1
    for (one, many, unit), about in list(found.items())[:kept]:
        things = list(about)
        yield f"{things[0]}{one}." if len(things) == 1 else f"{len(things)} {unit}{many} ({named(things)})."
    if kept < len(found):
        rest = [one for about in list(found.values())[kept:] for one in about if one]
        yield f"{len(found) - kept} more notes of this kind{f' ({named(rest)})' if rest else ''}."
