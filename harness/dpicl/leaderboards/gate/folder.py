"""What lies in a submitted folder, by names, kinds and sizes, before anything in it is opened or started.

A submission has few files in few places; every other file, folder, link or device is a problem. Entries, sizes and
depth are limited, so that no folder keeps the gate busy.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from dpicl.core.plugins import shadows
from dpicl.leaderboards.gate.card import CARD, README, REPRODUCED, reserved
from dpicl.results.store import QUARANTINE

#: Bytes of one file, and of all files of a submission together; files.
LARGEST_FILE = 200_000
LARGEST = 2_000_000
MOST_FILES = 2000
KINDS = (".yaml", ".json", ".py", ".md")
_DEPTH = 6  # results/<suite>/<model>/<row>/<task>/<file>
_MOST_ENTRIES = 4 * MOST_FILES
_MOST_SAID = 50
_LOCKS_PLACE = re.compile(r"results/[^/]+/\.locks")  # `dpicl run` leaves this folder behind; git ignores it
#: What those files may hold: two bytes that keep them out of git; nothing; who had a cell when a run was killed.
_LOCK_FILES = {".gitignore": 2, ".lock": 0}
_UNREADABLE = os.stat_result((0,) * 10)
_PART = re.compile(r"[A-Za-z0-9._=+-]{1,100}")


@dataclass(frozen=True)
class Survey:
    """problems: of size, kind and place. files: path below the folder -> content, of all files that may be read."""

    problems: tuple[str, ...]
    files: dict[str, bytes]


def survey(folder: Path) -> Survey:
    """Looks at a submission's folder, then reads what may be read. Never raises for what is there."""
    for place in (folder.parent, folder):
        if place.is_symlink():
            return Survey((f"{place.name} is a link; send the folder itself.",), {})
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
    if len(sizes) > MOST_FILES:
        problems.append(f"It has {len(sizes):,} files; {MOST_FILES:,} is the most, so send fewer tasks or seeds.")
    if (total := sum(sizes.values())) > LARGEST:
        problems.append(f"It has {total:,} bytes; {LARGEST:,} is the most, so send fewer tasks or seeds.")
    too_much = len(sizes) > MOST_FILES or total > LARGEST
    files = {}
    for name in sorted(name for name in sizes if not (too_much and "/" in name)):
        content = read_plain(folder / name, LARGEST_FILE)
        if content is None:
            problems.append(f"{name} cannot be read; give it the usual rights.")
        else:
            files[name] = content
    if len(problems) > _MOST_SAID:
        problems[_MOST_SAID:] = [f"There are {len(problems) - _MOST_SAID:,} more problems of this kind."]
    return Survey(tuple(problems), files)


def read_plain(path: Path, largest: int) -> bytes | None:
    """The content of a plain file of at most so many bytes, else None. Follows no link, waits for no pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(largest + 1)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return content if len(content) <= largest else None


def _walk(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """(path below the folder, with slashes; what it is) of every entry; a refused folder is not entered."""
    waiting = [folder]
    while waiting:
        place = waiting.pop()
        for path, info in _entries(place):
            name, is_folder = path.relative_to(folder).as_posix(), stat.S_ISDIR(info.st_mode)
            if is_folder and _LOCKS_PLACE.fullmatch(name) and _only_locks(path):
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


def _only_locks(folder: Path) -> bool:
    """Whether a folder holds what locks are made of, and nothing else."""
    return all(
        stat.S_ISREG(info.st_mode) and info.st_size <= _LOCK_FILES.get(path.suffix or path.name, -1)
        for path, info in _entries(folder)
    )


def _refused(folder: Path, name: str, info: os.stat_result) -> str:
    """Why a file or folder may not be in a submission, or ""."""
    parts = name.split("/")
    if stat.S_ISLNK(info.st_mode):
        return f"{name} is a link; send the file itself."
    if parts[-1] in QUARANTINE:
        return f"{name} holds results that `dpicl run` put into quarantine; remove the folder."
    if parts[-1].startswith("."):
        return f"{name} is hidden; remove it."
    if not all(map(_PART.fullmatch, parts)) or any(map(reserved, parts)) or name.endswith("."):
        return f"{name} has a name that not every system can have; use letters, digits and . _ = + - in it."
    if stat.S_ISDIR(info.st_mode):
        return _refused_folder(parts)
    return _refused_file(folder, name, info, parts)


def _refused_folder(parts: list[str]) -> str:
    name = "/".join(parts)
    if len(parts) >= _DEPTH:
        return f"{name} is deeper than a result is, or no plain file; remove it."
    return "" if parts[0] == "results" else f"{name} is no folder of a submission; remove it."


def _refused_file(folder: Path, name: str, info: os.stat_result, parts: list[str]) -> str:
    if not stat.S_ISREG(info.st_mode):
        return f"{name} is no plain file, or cannot be read; remove it."
    if info.st_mode & 0o111:
        return f"{name} is marked as executable; take the mark off with `chmod -x`."
    if info.st_size > LARGEST_FILE:
        return f"{name} has {info.st_size:,} bytes; {LARGEST_FILE:,} is the most for one file."
    if Path(name).suffix not in KINDS:
        return f"{name} is none of the kinds {', '.join(KINDS)}; remove it."
    if parts[0] == "results":
        return "" if len(parts) == _DEPTH and name.endswith(".json") else f"{name} is not where a result is; remove it."
    if len(parts) > 1 or (name.endswith((".yaml", ".json", ".md")) and name not in (CARD, REPRODUCED, README)):
        return f"{name} belongs to no submission; remove it, docs/submit.md lists the files."
    if name.endswith(".py") and shadows(Path(name).stem, folder):
        return f"{name} is called like a module of Python or a package and may run in its place; rename or remove it."
    return ""


def _alike(names: Iterable[str]) -> list[str]:
    """Files and folders that are one on a system that does not tell upper from lower case."""
    seen: dict[str, str] = {}
    problems = []
    for name in names:
        parts = name.split("/")
        for path in ("/".join(parts[:i]) for i in range(1, len(parts) + 1)):
            first = seen.setdefault(path.casefold(), path)
            if first != path:
                problems.append(f"{path} and {first} differ in upper and lower case alone; rename one.")
    return list(dict.fromkeys(problems))
