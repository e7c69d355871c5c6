"""The result of a check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpicl.harness.mechanism.outputs import instead_of

Status = Literal["passed", "failed", "not applicable"]

#: The false-alarm probability of every single statistical test, for a mechanism that does what it says.
FALSE_ALARM = 1e-4


@dataclass(frozen=True)
class Verdict:
    """why: one sentence. Failed: what was seen and what to do. Passed: what was checked. Else: why there is nothing to
    check."""

    status: Status
    why: str


def passed(why: str) -> Verdict:
    return Verdict("passed", why)


def failed(why: str) -> Verdict:
    """why: may quote a mechanism's output; what a terminal would not print is escaped."""
    return Verdict("failed", one_line(why))


def not_applicable(why: str) -> Verdict:
    return Verdict("not applicable", why)


def one_line(text: str) -> str:
    """One line of characters that every terminal prints."""
    line = " ".join(text.split())
    return "".join(c if c.isascii() and c.isprintable() else ascii(c)[1:-1] for c in line)


def raised(error: BaseException) -> str:
    """'ValueError: what it says', shortened; also of an error that cannot be written out."""
    try:
        said = one_line(str(error))[:200]
    except BaseException:  # its own __str__ fails
        said = "and its message cannot be read"
    return f"{type(error).__name__}: {said}".rstrip(": ") + instead_of(error)
