"""What resampling gave before, intervals of rows for one, kept under what it follows from: outcomes and the code.

A board of thousands of rows spends most of its time on resampling outcomes that have not changed. Kept numbers have a
checksum with their key; damaged ones count as absent and are computed again, and so are all where the cache cannot be
used.
"""

from __future__ import annotations

import hashlib
import sqlite3
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
#: Bytes of the checksum that ends a value, over its numbers and the key.
_CHECKSUM = 16
#: Pages of 4 KB of a file; of a larger one nothing is kept.
_MOST_PAGES = 25_000


def seeds_documents_interval(outcomes: Sequence[Sequence[float]]) -> tuple[float, float]:
    """As `statistics.seeds_documents_interval` of outcomes[S, D], at 95%."""
    if len({len(row) for row in outcomes}) != 1:
        return statistics.seeds_documents_interval(outcomes)  # which says what is wrong with them
    low, high = kept("mean", (np.asarray(outcomes),), lambda: statistics.seeds_documents_interval(outcomes))
    return float(low), float(high)


def ratio_interval(numerator: np.ndarray, denominator: np.ndarray) -> tuple[float, float]:
    """As `statistics.ratio_interval` of two arrays [S, D], at 95%."""
    low, high = kept("ratio", (numerator, denominator), lambda: statistics.ratio_interval(numerator, denominator))
    return float(low), float(high)


def kept(
    what: str, arrays: Sequence[np.ndarray], compute: Callable[[], Sequence[float] | np.ndarray], code: str = ""
) -> np.ndarray:
    """float64[n]: what ``compute`` gives, or gave before.

    what: names it, with every setting. arrays: the numbers that it follows from. code: a hash over the code that it
    follows from, besides `statistics`.
    """
    key = _key(what + code, arrays)
    file = _file(cache_folder())
    with suppress(Unusable):
        if (found := file.run(lambda connection: _found(connection, key))) is not None:
            return found
    computed = np.asarray(compute(), dtype=np.float64)
    with suppress(Unusable):
        file.run(lambda connection: _insert(connection, key, computed.tobytes()))
    return computed


def _key(what: str, arrays: Sequence[np.ndarray]) -> bytes:
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


def _found(connection: sqlite3.Connection, key: bytes) -> np.ndarray | None:
    row = connection.execute("SELECT value FROM intervals WHERE key = ?", (key,)).fetchone()
    if row is None or not isinstance(row[0], bytes):
        return None
    numbers, checksum = row[0][:-_CHECKSUM], row[0][-_CHECKSUM:]
    return np.frombuffer(numbers) if checksum == _checksum(key, numbers) else None


def _insert(connection: sqlite3.Connection, key: bytes, numbers: bytes) -> None:
    with connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        if pages > _MOST_PAGES:
            connection.execute("DELETE FROM intervals")
        value = numbers + _checksum(key, numbers)
        connection.execute("INSERT OR REPLACE INTO intervals VALUES (?, ?)", (key, value))


def _checksum(key: bytes, numbers: bytes) -> bytes:
    """It finds damage, not forgery: there is no secret in it."""
    return hashlib.blake2b(key + numbers, digest_size=_CHECKSUM).digest()
