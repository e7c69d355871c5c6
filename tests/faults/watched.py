"""Every step in which a process changes files under a folder, so that something can happen right before it."""

from __future__ import annotations

import builtins
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Calls that change what is on the disk; `os.open` does where it opens for writing.
_CALLS = ("link", "replace", "rename", "unlink", "mkdir", "rmdir", "chmod", "fsync")


class Watched:
    """Counts the steps of this process under a folder: calls of ``calls``, files opened for writing, and the middle of
    every text that is written to one. What SQLite writes is not seen."""

    calls = _CALLS

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self.count = 0

    def happens(self, path: Any) -> None:
        """What is done right before a step."""

    def install(self) -> None:
        """From now on, in this process."""
        for name in self.calls:
            setattr(os, name, self._seen(getattr(os, name)))
        really = os.open

        def opened(path: Any, flags: int, *rest: Any, **more: Any) -> int:
            if flags & (os.O_WRONLY | os.O_RDWR):
                self.step(path)
            return really(path, flags, *rest, **more)

        os.open = opened
        io.open = builtins.open = self._files(io.open)

    def step(self, target: Any) -> None:
        """One step, if it is under the folder. target: a path or an open file's number."""
        if isinstance(target, int):
            try:
                target = os.readlink(f"/proc/self/fd/{target}")
            except OSError:
                return
        if f"{os.fsdecode(target)}/".startswith(f"{self._folder}/"):
            self.count += 1
            self.happens(target)

    def _seen(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def seen(first: Any, *rest: Any, **more: Any) -> Any:
            self.step(first)
            return call(first, *rest, **more)

        return seen

    def _files(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def opened(file: Any, mode: str = "r", *rest: Any, **more: Any) -> Any:
            if not set(mode) & set("wax+"):
                return call(file, mode, *rest, **more)
            if more.get("opener") is None:  # else os.open opens it
                self.step(file)
            return _File(call(file, mode, *rest, **more), lambda: self.step(file))

        return opened


class _File:
    """A file that is written in two halves, with a step between them."""

    def __init__(self, file: Any, step: Callable[[], None]) -> None:
        self._file, self._step = file, step

    def write(self, content: Any) -> int:
        middle = len(content) // 2
        self._file.write(content[:middle])
        self._file.flush()
        self._step()
        self._file.write(content[middle:])
        return len(content)

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
