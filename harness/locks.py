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
    """A new folder ``.name-XXXX`` that is this process's while it lives; removed at the end where it is still there.

    `remove_abandoned` of another process leaves it alone until this one has ended. Raises OSError.
    """
    with _locked(parent):  # else another process could find the folder before it is locked
        path = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=parent))
        descriptor = os.open(path, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def abandoned(parent: Path) -> list[Path]:
    """The temporary folders in a folder of the cache whose process is gone; all hidden folders there are temporary.

    Raises OSError.
    """
    if not parent.is_dir():
        return []
    with _locked(parent):
        hidden = [path for path in parent.iterdir() if path.name.startswith(".") and path.is_dir()]
        return sorted(path for path in hidden if not path.is_symlink() and _is_free(path))


def remove_abandoned(parent: Path) -> int:
    """Removes the temporary folders whose process is gone; returns how many bytes they held. Raises OSError."""
    freed = 0
    for path in abandoned(parent):
        freed += folder_bytes(path)
        shutil.rmtree(path, ignore_errors=True)
    return freed


def folder_bytes(folder: Path) -> int:
    """The sizes of all files under a folder; one that vanishes meanwhile counts nothing."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.stat().st_size
    return total


def _is_free(folder: Path) -> bool:
    """Whether no process holds the lock of a temporary folder."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return False  # gone, or somebody else's
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Holds the lock of a folder itself; nobody holds one for long."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
