"""A disk that takes no more: from one system call on, whatever would write under a folder fails."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.faults.watched import Watched


class Failing(Watched):
    """From the step ``first`` on, each fails with an errno (None: nothing fails)."""

    #: Calls that need room, or the right to write.
    calls = ("link", "replace", "rename", "mkdir", "fsync")

    def __init__(self, folder: Path, number: int, first: int | None) -> None:
        super().__init__(folder)
        self._number, self._first = number, first

    def happens(self, path: Any) -> None:
        if self._first is not None and self.count >= self._first:
            raise OSError(self._number, os.strerror(self._number), path if isinstance(path, str) else None)
