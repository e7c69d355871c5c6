"""Locks that the operating system frees when their holder dies, however it dies (filelock, by flock), and what they are
for here: telling a temporary folder that somebody is filling from one that a killed process left behind.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

#: The lock file in a temporary folder.
_LOCK = "lock"


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


@contextmanager
def temporary_folder(parent: Path, name: str) -> Iterator[Path]:
    """An empty folder in a new one, ``.name-XXXX``, that is this process's while it lives and is removed at the end.

    What is moved out of it stays. `remove_abandoned` of another process leaves it alone until this one has ended.
    Raises OSError.
    """
    with ExitStack() as stack:
        while True:  # until no other process takes the new folder for an abandoned one before it is locked
            path = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=parent))
            if stack.enter_context(_taken(path)):
                break
        stack.callback(shutil.rmtree, path, ignore_errors=True)
        content = path / "content"
        content.mkdir(mode=0o700)
        yield content


def abandoned(parent: Path) -> list[Path]:
    """The temporary folders in a folder of the cache whose process is gone; all hidden folders there are temporary.

    Raises OSError.
    """
    return list(_ownerless(parent))


def remove_abandoned(parent: Path) -> int:
    """Removes the temporary folders whose process is gone; returns how many bytes they held. Raises OSError."""
    freed = 0
    for path in _ownerless(parent):
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


def _ownerless(parent: Path) -> Iterator[Path]:
    """The hidden folders that nobody holds; each is held while the caller has it, so that nobody begins to fill it."""
    for path in sorted(parent.iterdir()) if parent.is_dir() else ():
        if path.name.startswith(".") and path.is_dir() and not path.is_symlink():
            with _taken(path) as mine:
                if mine:
                    yield path


@contextmanager
def _taken(folder: Path) -> Iterator[bool]:
    """Holds the lock of a temporary folder; yields False where its process is alive or it is gone."""
    with ExitStack() as stack:
        mine = False
        with suppress(FileNotFoundError, FileExistsError):  # it went while filelock looked for it
            mine = stack.enter_context(held(folder / _LOCK))
        yield mine
