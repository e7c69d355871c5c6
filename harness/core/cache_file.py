"""A SQLite file that may be lost: it survives damage, a full disk, and other processes that have it open.

SQLite must never see two files under one name while a process has the first of them open (its write-ahead log is found
by name, https://sqlite.org/howtocorrupt.html, 2.4). So a damaged file is never recreated under its own name: the next
one has the next number in its name, and the damaged one is removed. A process that still has it open goes on in the
removed file, and moves to the new one with its next statement.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TypeVar

from dpicl.harness.core.locks import held

T = TypeVar("T")

_log = logging.getLogger(__name__)
_WAIT_SECONDS = 60.0
_LOCK = ".lock"
#: synchronous: a power cut may cost the last values, which is what a cache may lose, and never the file's soundness.
_SETTINGS = ("journal_mode=WAL", "synchronous=NORMAL", "secure_delete=ON", "cell_size_check=ON", "trusted_schema=OFF")
#: What SQLite says when the disk, the rights or another process are in the way. Everything else is damage: statements
#: that are known to be right fail only on a file that is not.
_IN_THE_WAY = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
}


class Unusable(Exception):
    """The file cannot be read or written now. The message is a reason."""


class _Damaged(Unusable):
    """The file is not what was written; the message says what showed it."""


class CacheFile:
    """One table in a file. folder: is made, and belongs to its owner alone. name: of the first file, ``x.sqlite``.

    table: what stands behind ``CREATE TABLE``; a file with anything else in it is replaced.
    """

    def __init__(self, folder: Path, name: str, table: str) -> None:
        self.folder, self._name, self._table = folder, name, table
        self._path: Path | None = None
        self._connection: sqlite3.Connection | None = None
        self._inode: int | None = None

    def run(self, action: Callable[[sqlite3.Connection], T]) -> T:
        """What ``action`` gives; a damaged file is replaced, with a warning, and the action tried on the new one.

        Raises Unusable where the disk, the rights or another process are in the way.
        """
        try:
            return self._tried(lambda: action(self._opened()))
        except _Damaged as damage:
            reason = str(damage)
        self._tried(lambda: self._replace(reason))
        return self._tried(lambda: action(self._opened()))

    def exists(self) -> bool:
        """Whether there is a file. Raises Unusable."""
        return bool(self._tried(self._generations))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _tried(self, step: Callable[[], T]) -> T:
        """What ``step`` gives. Raises Unusable and _Damaged instead of what SQLite and the system raise."""
        try:
            return step()
        except sqlite3.Error as error:
            raise self._judged(error) from error
        except OSError as error:
            raise Unusable(error.strerror or str(error)) from error
        except MemoryError as error:  # a number of bytes that only a damaged file claims, or a machine that is full
            raise Unusable("not enough memory") from error

    def _judged(self, error: sqlite3.Error) -> Unusable:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        # A file whose rights are in order and that SQLite calls read-only has a damaged header.
        ours = self._path is not None and os.access(self._path, os.W_OK) and os.access(self.folder, os.W_OK)
        if code in _IN_THE_WAY and not (code == sqlite3.SQLITE_READONLY and ours):
            return Unusable(str(error))
        return _Damaged(str(error))

    def _opened(self) -> sqlite3.Connection:
        if self._connection is not None and _inode(self._path) != self._inode:
            self.close()  # replaced by another process, or removed
        if self._connection is None:
            with self._lock():
                self._open_newest()
        assert self._connection is not None
        return self._connection

    def _open_newest(self) -> None:
        """Opens the newest file, or a first one; the caller holds the lock."""
        *older, newest = self._generations() or [self.folder / self._name]
        for path in older:  # left by a process that was killed between making a new file and removing the old one
            _remove(path)
        self._connect(newest)

    def _connect(self, path: Path) -> None:
        self._path = path
        new = not path.exists()
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite gives its other files the same mode
        path.chmod(0o600)
        if not new and path.stat().st_size == 0:
            raise _Damaged("it is empty")
        connection = sqlite3.connect(path, timeout=_WAIT_SECONDS)
        try:
            connection.text_factory = bytes  # damaged text is found by its checksum, not by its decoding
            for setting in _SETTINGS:
                connection.execute(f"PRAGMA {setting}")
            connection.execute(f"CREATE TABLE IF NOT EXISTS {self._table}")
            held = connection.execute("SELECT sql FROM sqlite_master").fetchall()
            if held != [(f"CREATE TABLE {self._table}".encode(),)]:
                raise _Damaged("it holds something else than this version writes")
        except BaseException:
            connection.close()
            raise
        self._connection, self._inode = connection, _inode(path)

    def _replace(self, reason: str) -> None:
        """Makes the next file and removes this one, unless another process has done so."""
        damaged = self._path
        self.close()
        with self._lock():
            if damaged is not None and self._generations()[-1:] == [damaged]:
                _log.warning("The cache %s was damaged (%s); an empty one replaces it.", damaged, reason)
                self._connect(self.folder / _name_of(self._name, _number(damaged) + 1))
                _remove(damaged)

    def _generations(self) -> list[Path]:
        """The files that are there, the newest last; a missing folder has none."""
        stem, suffix = self._name.rsplit(".", 1)
        pattern = re.compile(rf"{re.escape(stem)}(-\d{{1,9}})?\.{suffix}")
        try:
            names = [name for name in os.listdir(self.folder) if pattern.fullmatch(name)]
        except FileNotFoundError:
            return []
        return [self.folder / name for name in sorted(names, key=lambda name: _number(Path(name)))]

    def _lock(self) -> AbstractContextManager[bool]:
        """One process at a time chooses, opens or replaces a file."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.chmod(0o700)
        (self.folder / _LOCK).touch(mode=0o600)
        return held(self.folder / _LOCK, wait=True)


def _inode(path: Path | None) -> int | None:
    try:
        return None if path is None else path.stat().st_ino
    except FileNotFoundError:
        return None


def _number(path: Path) -> int:
    """0 for x.sqlite, 3 for x-3.sqlite."""
    _, _, number = path.stem.rpartition("-")
    return int(number) if number.isdigit() else 0


def _name_of(name: str, number: int) -> str:
    stem, suffix = name.rsplit(".", 1)
    return f"{stem}-{number}.{suffix}"


def _remove(path: Path) -> None:
    """Removes a file and what SQLite keeps beside it. One that cannot be removed is older than the newest: not read."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        with suppress(OSError):
            path.with_name(path.name + suffix).unlink()
