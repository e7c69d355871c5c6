"""Handles Ctrl-C and SIGTERM: work stops at either, and critical sections ignore both."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ignore_interrupts() -> Iterator[None]:
    """Neither is heard meanwhile: workers are being ended, and a second one would leave some."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stop_on_term() -> Iterator[None]:
    """What ends a job (Slurm, Kubernetes, `kill`) stops the work as Ctrl-C does, where nobody else handles it: claims
    are given back at once."""
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
