"""Conceals the output and errors of code that holds private records, for secure noise.

What such code says on its own (an error's message, a warning, a log line, something printed) may quote a record, and no
epsilon pays for it. So it is dropped, whoever said it: a mechanism, a model, a library.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import (
    AbstractContextManager,
    ExitStack,
    contextmanager,
    nullcontext,
    redirect_stderr,
    redirect_stdout,
)
from functools import cache
from os import devnull
from typing import TextIO

from dpicl.core.errors import Concealed

_RELEASE = (
    "The release failed, and with secure noise no error is shown, since it may quote a private record. To see it, run"
    " the same mechanism with --noise seeded on public records."
)


def conceal(secure: bool, sentence: str = _RELEASE) -> AbstractContextManager[None]:
    """With ``secure`` the block is silent, and any error of it becomes a `Concealed` with a fixed sentence: without its
    message, type and traceback."""
    return _Concealment(sentence) if secure else nullcontext()


class _Concealment(AbstractContextManager[None]):
    def __init__(self, sentence: str) -> None:
        self._sentence, self._silence = sentence, ExitStack()

    def __enter__(self) -> None:
        self._silence.enter_context(_silence())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: object,
    ) -> None:
        self._silence.close()
        if kind is None:
            return
        failure = (
            KeyboardInterrupt()
            if issubclass(kind, KeyboardInterrupt)
            else Concealed(self._sentence)
        )
        # The new error holds neither the old one nor its frames, and no frame of its own does.
        del kind, value, trace
        try:
            raise failure
        finally:
            failure.__context__ = None


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
