"""Locks that the operating system frees when their holder dies, however it dies (flock), and what they are for here:
telling a temporary folder that somebody is filling from one that a killed process left behind.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: The lock file in a temporary folder.
_LOCK = "lock"


def acquire(path: Path, wait: bool, mode: int = 0o666) -> int | None:
    """An open, locked descriptor of the lock file; None when another process has it and ``wait`` is off.

    The holder may remove the file before it lets go, so a lock counts only when its file is still the one at that path.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, mode)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if os.fstat(descriptor).st_ino == os.stat(path).st_ino:
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except FileNotFoundError:
            pass  # removed by its last holder between open and lock: take a new one
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


@contextmanager
def temporary_folder(parent: Path, name: str) -> Iterator[Path]:
    """An empty folder in a new one, ``.name-XXXX``, that is this process's while it lives and is removed at the end.

    What is moved out of it stays. `remove_abandoned` of another process leaves it alone until this one has ended.
    Raises OSError.
    """
    path, descriptor = _claimed(parent, name)
    try:
        content = path / "content"
        content.mkdir(mode=0o700)
        yield content
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def abandoned(parent: Path) -> list[Path]:
    """The temporary folders in a folder of the cache whose process is gone; all hidden folders there are temporary.

    Raises OSError.
    """
    found = []
    for path in _temporary(parent):
        with _taken(path) as mine:
            if mine:
                found.append(path)
    return found


def remove_abandoned(parent: Path) -> int:
    """Removes the temporary folders whose process is gone; returns how many bytes they held. Raises OSError."""
    freed = 0
    for path in _temporary(parent):
        with _taken(path) as mine:  # held while it is removed, so that nobody begins to fill it
            if mine:
                freed += folder_bytes(path)
                shutil.rmtree(path, ignore_errors=True)
    return freed


def folder_bytes(folder: Path) -> int:
    """The sizes of all files under a folder, as far as they are found: it may vanish meanwhile."""
    total = 0
    with suppress(OSError):
        for path in folder.rglob("*"):
            total += path.stat().st_size if path.is_file() else 0
    return total


def _claimed(parent: Path, name: str) -> tuple[Path, int]:
    """A new folder and its lock's descriptor; another one where some process has removed the first before it was
    locked."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=parent))
        try:
            descriptor = acquire(path / _LOCK, wait=False)
        except FileNotFoundError:
            continue
        if descriptor is not None:
            return path, descriptor
        shutil.rmtree(path, ignore_errors=True)


def _temporary(parent: Path) -> list[Path]:
    if not parent.is_dir():
        return []
    hidden = (path for path in parent.iterdir() if path.name.startswith("."))
    return sorted(path for path in hidden if path.is_dir() and not path.is_symlink())


@contextmanager
def _taken(folder: Path) -> Iterator[bool]:
    """Holds the lock of a temporary folder; yields False where its process is alive or it is gone."""
    try:
        descriptor = acquire(folder / _LOCK, wait=False)
    except FileNotFoundError:
        descriptor = None
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)
