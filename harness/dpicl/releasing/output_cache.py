"""Model outputs that were collected once: a local file, keyed by a hash of what was sent to the model.

What slots answer depends on neither epsilon nor noise, so every release after the first one finds it here. The file
holds text derived from private records: it lives in a folder of its own that only its owner may read, nothing of it is
ever published, and `dpicl cache` lists and clears it. Prompts are not stored, only their hashes. With secure noise
nothing is stored at all.

Every value has a checksum beside it. A damaged value counts as absent, so the model is asked again; where the file is
damaged or the disk takes nothing more, this process keeps the outputs in memory (dpicl.releasing.cache_file).
"""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
import struct
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from dpicl.core.errors import ResultError
from dpicl.core.paths import cache_folder
from dpicl.releasing.cache_file import CacheFile, Unusable

T = TypeVar("T")

_FILE = "outputs.sqlite"
_log = logging.getLogger(__name__)
#: Keys of one SELECT; SQLite's own limit is higher.
_CHUNK = 500
_TABLE = """outputs (
    key BLOB PRIMARY KEY, model TEXT NOT NULL, task TEXT NOT NULL, kind TEXT NOT NULL,
    value TEXT NOT NULL, made REAL NOT NULL, checksum BLOB NOT NULL
) WITHOUT ROWID"""
_INSERT = "INSERT OR IGNORE INTO outputs VALUES (?, ?, ?, ?, ?, ?, ?)"
#: Stands where a damaged row does not say what it was.
UNKNOWN = "?"


def outputs_folder() -> Path:
    return cache_folder() / "outputs"


@dataclass(frozen=True)
class Collection:
    """The outputs of one model on one task. kind: 'labels', 'texts', 'public texts', 'embeddings' or 'damaged'.

    newest: in seconds since 1970; None where it is damaged, as model and task are '?' then.
    """

    model: str
    task: str
    kind: str
    outputs: int
    bytes: int
    newest: float | None


class OutputCache:
    """Outputs by key. folder: where the file is; None keeps everything in memory and writes nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._memory: dict[bytes, Any] = {}
        self._folder = folder
        self._file = None if folder is None else _file_in(folder)
        self._writes = self._file is not None
        self._warned: set[str] = set()
        #: Keys that a job of this process is asking the model for.
        self.asked: set[bytes] = set()
        if self._writes:
            self._asked(lambda connection: connection)  # what is wrong with the file is said before the work begins

    def get(self, keys: Iterable[bytes]) -> dict[bytes, Any]:
        """The values of those keys that are there and sound."""
        wanted = list(dict.fromkeys(keys))
        found = {key: self._memory[key] for key in wanted if key in self._memory}
        rest = [key for key in wanted if key not in found]
        for start in range(0, len(rest) if self._file else 0, _CHUNK):
            part = rest[start : start + _CHUNK]
            rows = self._asked(partial(_found, keys=part)) or []
            found.update({row.key: json.loads(row.value) for row in rows if row.sound})
            self._drop([row.key for row in rows if not row.sound])
        return found

    def put(self, model: str, task: str, kind: str, values: Mapping[bytes, Any]) -> None:
        """Stores JSON values; a key that is there already keeps its value."""
        rows = [_sealed(key, model, task, kind, json.dumps(value)) for key, value in values.items()]
        if not self._writes or self._asked(lambda connection: _insert(connection, rows)) is None:
            self._writes = False
            self._memory.update(values)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _drop(self, keys: Sequence[bytes]) -> None:
        """Removes damaged values, so that what the model says now can take their place."""
        if keys:
            self._warn("damaged", f"{self._folder} holds damaged outputs; the model is asked for them again")
            self._asked(lambda connection: _delete(connection, keys))

    def _asked(self, action: Callable[[sqlite3.Connection], Any]) -> Any:
        """What ``action`` gives on the file; None, with a warning, where the file cannot be used."""
        assert self._file is not None
        try:
            return self._file.run(action)
        except Unusable as error:
            self._warn(
                "unusable",
                f"{self._folder} cannot be used ({error}); the run goes on without keeping what the model says. Run"
                " `dpicl cache --clear` if it is damaged; DPICL_CACHE names another folder",
            )
            return None

    def _warn(self, about: str, text: str) -> None:
        if about not in self._warned:
            _log.warning("The output cache %s.", text)
            self._warned.add(about)


def key_of(*parts: Any) -> bytes:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("utf-8", "surrogatepass")).digest()


def collections(folder: Path | None = None) -> list[Collection]:
    """What the cache holds, by model, task and kind; empty where there is none. Raises ResultError."""

    def count(connection: sqlite3.Connection) -> dict[tuple[str, str, str], list[tuple[int, float | None]]]:
        groups = defaultdict(list)
        for row in _rows(connection):
            groups[row.model, row.task, row.kind].append((row.size, row.made))
        return groups

    with closing(_file_in(folder or outputs_folder())) as file:
        groups = _explained(file, count) or {}
    return [
        Collection(
            *about, len(rows), sum(size for size, _ in rows), max((made for _, made in rows if made), default=None)
        )
        for about, rows in sorted(groups.items())
    ]


def clear(folder: Path | None = None, *, tasks: Sequence[str] = (), models: Sequence[str] = ()) -> int:
    """Removes the outputs of these tasks and models (none named: of all) and returns how many they were.

    Damaged ones, of which nobody can say whose they are, go too; so does a damaged file where none is named. Raises
    ResultError.
    """

    def stays(row: _Row) -> bool:
        named = (not tasks or row.task in tasks) and (not models or row.model in models)
        return row.sound and not named

    def remove(connection: sqlite3.Connection) -> int:
        held = connection.execute("SELECT COUNT(*) FROM outputs").fetchone()[0]
        kept = [row for row in _rows(connection) if stays(row)] if tasks or models else []
        with connection:
            connection.execute("DELETE FROM outputs")  # of all: a damaged row may not be found by its key
            connection.executemany(_INSERT, [row.cells for row in kept])
        connection.execute("VACUUM")  # else the deleted text stays readable in free pages
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return int(held) - len(kept)

    with closing(_file_in(folder or outputs_folder())) as file:
        try:
            return _explained(file, remove) or 0
        except ResultError:
            if tasks or models:
                raise
            with suppress(OSError):
                file.remove()
            if file.path.exists():
                raise
            return 0


def _file_in(folder: Path) -> CacheFile:
    return CacheFile(folder, _FILE, _TABLE)


def _explained(file: CacheFile, action: Callable[[sqlite3.Connection], T]) -> T | None:
    """What ``action`` gives, None without a file; where the file cannot be used, one sentence that says what to do."""
    try:
        return file.run(action) if file.exists() else None
    except Unusable as error:
        raise ResultError(
            f"The output cache {file.folder} cannot be read or written ({error}); run `dpicl cache --clear`, or"
            " set DPICL_CACHE to another folder. Results are not touched."
        ) from error


@dataclass(frozen=True)
class _Row:
    """One output of the file. A damaged one is not sound, and says only its key and its size in bytes."""

    key: bytes
    model: str
    task: str
    kind: str
    value: str
    made: float | None
    checksum: bytes
    size: int
    sound: bool

    @property
    def cells(self) -> tuple[Any, ...]:
        return self.key, self.model, self.task, self.kind, self.value, self.made, self.checksum


def _row(key: Any, model: Any, task: Any, kind: Any, value: Any, made: Any, checksum: Any) -> _Row:
    """A row from its cells, which damage may have given any type. Text comes as bytes."""
    size = len(value) if isinstance(value, bytes) else 0
    texts = (key, model, task, kind, value, checksum)
    typed = isinstance(made, float) and all(isinstance(cell, bytes) for cell in texts)
    if typed and checksum == _checksum(key, model, task, kind, value, made):
        return _Row(key, model.decode(), task.decode(), kind.decode(), value.decode(), made, checksum, size, True)
    return _Row(key, UNKNOWN, UNKNOWN, "damaged", "", None, b"", size, False)


def _rows(connection: sqlite3.Connection, keys: Sequence[bytes] | None = None) -> Iterator[_Row]:
    """The rows of those keys (None: all)."""
    where = "" if keys is None else f" WHERE key IN ({','.join('?' * len(keys))})"
    found = connection.execute(f"SELECT key, model, task, kind, value, made, checksum FROM outputs{where}", keys or ())
    return (_row(*cells) for cells in found)


def _found(connection: sqlite3.Connection, keys: Sequence[bytes]) -> list[_Row]:
    rows = list(_rows(connection, keys))
    if not {row.key for row in rows} <= set(keys):
        raise sqlite3.DatabaseError("its index is out of order")
    return rows


def _sealed(key: bytes, model: str, task: str, kind: str, value: str) -> tuple[Any, ...]:
    made = time.time()
    texts = (model, task, kind, value)
    return key, *texts, made, _checksum(key, *(text.encode() for text in texts), made)


def _checksum(*cells: bytes | float) -> bytes:
    """blake2b over the cells of a row, each with its length. It finds damage, not forgery: there is no secret in it."""
    digest = hashlib.blake2b(digest_size=16)
    for cell in cells:
        content = struct.pack("<d", cell) if isinstance(cell, float) else cell
        digest.update(struct.pack("<Q", len(content)) + content)
    return digest.digest()


def _insert(connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> bool:
    with connection:
        connection.executemany(_INSERT, rows)
    return True


def _delete(connection: sqlite3.Connection, keys: Sequence[bytes]) -> bool:
    with connection:
        connection.executemany("DELETE FROM outputs WHERE key = ?", [(key,) for key in keys])
    return True
