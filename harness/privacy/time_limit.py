"""A time limit for one computation that works in every thread (no signals, which only the main thread may use)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

#: Seconds that one accountant may take for one event.
ACCOUNTANT_SECONDS = 60.0


class TookTooLong(Exception):
    """A computation that did not end in time."""


def within(seconds: float, compute: Callable[[], Result]) -> Result:
    """The result of ``compute()``, which runs in a daemon thread of its own.

    Its exceptions are raised here. Raises TookTooLong after ``seconds``; the thread is then abandoned: it cannot be
    stopped, but it never keeps the program from ending.
    """
    outcome: list[Result] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            outcome.append(compute())
        except BaseException as error:  # handed to the caller's thread below
            failure.append(error)

    worker = threading.Thread(target=work, daemon=True, name="accountant")
    worker.start()
    worker.join(seconds)
    if worker.is_alive():
        raise TookTooLong(f"no answer within {seconds:g} s")
    if failure:
        raise failure[0]
    return outcome[0]
