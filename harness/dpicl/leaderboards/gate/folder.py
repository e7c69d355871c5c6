"""What lies in a submitted folder, by names, kinds and sizes, before anything in it is opened or started.

A submission has few files in few places; every other file, folder, link or device is a problem. Entries, sizes and
depth are limited, so that no folder keeps the gate busy.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from itertools import accumulate, islice
from pathlib import Path

from dpicl.leaderboards.gate.card import CARD, README, REPRODUCED
from dpicl.leaderboards.gate.names import is_reserved, shadows
from dpicl.results.store import QUARANTINE

#: Bytes of one file, and of all files of a submission together; files.
LARGEST_FILE, LARGEST, MOST_FILES = 200_000, 2_000_000, 2000
KINDS = (".yaml", ".json", ".py", ".md")
_DEPTH = 6  # results/<suite>/<model>/<row>/<task>/<file>
_MOST_ENTRIES = 4 * MOST_FILES
_MOST_PROBLEMS = 50
_LOCKS_PLACE = re.compile(r"results/[^/]+/\.locks")  # `dpicl run` leaves this folder behind; git ignores it
#: Kind of a file of locks -> bytes that it may have.
_LOCK_FILES = {".gitignore": 2, ".lock": 0}
_UNREADABLE = os.stat_result((0,) * 10)
_PART = re.compile(r"[A-Za-z0-9._=+-]{1,100}")


def survey(folder: Path) -> tuple[list[str], dict[str, bytes]]:
    """(problems of size, kind and place; path below the folder -> content of every file that may be read).

    Never raises for what is there.
    """
    for place in (folder.parent, folder):
        if place.is_symlink():
            return [f"{place.name} is a link; send the folder itself."], {}
    problems: list[str] = []
    sizes: dict[str, int] = {}
    for number, (name, info) in enumerate(_walk(folder)):
        if number >= _MOST_ENTRIES:
            problems.insert(0, f"It has more than {_MOST_ENTRIES:,} files and folders; send fewer tasks or seeds.")
            break
        if problem := _refused(folder, name, info):
            problems.append(problem)
        elif not stat.S_ISDIR(info.st_mode):
            sizes[name] = info.st_size
    problems += _alike(sizes)
    total = sum(sizes.values())
    if too_much := len(sizes) > MOST_FILES or total > LARGEST:
        most = f"{MOST_FILES:,} and {LARGEST:,} are the most, so send fewer tasks or seeds."
        problems.append(f"It has {len(sizes):,} files with {total:,} bytes; {most}")
    files = {}
    for name in sorted(name for name in sizes if not (too_much and "/" in name)):
        content = _read_plain(folder / name)
        if content is None:
            problems.append(f"{name} cannot be read; give it the usual rights.")
        else:
            files[name] = content
    if len(problems) > _MOST_PROBLEMS:
        problems[_MOST_PROBLEMS:] = [f"There are {len(problems) - _MOST_PROBLEMS:,} more problems of this kind."]
    return problems, files


def _read_plain(path: Path) -> bytes | None:
    """The content of a plain file of at most `LARGEST_FILE` bytes, else None. Follows no link, waits for no pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            content = file.read(LARGEST_FILE + 1)
    except OSError:
        return None
    return content if len(content) <= LARGEST_FILE else None


def _walk(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """(path below the folder, with slashes; what it is) of every entry; a refused folder is not entered."""
    waiting = [folder]
    while waiting:
        for path, info in _entries(waiting.pop()):
            name, is_folder = path.relative_to(folder).as_posix(), stat.S_ISDIR(info.st_mode)
            if is_folder and _LOCKS_PLACE.fullmatch(name) and _holds_locks_only(path):
                continue
            yield name, info
            if is_folder and not _refused(folder, name, info):
                waiting.append(path)


def _entries(folder: Path) -> list[tuple[Path, os.stat_result]]:
    """What is in one folder, sorted, up to what a submission may have; an unreadable folder has one such entry."""
    try:
        with os.scandir(folder) as found:
            first = islice(found, _MOST_ENTRIES + 1)
            return sorted((Path(folder, one.name), one.stat(follow_symlinks=False)) for one in first)
    except OSError:
        return [(folder / "(contents)", _UNREADABLE)]


def _holds_locks_only(folder: Path) -> bool:
    return all(
        stat.S_ISREG(info.st_mode) and info.st_size <= _LOCK_FILES.get(path.suffix or path.name, -1)
        for path, info in _entries(folder)
    )


def _refused(folder: Path, name: str, info: os.stat_result) -> str:
    """Why a file or folder may not be in a submission, or ""."""
    parts, suffix = name.split("/"), Path(name).suffix
    top = parts[0] == "results"
    if stat.S_ISLNK(info.st_mode):
        return f"{name} is a link; send the file itself."
    if parts[-1] in QUARANTINE:
        return f"{name} holds results that `dpicl run` put into quarantine; remove the folder."
    if parts[-1].startswith("."):
        return f"{name} is hidden; remove it."
    if not all(map(_PART.fullmatch, parts)) or any(map(is_reserved, parts)) or name.endswith("."):
        return f"{name} has a name that not every system can have; use letters, digits and . _ = + - in it."
    if stat.S_ISDIR(info.st_mode):
        return "" if top and len(parts) < _DEPTH else f"{name} is no folder of a submission; remove it."
    if not stat.S_ISREG(info.st_mode):
        return f"{name} is no plain file, or cannot be read; remove it."
    if info.st_mode & 0o111:
        return f"{name} is marked as executable; take the mark off with `chmod -x`."
    if info.st_size > LARGEST_FILE:
        return f"{name} has {info.st_size:,} bytes; {LARGEST_FILE:,} is the most for one file."
    if suffix not in KINDS:
        return f"{name} is none of the kinds {', '.join(KINDS)}; remove it."
    if top:
        return "" if len(parts) == _DEPTH and suffix == ".json" else f"{name} is not where a result is; remove it."
    if len(parts) > 1 or (suffix != ".py" and name not in (CARD, REPRODUCED, README)):
        return f"{name} belongs to no submission; remove it, docs/submit.md lists the files."
    if suffix == ".py" and shadows(Path(name).stem, folder):
        return f"{name} is called like a module of Python or a package and may run in its place; rename or remove it."
    return ""


def _alike(names: Iterable[str]) -> list[str]:
    """Files and folders that are one on a system that does not tell upper from lower case."""
    seen: dict[str, str] = {}
    paths = (path for name in names for path in accumulate(name.split("/"), "{}/{}".format))
    pairs = ((path, seen.setdefault(path.casefold(), path)) for path in paths)
    return list(
        dict.fromkeys(
            f"{path} and {first} differ in upper and lower case alone; rename one."
            for path, first in pairs
            if first != path
        )
    )
