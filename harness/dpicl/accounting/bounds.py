"""The result of an accountant."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: Where a theorem or an exact recursion gives the upper bound, its slack is to be at most this.
LARGEST = 1.05


@dataclass(frozen=True)
class Bounds:
    """One epsilon, bracketed: the true one lies in [low, upper], and only `upper` is ever claimed.

    low: a lower bound by the accountant; 0 where the theorem used gives an upper bound only.
    accountants: each accountant's answer, as JSON: {"exact": x}, {"prv": {...}, "pld": x}, {"rdp": x}; plus "rule", the
        theorem in words, where one was applied on top.
    notes: what the reader should know (an accountant that gave up, for example).
    """

    low: float
    estimate: float
    upper: float
    accountants: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
