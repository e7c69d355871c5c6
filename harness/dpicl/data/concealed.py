"""With secure noise, code that holds private records says nothing but what it releases.

What such code says on its own (an error's message, a warning, a log line, something printed) may quote a record, and no
epsilon pays for it. So it is dropped, whoever said it: a mechanism, a model, a library.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from os import devnull
from typing import TextIO, TypeVar

from dpicl.core.errors import Concealed

T = TypeVar("T")

_RELEASE = (
    "The release failed, and with secure noise no error is shown, since it may quote a private record. To see it, run"
    " the same mechanism with --noise seeded on public records."
)


def concealed(secure: bool, call: Callable[[], T], sentence: str = _RELEASE) -> T:
    """What ``call`` returns. With ``secure`` it is silent, and any error of it becomes a `Concealed` with a fixed
    sentence: without its message, type and traceback."""
    if not secure:
        return call()
    stopped = False
    with _silence():
        try:
            return call()
        except KeyboardInterrupt:
            stopped = True
        except BaseException:  # also SystemExit, whose text Python prints
            pass
    # Raised here, where nothing is being handled: the new error holds neither the old one nor its frames.
    if stopped:
        raise KeyboardInterrupt
    raise Concealed(sentence)


@contextmanager
def _silence() -> Iterator[None]:
    """No output of Python code in this process: prints, warnings, log lines."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(_nowhere()), redirect_stderr(_nowhere()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@cache
def _nowhere() -> TextIO:
    """Stays open: what is made in silence may keep it."""
    return open(devnull, "w", encoding="utf-8")
