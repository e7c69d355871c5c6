"""Listens to the audit events by which Python reports what code does (PEP 578), and says whose code that is."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType


def listen(note: Callable[..., None]) -> None:
    """From now on `note(event, *arguments)` is called at every audit event of this process, except for those that it
    causes itself."""
    listening = threading.local()

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if getattr(listening, "now", False):
            return
        listening.now = True
        try:
            note(event, *arguments)
        finally:
            listening.now = False

    sys.addaudithook(hook)


def calling_modules() -> Iterator[str]:
    """Names of the modules whose code is running, from the innermost frame outwards."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name != __name__:
            yield name
        frame = frame.f_back
