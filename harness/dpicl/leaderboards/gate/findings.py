"""What a check of the gate finds: one sentence, and the further ones that it found besides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from typing import Literal, NamedTuple

from dpicl.core.printable import visible

Status = Literal["ok", "failed", "not checked"]


@dataclass(frozen=True)
class Finding:
    """check: its name. why: one sentence; failed: what is wrong and what to do; not checked: why not.

    others: further sentences of the same check, for instance one for each file. Untrusted names and texts may be in all
    of them, so control and direction characters are written out (`visible`).
    """

    check: str
    status: Status
    why: str
    others: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "why", visible(self.why))
        object.__setattr__(self, "others", tuple(map(visible, self.others)))


class Outcome(NamedTuple):
    """What a check returns: its problems, what is said where there is none, and notes either way."""

    problems: Sequence[str]
    good: str = ""
    notes: Sequence[str] = ()

    def finding(self, check: str) -> Finding:
        first, *more = self.problems or [self.good]
        return Finding(check, "failed" if self.problems else "ok", first, (*more, *self.notes))


class NotChecked(Exception):
    """Raised by a check that cannot be made; the text says why. notes: what was found all the same."""

    def __init__(self, why: str, notes: Sequence[str] = ()) -> None:
        super().__init__(why)
        self.notes = notes


def by_sentence(found: Iterable[tuple[str, str]]) -> list[str]:
    """(file, problem or "") pairs as sentences: a problem that many files share is stated once."""
    places: dict[str, list[str]] = {}
    for place, problem in found:
        places.setdefault(problem, []).append(place)
    places.pop("", None)
    return [f"{own[0]}{f' (and {len(own) - 1} more)' if own[1:] else ''}: {problem}" for problem, own in places.items()]


def fault(error: Exception) -> str:
    """The sentence for an error of the gate itself: the submission is refused, the others are still examined."""
    frames = extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    return f"The gate cannot examine it ({type(error).__name__}{where}); report this, with the submission, as a fault."
