"""A run in a forked process that is killed at one point of the way in which it writes."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpicl.core.cache_file import CacheFile
from dpicl.program import main
from tests.faults.watched import Watched

#: What two runs of one cell may differ in; for pydantic's ``exclude``.
MAY_DIFFER: Any = {"created": True, "cost": True, "manifest": {"commit", "dirty"}}


class Points(Watched):
    """Kills this process right before one step, before it takes a lock, or before an access to a cache that SQLite
    keeps. What is on the disk after a step is there before the next one, so no other point makes a difference.

    deadly: the point, None for never. group: the whole process group dies.
    """

    def __init__(self, folder: Path, deadly: int | None, group: bool) -> None:
        super().__init__(folder)
        self._deadly, self._group = deadly, group

    def install(self) -> None:
        super().install()
        fcntl.flock = self._seen(fcntl.flock)
        run = CacheFile.run

        def observed(cache: CacheFile, action: Any) -> Any:
            self.step(cache.folder)
            return run(cache, action)

        CacheFile.run = observed

    def happens(self, path: Any) -> None:
        if self.count == self._deadly:
            if self._group:
                os.killpg(0, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)


def run_forked(
    words: Sequence[object], folder: Path, deadly: int | None = None, group: bool = False
) -> tuple[int, int]:
    """Runs a `dpicl` command in a child of this process: (exit code, or minus the signal; points passed, if it ended).

    folder: whose files are watched; the child's words go to ``folder/said``.
    """
    points = Points(folder / "files", deadly, group)
    code, counted = in_child(words, folder, points.install, lambda: str(points.count).encode())
    return code, int(counted or 0)


def in_child(
    words: Sequence[object], folder: Path, begin: Callable[[], object] = bool, end: Callable[[], bytes] = bytes
) -> tuple[int, bytes]:
    """(exit code, or minus the signal, of a `dpicl` command in a child of this process; what ``end`` gives there).

    begin: called in the child before the command. The child's words go to ``folder/said``.
    """
    return wait_for(start_child(words, folder, begin, end))


@dataclass(frozen=True)
class Child:
    """pipe: on which it answers."""

    pid: int
    pipe: int


def start_child(
    words: Sequence[object], folder: Path, begin: Callable[[], object] = bool, end: Callable[[], bytes] = bytes
) -> Child:
    """As `in_child`, which `wait_for` waits for."""
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        code = 99
        try:
            os.close(here)
            os.setpgid(0, 0)
            said = os.open(folder / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(said, 1)
            os.dup2(said, 2)
            sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
            begin()
            code = main([str(word) for word in words])
            with os.fdopen(there, "wb") as answer:
                answer.write(end())
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(there)
    return Child(child, here)


def wait_for(child: Child) -> tuple[int, bytes]:
    """See `in_child`."""
    with os.fdopen(child.pipe, "rb") as file:
        answered = file.read()
    _, status = os.waitpid(child.pid, 0)
    return os.waitstatus_to_exitcode(status), answered
