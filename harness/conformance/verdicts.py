"""What a check says of a mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["passed", "failed", "not applicable"]

#: The false-alarm probability of every single statistical test, for a mechanism that does what it says.
FALSE_ALARM = 1e-4


@dataclass(frozen=True)
class Verdict:
    """why: one sentence. Failed: what was seen and what to do. Passed: what was looked at. Else: why there is
    nothing to look at."""

    status: Status
    why: str


def passed(why: str) -> Verdict:
    return Verdict("passed", why)


def failed(why: str) -> Verdict:
    return Verdict("failed", why)


def not_applicable(why: str) -> Verdict:
    return Verdict("not applicable", why)
