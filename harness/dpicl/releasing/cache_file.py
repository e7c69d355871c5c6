"""A SQLite file that may be lost: where it is damaged, or cannot be written, its user goes on without it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_WAIT_SECONDS = 60.0
#: synchronous: a power cut may cost the last values, which is what a cache may lose, and never the file's soundness.
_SETTINGS = ("journal_mode=WAL", "synchronous=NORMAL", "secure_delete=ON", "cell_size_check=ON", "trusted_schema=OFF")


class Unusable(Exception):
    """The file cannot be read or written. The message is a reason."""


class CacheFile:
    """One table in a file. folder: is made, and belongs to its owner alone.

    table: what stands behind ``CREATE TABLE``; a file with anything else in it is not used.
    """

    def __init__(self, folder: Path, name: str, table: str) -> None:
        self.folder, self.path, self._table = folder, folder / name, table
        self._connection: sqlite3.Connection | None = None

    def run(self, action: Callable[[sqlite3.Connection], T]) -> T:
        """What ``action`` gives. Raises Unusable for a damaged file, a full disk, rights that are missing."""
        try:
            if self._connection is None:
                self._connection = self._connect()
            return action(self._connection)
        except sqlite3.Error as error:
            raise Unusable(str(error)) from error
        except OSError as error:
            raise Unusable(error.strerror or str(error)) from error
        except MemoryError as error:  # a number of bytes that only a damaged file claims, or a machine that is full
            raise Unusable("not enough memory") from error

    def exists(self) -> bool:
        """Whether there is a file. Raises Unusable."""
        try:
            self.path.stat()
            return True
        except FileNotFoundError:
            return False
        except OSError as error:
            raise Unusable(error.strerror or str(error)) from error

    def remove(self) -> None:
        """Removes the file and what SQLite keeps beside it. Raises OSError."""
        self.close()
        for suffix in ("", "-wal", "-shm", "-journal"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)

    def close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _connect(self) -> sqlite3.Connection:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.chmod(0o700)
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite gives its other files the same mode
        self.path.chmod(0o600)
        connection = sqlite3.connect(self.path, timeout=_WAIT_SECONDS)
        try:
            connection.text_factory = bytes  # damaged text is found by its checksum, not by its decoding
            for setting in _SETTINGS:
                connection.execute(f"PRAGMA {setting}")
            connection.execute(f"CREATE TABLE IF NOT EXISTS {self._table}")
            held = connection.execute("SELECT sql FROM sqlite_master").fetchall()
            if held != [(f"CREATE TABLE {self._table}".encode(),)]:
                raise sqlite3.DatabaseError("it holds something else than this version writes")
        except BaseException:
            connection.close()
            raise
        return connection
