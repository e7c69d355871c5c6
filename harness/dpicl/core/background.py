"""Threads of the harness's own. What they do is no side effect of a mechanism that runs at the same time."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

#: A thread -> the module whose code asked for it.
_askers: dict[int, str] = {}


def in_background(work: Callable[[], object], name: str) -> None:
    """Runs this in a daemon thread: nothing waits for it when the process ends."""
    asker = str(sys._getframe(1).f_globals.get("__name__", ""))

    def run() -> None:
        _askers[threading.get_ident()] = asker
        try:
            work()
        finally:
            del _askers[threading.get_ident()]

    threading.Thread(target=run, name=name, daemon=True).start()


def background_of() -> str | None:
    """The module that asked for the thread that calls this; None outside of `in_background`."""
    return _askers.get(threading.get_ident())
