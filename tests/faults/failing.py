"""A disk that takes no more: from one system call on, whatever would write under a folder fails."""

from __future__ import annotations

import builtins
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Calls that need room, or the right to write.
_CALLS = ("link", "replace", "rename", "mkdir", "fsync")


class Failing:
    """Counts what would write under a folder; from ``first`` on it fails with an errno (None: nothing fails). What
    SQLite writes is not seen."""

    def __init__(self, folder: Path, number: int, first: int | None) -> None:
        self._folder, self._number, self._first = str(folder), number, first
        self.count = 0

    def install(self) -> None:
        for name in _CALLS:
            setattr(os, name, self._failing(getattr(os, name)))
        really = os.open

        def opened(path: Any, flags: int, *rest: Any, **more: Any) -> int:
            if flags & (os.O_WRONLY | os.O_RDWR) and self._inside(path):
                self._passed(path)
            return really(path, flags, *rest, **more)

        os.open = opened
        io.open = builtins.open = self._file(io.open)

    def _file(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def opened(file: Any, mode: str = "r", *rest: Any, **more: Any) -> Any:
            if not set(mode) & set("wax+") or not self._inside(file):
                return call(file, mode, *rest, **more)
            if "opener" not in more or more["opener"] is None:
                self._passed(file)
            return _Full(call(file, mode, *rest, **more), lambda: self._passed(file))

        return opened

    def _failing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def failing(first: Any, *rest: Any, **more: Any) -> Any:
            if self._inside(first):
                self._passed(first)
            return call(first, *rest, **more)

        return failing

    def _passed(self, path: Any) -> None:
        self.count += 1
        if self._first is not None and self.count >= self._first:
            raise OSError(self._number, os.strerror(self._number), path if isinstance(path, str) else None)

    def _inside(self, target: Any) -> bool:
        if isinstance(target, int):
            try:
                target = os.readlink(f"/proc/self/fd/{target}")
            except OSError:
                return False
        return os.fsdecode(target).startswith(self._folder + "/")


class _Full:
    """A file whose writing may fail after half of what is written."""

    def __init__(self, file: Any, passed: Callable[[], None]) -> None:
        self._file, self._passed = file, passed

    def write(self, content: Any) -> int:
        self._file.write(content[: len(content) // 2])
        self._passed()
        self._file.write(content[len(content) // 2 :])
        return len(content)

    def __enter__(self) -> _Full:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
