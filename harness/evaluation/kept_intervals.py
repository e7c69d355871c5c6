"""Intervals of rows that were computed before, kept under what they follow from: outcomes and the code.

A board of thousands of rows spends most of its time on resampling outcomes that have not changed. A kept interval has a
checksum with its key; a damaged one counts as absent and is computed again, and so is every one where the cache cannot
be used.
"""

from __future__ import annotations

import hashlib
import sqlite3
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path

import numpy as np

from dpicl.harness.core.cache_file import CacheFile, Unusable
from dpicl.harness.core.paths import cache_folder
from dpicl.harness.evaluation import statistics

_FILE = "intervals.sqlite"
_TABLE = "intervals (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
#: Low and high, and a checksum over them and the key.
_VALUE = struct.Struct("<dd16s")
#: Pages of 4 KB of a file; of a larger one nothing is kept.
_MOST_PAGES = 25_000


def seeds_documents_interval(outcomes: Sequence[Sequence[float]]) -> tuple[float, float]:
    """As `statistics.seeds_documents_interval` of outcomes[S, D], at 95%."""
    if len({len(row) for row in outcomes}) != 1:
        return statistics.seeds_documents_interval(outcomes)  # which says what is wrong with them
    return _kept("mean", (np.asarray(outcomes),), lambda: statistics.seeds_documents_interval(outcomes))


def ratio_interval(numerator: np.ndarray, denominator: np.ndarray) -> tuple[float, float]:
    """As `statistics.ratio_interval` of two arrays [S, D], at 95%."""
    return _kept("ratio", (numerator, denominator), lambda: statistics.ratio_interval(numerator, denominator))


def _kept(what: str, arrays: tuple[np.ndarray, ...], compute: Callable[[], tuple[float, float]]) -> tuple[float, float]:
    key = _key(what, arrays)
    file = _file(cache_folder())
    with suppress(Unusable):
        if found := file.run(lambda connection: _found(connection, key)):
            return found
    low, high = compute()
    with suppress(Unusable):
        file.run(lambda connection: _insert(connection, key, low, high))
    return low, high


def _key(what: str, arrays: tuple[np.ndarray, ...]) -> bytes:
    digest = hashlib.blake2b(_code() + what.encode(), digest_size=32)
    for array in arrays:
        content = np.ascontiguousarray(array, dtype=np.float64)
        digest.update(repr(content.shape).encode() + content.tobytes())
    return digest.digest()


@cache
def _code() -> bytes:
    """A hash over what turns outcomes into intervals."""
    return hashlib.sha256(np.__version__.encode() + Path(statistics.__file__).read_bytes()).digest()


@lru_cache(maxsize=1)
def _file(folder: Path) -> CacheFile:
    return CacheFile(folder / "intervals", _FILE, _TABLE)


def _found(connection: sqlite3.Connection, key: bytes) -> tuple[float, float] | None:
    row = connection.execute("SELECT value FROM intervals WHERE key = ?", (key,)).fetchone()
    if row is None or not isinstance(row[0], bytes) or len(row[0]) != _VALUE.size:
        return None
    low, high, checksum = _VALUE.unpack(row[0])
    return (low, high) if checksum == _checksum(key, low, high) else None


def _insert(connection: sqlite3.Connection, key: bytes, low: float, high: float) -> None:
    value = _VALUE.pack(low, high, _checksum(key, low, high))
    with connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        if pages > _MOST_PAGES:
            connection.execute("DELETE FROM intervals")
        connection.execute("INSERT OR REPLACE INTO intervals VALUES (?, ?)", (key, value))


def _checksum(key: bytes, low: float, high: float) -> bytes:
    """It finds damage, not forgery: there is no secret in it."""
    return hashlib.blake2b(key + struct.pack("<dd", low, high), digest_size=16).digest()
