"""Numbers and names as the board shows them, and notes: what is said of several things stands once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from dpicl.core.messages import named


def p_number(p: float) -> str:
    """'0.031', '<0.001'."""
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def recovery_text(recovery: float) -> str:
    """A recovery as a percentage."""
    return f"{100 * recovery:.0f}%"


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


def gathered(notes: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Of (what is said, of what): 'WHAT: a, b and c.', in the order in which it is said first."""
    found: dict[str, list[str]] = defaultdict(list)
    for said, about in notes:
        found[said].append(about)
    return tuple(f"{said}: {named(about)}." for said, about in found.items())
