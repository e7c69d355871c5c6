"""Locks that the operating system frees when their holder dies, however it dies (filelock, by flock)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout


@contextmanager
def held(path: Path, wait: bool = False, private: bool = False) -> Iterator[bool]:
    """Holds a lock file; yields False, without it, when another process has it and ``wait`` is off.

    The holder may remove the file before it lets go: another one of that name is another lock.
    private: a new one is its owner's alone to read. Raises OSError.
    """
    lock = FileLock(path, mode=0o600) if private else FileLock(path)
    with suppress(Timeout):
        lock.acquire(blocking=wait)
    try:
        yield lock.is_locked
    finally:
        lock.release()
