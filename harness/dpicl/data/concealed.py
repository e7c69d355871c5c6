"""With secure noise, code that holds private records says nothing but what it releases.

What such code says on its own (an error's message, a warning, a log line, something printed) may quote a record, and no
epsilon pays for it. So it is dropped, whoever said it: a mechanism, a model, a library.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from os import devnull
from typing import TextIO

from dpicl.core.errors import Concealed

_RELEASE = (
    "The release failed, and with secure noise no error is shown, since it may quote a private record. To see it, run"
    " the same mechanism with --noise seeded on public records."
)


@contextmanager
def concealed(secure: bool, sentence: str = _RELEASE) -> Iterator[None]:
    """With ``secure`` the block is silent, and any error of it becomes a `Concealed` with a fixed sentence: without its
    message, type and traceback."""
    if not secure:
        yield
        return
    failure: BaseException | None = None
    with _silence():
        try:
            yield
        except KeyboardInterrupt:
            failure = KeyboardInterrupt()
        except BaseException:  # also SystemExit, whose text Python prints
            failure = Concealed(sentence)
    if failure is not None:
        try:
            raise failure
        finally:
            failure.__context__ = None  # the new error holds neither the old one nor its frames


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
