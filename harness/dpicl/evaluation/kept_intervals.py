"""What resampling gave before, the intervals of rows, kept under what it follows from: outcomes and the code.

A board of thousands of rows spends most of its time on resampling outcomes that have not changed. Kept numbers have a
checksum with their key; damaged ones count as absent and are computed again, and so are all where the cache cannot be
used.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path

import numpy as np

from dpicl.core.cache_file import CacheFile, Unusable
from dpicl.core.paths import cache_folder
from dpicl.evaluation import statistics

_FILE = "intervals.sqlite"
_TABLE = "intervals (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
#: Bytes of the checksum that ends a value, over its numbers and the key.
_CHECKSUM = 16
#: Pages of 4 KB of a file; of a larger one nothing is kept.
_MOST_PAGES = 25_000


def seeds_documents_intervals(tables: Sequence[statistics.Outcomes]) -> list[tuple[float, float]]:
    """As `statistics.seeds_documents_interval` of each of these outcomes[S, D], at 95%."""
    if any(len({len(row) for row in outcomes}) != 1 for outcomes in tables):
        return [statistics.seeds_documents_interval(outcomes) for outcomes in tables]  # which says what is wrong
    arrays = [np.asarray(outcomes, dtype=np.float64) for outcomes in tables]

    def compute(new: Sequence[int]) -> Iterator[tuple[int, tuple[float, float]]]:
        for own in _alike(new, [array.shape for array in arrays]):
            yield from zip(own, statistics.seeds_documents_intervals([arrays[at] for at in own]), strict=True)

    return [_pair(found) for found in _kept_each("mean", [(array,) for array in arrays], compute)]


def ratio_intervals(ratios: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[tuple[float, float]]:
    """As `statistics.ratio_interval` of each of these numerators and denominators [S, D], at 95%."""

    def compute(new: Sequence[int]) -> Iterator[tuple[int, tuple[float, float]]]:
        for own in _alike(new, [(below.shape, below.tobytes()) for _, below in ratios]):
            above, below = [ratios[at][0] for at in own], ratios[own[0]][1]
            yield from zip(own, statistics.ratio_intervals(above, below), strict=True)

    return [_pair(found) for found in _kept_each("ratio", ratios, compute)]


def _kept_each(
    what: str,
    given: Sequence[Sequence[np.ndarray]],
    compute: Callable[[Sequence[int]], Iterable[tuple[int, Sequence[float] | np.ndarray]]],
) -> list[np.ndarray]:
    """What follows from each of these arrays: kept, or what ``compute`` gives of those places that are not."""
    keys = [_key(what, arrays) for arrays in given]
    file = _file(cache_folder())
    found: dict[int, np.ndarray] = {}
    with suppress(Unusable):
        found = file.run(lambda connection: _found(connection, keys))
    if new := [at for at in range(len(keys)) if at not in found]:
        computed = {at: np.asarray(numbers, dtype=np.float64) for at, numbers in compute(new)}
        with suppress(Unusable):
            file.run(lambda connection: _insert(connection, {keys[at]: one.tobytes() for at, one in computed.items()}))
        found |= computed
    return [found[at] for at in range(len(keys))]


def _alike(places: Sequence[int], of: Sequence[Hashable]) -> Iterable[list[int]]:
    """Places in groups, those whose ``of`` is the same together."""
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for at in places:
        groups[of[at]].append(at)
    return groups.values()


def _pair(numbers: np.ndarray) -> tuple[float, float]:
    low, high = numbers
    return float(low), float(high)


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


def _found(connection: sqlite3.Connection, keys: Sequence[bytes]) -> dict[int, np.ndarray]:
    """Place of a key -> what is kept under it, undamaged."""
    found = {}
    for at, key in enumerate(keys):
        row = connection.execute("SELECT value FROM intervals WHERE key = ?", (key,)).fetchone()
        if row is not None and isinstance(row[0], bytes):
            numbers, checksum = row[0][:-_CHECKSUM], row[0][-_CHECKSUM:]
            if checksum == _checksum(key, numbers):
                found[at] = np.frombuffer(numbers)
    return found


def _insert(connection: sqlite3.Connection, numbers: Mapping[bytes, bytes]) -> None:
    with connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        if pages > _MOST_PAGES:
            connection.execute("DELETE FROM intervals")
        values = ((key, own + _checksum(key, own)) for key, own in numbers.items())
        connection.executemany("INSERT OR REPLACE INTO intervals VALUES (?, ?)", values)


def _checksum(key: bytes, numbers: bytes) -> bytes:
    """It finds damage, not forgery: there is no secret in it."""
    return hashlib.blake2b(key + numbers, digest_size=_CHECKSUM).digest()
