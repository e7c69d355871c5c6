"""Keeps the current command line, for messages and files that quote it."""

from __future__ import annotations

import shlex

from dpicl.core.messages import COMMAND as COMMAND


def words(otherwise: str) -> list[str]:
    """Those after the verb; for a program, what would say the same."""
    return list(COMMAND.get()[1:]) or [otherwise]


def line(otherwise: str) -> str:
    """`dpicl VERB ...`."""
    return shlex.join(["dpicl", *COMMAND.get()]) if COMMAND.get() else otherwise
