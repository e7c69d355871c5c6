"""Which contents of result files were read before without an error, so that they need not be examined a second time.

A finished sweep of thousands of cells is read by every command. What costs most is not the reading but the examination
of every number and of what several fields say together, and that comes out the same for the same bytes. So a file in
the cache folder keeps a hash over each content that passed, with the code that examined it: nothing of a result comes
from there. Damage can only lose hashes (no damage makes the hash of another content), and then files are examined
again; so they are where the cache cannot be used.
"""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import suppress
from functools import cache
from pathlib import Path

import pydantic

from dpicl.core import cell, field_types, json_text, vocabulary
from dpicl.core.cache_file import CacheFile, Unusable
from dpicl.core.paths import cache_folder
from dpicl.privacy import events
from dpicl.run import results
from dpicl.run.results import Result, from_sound_text, from_text

_FILE = "checked.sqlite"
_TABLE = "checked (content BLOB PRIMARY KEY) WITHOUT ROWID"
#: What examines a content; with other code the same content may be no result.
_CODE = (cell, events, field_types, json_text, results, vocabulary)
#: Pages of 4 KB of a file; of a larger one, a million hashes or so, nothing is kept.
_MOST_PAGES = 15_000


class CheckedFiles:
    """Reads contents of result files as `from_text` does, faster those that were read before; use it, then `keep`."""

    def __init__(self) -> None:
        self._file = CacheFile(cache_folder() / "checked", _FILE, _TABLE)
        self._new: set[bytes] = set()
        self._usable = True

    def read(self, text: str) -> Result:
        """Raises ValueError, with the reason in a few words, for what is no result."""
        content = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=_code(), digest_size=32).digest()
        if self._holds(content):
            return from_sound_text(text)
        result = from_text(text)
        self._new.add(content)
        return result

    def keep(self) -> None:
        """Notes what was read for the first time, and closes the file."""
        with suppress(Unusable):
            if self._new and self._usable:
                self._file.run(self._insert)
        self._file.close()

    def _holds(self, content: bytes) -> bool:
        if not self._usable:
            return False
        try:
            return self._file.run(
                lambda connection: (
                    connection.execute("SELECT content FROM checked WHERE content = ?", (content,)).fetchone()
                    == (content,)
                )
            )
        except Unusable:
            self._usable = False
            return False

    def _insert(self, connection: sqlite3.Connection) -> None:
        with connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            if pages > _MOST_PAGES:
                connection.execute("DELETE FROM checked")
            connection.executemany("INSERT OR IGNORE INTO checked VALUES (?)", ((content,) for content in self._new))


@cache
def _code() -> bytes:
    """A hash over the code that examines a content."""
    digest = hashlib.sha256(pydantic.VERSION.encode())
    for module in _CODE:
        digest.update(Path(str(module.__file__)).read_bytes())
    return digest.digest()
