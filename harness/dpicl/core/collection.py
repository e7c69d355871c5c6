"""Pauses Python's garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_collection() -> Iterator[None]:
    """Keeps the garbage collector from walking, again and again, through objects that all stay: most of the time that
    ten thousand results take to read. What is no part of a circle is freed as ever.

    Afterwards these objects count as old: the two collections of young ones that would walk through all of them are
    left out.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.freeze()
            gc.unfreeze()  # into the oldest generation
            gc.enable()
