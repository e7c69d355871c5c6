"""Model outputs that were collected once: a local file, keyed by a hash of what was sent to the model.

What slots answer depends on neither epsilon nor noise, so every release after the first one finds it here. The file
holds text derived from private records: it lives in a folder of its own that only its owner may read, nothing of it is
ever published, and `dpicl cache` lists and clears it. Prompts are not stored, only their hashes. With secure noise
nothing is stored at all.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import ResultError
from harness.paths import cache_folder

_FILE = "outputs.sqlite"
_log = logging.getLogger(__name__)
_WAIT_SECONDS = 60.0
#: Keys of one SELECT; SQLite's own limit is higher.
_CHUNK = 500
_SCHEMA = """
CREATE TABLE IF NOT EXISTS outputs (
    key BLOB PRIMARY KEY, model TEXT NOT NULL, task TEXT NOT NULL, kind TEXT NOT NULL,
    value TEXT NOT NULL, made REAL NOT NULL
) WITHOUT ROWID
"""


def outputs_folder() -> Path:
    """``$DPICL_CACHE/outputs``, by default ``~/.cache/dpicl/outputs``."""
    return cache_folder() / "outputs"


@dataclass(frozen=True)
class Collection:
    """The outputs of one model on one task. kind: 'labels', 'texts', 'public texts' or 'embeddings'."""

    model: str
    task: str
    kind: str
    outputs: int
    bytes: int
    newest: float


class OutputCache:
    """Outputs by key. folder: where the file is; None keeps everything in memory and writes nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._memory: dict[bytes, Any] = {}
        self._file = None if folder is None else _open(folder)

    def get(self, keys: Iterable[bytes]) -> dict[bytes, Any]:
        """The values of those keys that are there."""
        wanted = list(dict.fromkeys(keys))
        found = {key: self._memory[key] for key in wanted if key in self._memory}
        rest = [key for key in wanted if key not in found]
        if self._file is None or not rest:
            return found
        for start in range(0, len(rest), _CHUNK):
            part = rest[start : start + _CHUNK]
            marks = ",".join("?" * len(part))
            with _explained():
                rows = self._file.execute(f"SELECT key, value FROM outputs WHERE key IN ({marks})", part).fetchall()
                found.update({bytes(key): json.loads(value) for key, value in rows})
        return found

    def put(self, model: str, task: str, kind: str, values: Mapping[bytes, Any]) -> None:
        """Stores JSON values; a key that is there already keeps its value."""
        if self._file is None:
            self._memory.update(values)
            return
        rows = [(key, model, task, kind, json.dumps(value), time.time()) for key, value in values.items()]
        with _explained(), self._file:
            self._file.executemany("INSERT OR IGNORE INTO outputs VALUES (?, ?, ?, ?, ?, ?)", rows)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def key_of(*parts: Any) -> bytes:
    """sha256 over the parts as JSON."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("utf-8", "surrogatepass")).digest()


def collections(folder: Path | None = None) -> list[Collection]:
    """What the cache holds, by model, task and kind; empty where there is none."""
    folder = folder or outputs_folder()
    if not (folder / _FILE).is_file():
        return []
    query = (
        "SELECT model, task, kind, COUNT(*), SUM(LENGTH(value)), MAX(made) FROM outputs"
        " GROUP BY model, task, kind ORDER BY model, task, kind"
    )
    with closing(_open(folder)) as file, _explained():
        return [Collection(*row) for row in file.execute(query)]


def clear(folder: Path | None = None, *, tasks: Sequence[str] = (), models: Sequence[str] = ()) -> int:
    """Removes the outputs of these tasks and models (none named: of all) and returns how many they were."""
    folder = folder or outputs_folder()
    if not (folder / _FILE).is_file():
        return 0
    wanted = {"task": list(tasks), "model": list(models)}
    conditions = [f"{name} IN ({','.join('?' * len(values))})" for name, values in wanted.items() if values]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    with closing(_open(folder)) as file:
        with _explained(), file:
            removed = file.execute(f"DELETE FROM outputs{where}", [*tasks, *models]).rowcount
        file.execute("VACUUM")  # else the deleted text stays readable in free pages
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return removed


def _open(folder: Path) -> sqlite3.Connection:
    """The file, made if need be; folder and file belong to their owner alone."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
        os.close(os.open(folder / _FILE, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite gives its other files the same mode
        (folder / _FILE).chmod(0o600)
    except OSError as error:
        raise ResultError(
            f"The cache folder {folder} cannot be used ({error.strerror}); set DPICL_CACHE to another one."
        ) from error
    with _explained():
        try:
            return _connected(folder / _FILE)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise  # locked, or a full disk: the file itself is sound
            _log.warning("The output cache %s was damaged (%s); it starts anew.", folder / _FILE, error)
            for path in folder.glob(f"{_FILE}*"):
                path.unlink()
            return _open(folder)


def _connected(path: Path) -> sqlite3.Connection:
    file = sqlite3.connect(path, timeout=_WAIT_SECONDS)
    file.execute("PRAGMA journal_mode=WAL")
    file.execute("PRAGMA secure_delete=ON")
    file.execute(_SCHEMA)
    return file


@contextmanager
def _explained() -> Iterator[None]:
    """Turns SQLite's errors into one sentence that says what to do."""
    try:
        yield
    except (sqlite3.Error, ValueError) as error:  # a value that is no JSON
        raise ResultError(
            f"The output cache {outputs_folder()} cannot be read or written ({error}); remove that folder, or set"
            " DPICL_CACHE to another one. Results are not touched."
        ) from error
