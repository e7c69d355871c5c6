"""Ends processes that somebody else's code left behind, also those whose parents have ended (on Linux)."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Collection
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """From now on a descendant of this process whose parent ends becomes its child."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def list_children() -> set[int]:
    """Process ids of this process's children; none where the system does not list them."""
    lists = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return {int(number) for each in lists for number in each.read_text().split()}


def end_children(but: Collection[int]) -> None:
    """Kills all children but these, and theirs, which become this process's own as their parents end."""
    while left := list_children() - {*but}:
        for process in left:
            os.kill(process, signal.SIGKILL)
        for process in left:
            try:
                os.waitpid(process, 0)
            except ChildProcessError:  # somebody else has waited for it
                time.sleep(0.01)
