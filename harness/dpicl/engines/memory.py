"""How much memory is left to this process and its workers: of the machine, and of the control group that it is in."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil

_CGROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
#: Memory is short where less than this share of it, or less than these bytes, is left.
_SHARE, _BYTES = 0.05, 512 * 2**20


def shortage() -> str:
    """'0.3 of 16.0 GiB of memory are left' where memory is short, else ""."""
    total, left = _memory()
    if left >= min(total * _SHARE, _BYTES):
        return ""
    return f"{left / 2**30:.1f} of {total / 2**30:.1f} GiB of memory are left"


def resident(pid: int) -> int:
    """Bytes that a process and its children hold; 0 where it is gone."""
    found = 0
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):
                found += each.memory_info().rss
    return found


def _memory() -> tuple[int, int]:
    """(bytes in all, bytes left) of the narrowest limit."""
    machine = psutil.virtual_memory()
    limits = [(machine.total, machine.available)]
    with suppress(OSError, ValueError):
        own = _OWN.read_text().strip().rpartition("0::/")[2]  # the one line of version 2
        folder = _CGROUPS / own
        for group in (folder, *folder.parents):
            if group.is_relative_to(_CGROUPS):
                with suppress(OSError, ValueError):  # no limit ("max"), or no such file
                    limits.append(_of_group(group))
    return min(limits, key=lambda limit: limit[1])


def _of_group(group: Path) -> tuple[int, int]:
    """The same of a control group (version 2); files that it has cached count as left. Raises OSError, ValueError."""
    most = int((group / "memory.max").read_text())
    used = int((group / "memory.current").read_text())
    rows = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    return most, most - used + int(rows.get("inactive_file", 0))
