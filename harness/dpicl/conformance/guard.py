"""Calls untrusted code with a limit on its processor time; no exception of it ends the program."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

#: Seconds of CPU time that one run may take: some hundred times what it should.
RUN_SECONDS = 20.0

_Value = TypeVar("_Value")


class TooLong(BaseException):
    """A run takes too much processor time. No Exception, so that `except Exception` does not catch it."""


def attempt(
    action: Callable[[], _Value],
    seconds: float | None = None,
) -> tuple[_Value | None, BaseException | None]:
    """(what the action returns, None), or (None, what it raises).

    seconds: of processor time, then it raises TooLong; None for no limit, and there is none outside of the main thread.
    KeyboardInterrupt ends the program, whoever raises it: that is no verdict, and so no pass.
    """
    try:
        with _limit_time(seconds):
            return action(), None
    except KeyboardInterrupt:
        raise
    except BaseException as raised:  # whatever else somebody's mechanism raises is a finding
        return None, raised


@contextmanager
def _limit_time(seconds: float | None) -> Iterator[None]:
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise TooLong(f"it takes more than {seconds:g} s of processor time")

    before = signal.signal(signal.SIGPROF, ring)
    # again every second, for code that catches everything
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
