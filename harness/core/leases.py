"""Claims on a folder that several machines share, whose file system may know no locks between machines.

A claim is a file ``NAME.N.lease`` that its holder touches every `BEAT_SECONDS`; the highest N counts. Whoever wants a
name that is claimed watches that file: when nothing has changed for `EXPIRY_SECONDS` by the watcher's own clock (so
clocks may differ and jump), the holder is gone, and the watcher makes N + 1. Making a file that must not exist is one
step on every network file system (a hard link to a whole file), so of several watchers one succeeds. Where the system's
lock of the same machine is held too (`dpicl.harness.core.locks`), a claim from this machine is known to be left over.

A holder that was stopped for longer than that (a laptop's lid, a stopped virtual machine) has lost its claim: what it
writes must not replace what its successor wrote (`Store.write`).
"""

from __future__ import annotations

import os
import platform
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dpicl.harness.core.background import in_background
from dpicl.harness.core.files import put_whole, regular

#: A holder shows so often that it is alive, and is taken for dead when it has not for so long. Clients of network file
#: systems see a change after at most a minute by default.
BEAT_SECONDS, EXPIRY_SECONDS = 15.0, 180.0
_POLL_SECONDS = 1.0
_SUFFIX = ".lease"
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class _Claim:
    """A claim as it was seen. machine: of its holder. owner: what the holder calls itself. beat: changes while the
    holder is alive."""

    path: Path
    number: int
    machine: str
    owner: str
    token: str
    beat: int


#: What this process has seen last of others' claims: path -> (token, beat, when it saw that first by its own clock).
_seen: dict[Path, tuple[str, int, float]] = {}


@contextmanager
def claimed(folder: Path, name: str, locked: bool, wait: bool = False, owner: str = "") -> Iterator[bool]:
    """Claims a name in a folder; yields False, without it, where somebody else has it.

    locked: whether the caller holds a lock of this machine for the name, so that no live process here claims it.
    wait: until it is free or its holder is gone. Raises OSError.
    """
    mine = _claim(folder, name, locked, owner)
    while mine is None and wait:
        time.sleep(_POLL_SECONDS)
        mine = _claim(folder, name, locked, owner)
    if mine is None:
        yield False
        return
    _beating.add(mine)
    try:
        yield True
    finally:
        _beating.discard(mine)
        mine.unlink(missing_ok=True)


def owners(folder: Path) -> dict[str, str]:
    """Name -> owner of every claim in a folder, live or left over."""
    return {
        name: found[-1].owner
        for name in sorted({path.name.split(".")[0] for path in folder.glob(f"*{_SUFFIX}")})
        if (found := _claims(folder, name))
    }


def _claim(folder: Path, name: str, locked: bool, owner: str) -> Path | None:
    """The file of a new claim, None where somebody has the name."""
    before = _claims(folder, name)
    if not all(_left_over(claim, locked) for claim in before):
        return None
    token = uuid.uuid4().hex
    path = folder / f"{name}.{before[-1].number + 1 if before else 1}{_SUFFIX}"
    if not _made(path, f"{this_machine()}\n{token}\n{owner}\n"):
        return None
    now = {claim.token for claim in _claims(folder, name)}
    if now - {token} - {claim.token for claim in before}:  # somebody else came between: both step back
        path.unlink(missing_ok=True)
        return None
    for claim in before:
        claim.path.unlink(missing_ok=True)
    return path


def _left_over(claim: _Claim, locked: bool) -> bool:
    """Whether the holder of a claim is gone."""
    if locked and claim.machine == this_machine():
        return True
    now = time.monotonic()
    token, beat, since = _seen.get(claim.path, ("", 0, now))
    if (token, beat) != (claim.token, claim.beat):
        since = now
    _seen[claim.path] = claim.token, claim.beat, since
    return now - since > EXPIRY_SECONDS


def _claims(folder: Path, name: str) -> list[_Claim]:
    """The claims of a name, the one that counts last."""
    found = []
    for path in folder.glob(f"{name}.*{_SUFFIX}"):
        number = re.fullmatch(rf"{re.escape(name)}\.(\d{{1,9}})", path.name.removesuffix(_SUFFIX))
        with suppress(FileNotFoundError):
            if number:
                # opening it asks the server
                with open(path, encoding="utf-8", errors="replace", opener=regular) as file:
                    machine, token, owner, *_ = [*file.read(1000).split("\n"), "", "", ""]
                    beat = os.fstat(file.fileno()).st_mtime_ns
                found.append(_Claim(path, int(number[1]), machine, owner, token, beat))
    return sorted(found, key=lambda claim: claim.number)


def _made(path: Path, content: str) -> bool:
    """Makes a file with its content in one step; False where it is there already, or another machine has just taken
    the unfinished one for left over."""
    try:
        put_whole(path, content, new=True, synced=False)
    except (FileExistsError, FileNotFoundError):
        return False
    return True


@cache
def this_machine() -> str:
    """The same for all processes of one running system."""
    with suppress(OSError):
        return _BOOT.read_text(encoding="ascii").strip()
    return platform.node()


class _Beating:
    """Touches the claims of this process, from a thread that ends with it."""

    def __init__(self) -> None:
        self._paths: set[Path] = set()
        self._process = 0

    def add(self, path: Path) -> None:
        if self._process != os.getpid():  # also when forked: the claims of a parent are not ours
            self._process, self._paths = os.getpid(), set()
            in_background(self._beat, "leases")
        self._paths.add(path)

    def discard(self, path: Path) -> None:
        self._paths.discard(path)

    def _beat(self) -> None:
        while True:
            time.sleep(BEAT_SECONDS)
            for path in list(self._paths):
                with suppress(OSError):  # it was released, or taken over; or the file system is away for a moment
                    os.utime(path)


_beating = _Beating()
