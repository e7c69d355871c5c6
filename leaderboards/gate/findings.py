"""What a check of the gate finds: one sentence, and the further ones that it found besides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "failed", "not checked"]


@dataclass(frozen=True)
class Finding:
    """check: its name. why: one sentence; failed: what is wrong and what to do; not checked: why not.

    others: further sentences of the same check, for instance one for each file.
    """

    check: str
    status: Status
    why: str
    others: tuple[str, ...] = ()


def verdict(check: str, problems: Sequence[str], good: str, notes: Sequence[str] = ()) -> Finding:
    """Failed with the first problem, or ok with ``good``; the rest, and notes, stand behind it."""
    if problems:
        return Finding(check, "failed", problems[0], (*problems[1:], *notes))
    return Finding(check, "ok", good, tuple(notes))


def by_sentence(found: Iterable[tuple[str, str]]) -> list[str]:
    """(file, sentence) pairs as sentences: what many files have in common is said once."""
    places: dict[str, list[str]] = {}
    for place, sentence in found:
        places.setdefault(sentence, []).append(place)
    return [
        f"{own[0]}{f' (and {len(own) - 1} more)' if len(own) > 1 else ''}: {sentence}"
        for sentence, own in places.items()
    ]


def not_checked(check: str, why: str) -> Finding:
    return Finding(check, "not checked", why)
