"""System calls of a run, by strace: which of them touch a folder, and a SIGKILL at one of them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.faults.deadly import in_child

#: Calls that change a folder, a file or a lock. Those that a system lacks are left out ("?").
CALLS = """open openat creat close write pwrite64 writev fsync fdatasync link linkat rename renameat renameat2 unlink
unlinkat mkdir mkdirat rmdir flock fcntl ftruncate truncate fallocate utimensat chmod fchmod fchmodat mmap munmap"""
_TRACE = ",".join(f"?{call}" for call in CALLS.split())
_LINE = re.compile(r"^(\d+) +(\w+)\((.*)$")


@dataclass(frozen=True)
class Call:
    """The ``number``-th call of a name in the main thread of a run. said: as strace shows it."""

    name: str
    number: int
    said: str


@cache
def usable() -> bool:
    """Whether there is a strace that may look at processes here, and send signals at calls."""
    if shutil.which("strace") is None:
        return False
    words = ["strace", "-qq", "-e", "trace=?mkdir,?mkdirat", "-e", "inject=?mkdir,?mkdirat:signal=SIGKILL:when=1"]
    return subprocess.run([*words, "mkdir", "/"], capture_output=True).returncode in (-signal.SIGKILL, 137)


def calls(words: Sequence[object], folder: Path) -> list[Call]:
    """Runs a command in a child of this process; its calls that touch ``folder/files``, in order."""
    log = folder / "strace"
    code = _traced(words, folder, ["-y", "-o", str(log)])
    assert code == 0, (folder / "said").read_text()
    found, counts, main = [], Counter[str](), None
    for line in log.read_text(errors="replace").splitlines():
        if not (match := _LINE.match(line)):
            continue  # the end of a call, a signal, an exit
        thread, name, said = match.groups()
        main = main or thread
        if thread != main:
            continue
        counts[name] += 1
        if str(folder / "files") in said:
            found.append(Call(name, counts[name], said[:300]))
    return found


def killed_at(call: Call, words: Sequence[object], folder: Path) -> int:
    """Runs a command in a child of this process, which is killed when it makes that call; its exit code, or minus the
    signal. (A thread's calls are counted apart, so that others' do not matter.)"""
    inject = f"inject={call.name}:signal=SIGKILL:when={call.number}"
    return _traced(words, folder, ["-o", os.devnull, "-e", inject])


def _traced(words: Sequence[object], folder: Path, flags: Sequence[str]) -> int:
    """Runs a command in a child of this process that waits until strace looks at it."""
    code, _ = in_child(words, folder, _watched_by(["strace", "-f", "-qq", "-e", f"trace={_TRACE}", *flags]))
    return code


def _watched_by(strace: list[str]) -> Callable[[], None]:
    def begin() -> None:
        """Starts strace as a process of its own, which looks at this one until it ends."""
        here = os.getpid()
        if (middle := os.fork()) == 0:
            os.setpgid(0, 0)
            os.close(1)
            os.execvp(strace[0], [*strace, "-p", str(here)])
        end = time.monotonic() + 60
        while "TracerPid:\t0\n" in Path("/proc/self/status").read_text():
            if os.waitpid(middle, os.WNOHANG)[0] or time.monotonic() > end:
                os._exit(98)
            time.sleep(0.01)
        time.sleep(0.05)  # until it looks at every thread

    return begin
