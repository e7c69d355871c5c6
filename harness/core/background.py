"""Threads of the harness's own. What they do is no side effect of a mechanism that runs at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable

_idents: set[int] = set()


def in_background(work: Callable[[], object], name: str) -> None:
    """Runs this in a daemon thread: nothing waits for it when the process ends."""

    def run() -> None:
        _idents.add(threading.get_ident())
        try:
            work()
        finally:
            _idents.discard(threading.get_ident())

    threading.Thread(target=run, name=name, daemon=True).start()


def is_background() -> bool:
    """Whether a thread of `in_background` calls this."""
    return threading.get_ident() in _idents
