"""The files of a submission, read without trust and without running anything.

What may be read becomes a card, results and records of re-runs, or a sentence that says why it does not. A submission
has few kinds of files in few places; every other file, folder, link or device is a problem, and entries, sizes and
depth are limited, so that no folder keeps the gate busy:

    <team>/<method>/submission.yaml, README.md, reproduced.json, <method>.py
    <team>/<method>/results/<suite>/<model>/<row>/<task>/<cell id>.json
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, islice
from pathlib import Path

from dpicl.core.errors import DpiclError
from dpicl.core.printable import visible
from dpicl.leaderboards.gate.card import (
    CARD,
    README,
    REPRODUCED,
    Card,
    is_name,
    is_reserved,
    read_card,
    read_reproduced,
    shadows,
)
from dpicl.leaderboards.gate.findings import fault
from dpicl.leaderboards.model.submissions import Reproduction, Submission
from dpicl.results.schema import Result, from_text
from dpicl.results.store import QUARANTINE, Store

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


@dataclass(frozen=True)
class Contents:
    """What is in the folder of a submission.

    size: problems of size, kind and place of files; where there is one, nothing is started for this submission.
    card_problem, schema: why card and results cannot be read. content: path below the folder -> bytes, of all files
    that were read. results: path -> result. plugin: the submitted file of the mechanism, None where there is none.
    """

    folder: Path
    size: tuple[str, ...]
    card: Card | None
    card_problem: str
    schema: tuple[str, ...]
    content: dict[str, bytes] = field(repr=False)
    results: dict[str, Result] = field(repr=False)
    plugin: Path | None
    reproduced: tuple[Reproduction, ...]

    @property
    def name(self) -> str:
        return visible(f"{self.folder.parent.name}/{self.folder.name}", 100)

    @cached_property
    def files(self) -> dict[str, str]:
        """Path below the folder -> sha256, of all files that were read."""
        return {name: hashlib.sha256(content).hexdigest() for name, content in self.content.items()}

    @property
    def plugin_hash(self) -> str | None:
        return None if self.plugin is None else self.files[self.plugin.name]

    @property
    def hash(self) -> str:
        """sha256 over names and contents of the card, the mechanism and the results."""
        own = sorted(item for item in self.files.items() if item[0] not in (REPRODUCED, README))
        return hashlib.sha256(json.dumps(own).encode()).hexdigest()

    def submission(self) -> Submission:
        """As the board takes it. Raises ValueError where there is no card."""
        if self.card is None:
            raise ValueError(self.card_problem)
        same = ("team", "method", "licence", "paper", "code", "public_data", "tuning", "footnote", "unreliable")
        return Submission(
            **{name: getattr(self.card, name) for name in same},
            folder=self.folder,
            authors=tuple(self.card.authors),
            reported={(one.task, one.epsilon): one.score for one in self.card.reported},
            reproduced=self.reproduced,
            plugin=self.plugin,
            results=tuple(self.results.values()),
        )


def read_contents(folder: Path) -> Contents:
    """Reads a submission's folder. Damaged or hostile files become sentences, never errors."""
    folder = Path(os.path.abspath(folder))  # not resolved: the names that were given are the team and the method
    try:
        return _read(folder)
    except Exception as error:  # one submission never stops the others, nor anybody's board
        return Contents(folder, (fault(error),), None, "It was not read.", (), {}, {}, None, ())


def _read(folder: Path) -> Contents:
    size, content = survey(folder)
    found = {name: _result(folder, name, content[name]) for name in content if name.startswith("results/")}
    results = {name: one for name, one in found.items() if isinstance(one, Result)}
    schema = [one for one in found.values() if isinstance(one, str)]
    card, card_problem = _card(folder, CARD in content)
    named = card.mechanism if card else ""
    size += [
        f"{name} is not the mechanism that the card names; remove it, a submission has one file of code."
        for name in content
        if card is not None and name.endswith(".py") and name != named
    ]
    reproduced: tuple[Reproduction, ...] = ()
    try:
        reproduced = read_reproduced(folder / REPRODUCED) if REPRODUCED in content else ()
    except DpiclError as error:
        schema.append(str(error).replace(f"{folder}/", ""))
    plugin = folder / named if named in content else None
    return Contents(folder, tuple(size), card, card_problem, tuple(schema), content, results, plugin, reproduced)


def _card(folder: Path, is_there: bool) -> tuple[Card | None, str]:
    """(the card, "") or (None, why it cannot be read)."""
    if not is_there:
        return None, f"There is no {CARD} that can be read; `dpicl submit --new TEAM/METHOD` writes one."
    team, method = folder.parent.name, folder.name
    for kind, name in (("team", team), ("method", method)):
        if not is_name(name):
            return None, (
                f"The {kind}'s folder is called {name!r}; use at most 40 lower-case letters, digits, '-' and '_'"
                " (and not con, nul or another device's name)."
            )
    try:
        card = read_card(folder / CARD)
    except DpiclError as error:
        return None, str(error).replace(f"{folder}/", "")  # no path of this machine in a report
    if (card.team, card.method) != (team, method):
        return None, (
            f"{CARD}: team and method are {card.team!r} and {card.method!r}, the folders"
            f" {team!r} and {method!r}; give them the same names."
        )
    return card, ""


def _result(folder: Path, name: str, content: bytes) -> Result | str:
    """A result whose file is where it belongs, or a sentence."""
    try:
        result = from_text(content.decode())
        path = Store(folder / "results", result.suite.name).path(result.cell)
    except UnicodeDecodeError:
        return f"{name} is damaged: it is not text; run the cell again."
    except ValueError as error:
        return f"{name} is {' '.join(str(error).split())[:300].rstrip('.')}; run the cell again."
    if path != folder / name:
        return f"{name} is foreign: its name or folder does not fit its content; copy what `dpicl run` wrote."
    return result


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
