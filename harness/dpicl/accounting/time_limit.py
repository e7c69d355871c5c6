"""Limits the time of a computation in any thread (no signals, which only the main thread may use)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

Result = TypeVar("Result")

#: Seconds that one accountant may take for one event.
ACCOUNTANT_SECONDS = 60.0


class TookTooLong(Exception):
    """A computation that did not end in time."""


def run_within(seconds: float, compute: Callable[[], Result]) -> Result:
    """The result of ``compute()``, which runs in a daemon thread of its own.

    Its exceptions are raised here. Raises TookTooLong after ``seconds``; the thread is then abandoned: it cannot be
    stopped, but it never keeps the program from ending.
    """
    future: Future[Result] = Future()

    def work() -> None:
        try:
            future.set_result(compute())
        except BaseException as error:  # raised in the caller's thread below
            future.set_exception(error)

    threading.Thread(target=work, daemon=True, name="accountant").start()
    if not wait([future], seconds).done:
        raise TookTooLong(f"no answer within {seconds:g} s")
    return future.result()
