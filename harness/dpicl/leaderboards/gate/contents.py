"""The files of a submission, read without trust and without running anything.

What may be read becomes a card, results and records of re-runs, or a sentence that says why it does not. A submission
has few kinds of files in few places; every other file, folder, link or device is a problem, and entries, sizes and
depth are limited, so that no folder keeps the gate busy:

    <team>/<method>/submission.yaml, README.md, reproduced.json, <method>.py
    <team>/<method>/results/<suite>/<model>/<row>/<task>/<cell id>.json
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, starmap
from pathlib import Path
from traceback import extract_tb

from dpicl.core.errors import DpiclError
from dpicl.core.files import content_of
from dpicl.core.printable import visible
from dpicl.leaderboards.gate.card import (
    CARD,
    README,
    REPRODUCED,
    is_reserved,
    read_card,
    read_reproduced,
    shadows,
    suite_of,
)
from dpicl.leaderboards.model.submissions import Card, Reproduction, Submission
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
    suite: the one that the card names, where it can be read so far. card_problem, schema: why card and results cannot
    be read. content: path below the folder -> bytes, of all files
    that were read. results: path -> result.
    """

    folder: Path
    size: tuple[str, ...] = ()
    card: Card | None = None
    suite: str | None = None
    card_problem: str = ""
    schema: tuple[str, ...] = ()
    content: dict[str, bytes] = field(default_factory=dict, repr=False)
    results: dict[str, Result] = field(default_factory=dict, repr=False)
    reproduced: tuple[Reproduction, ...] = ()

    @property
    def name(self) -> str:
        return visible(f"{self.folder.parent.name}/{self.folder.name}", 100)

    @property
    def plugin(self) -> Path | None:
        """The submitted file of the mechanism, None where there is none."""
        return self.folder / self.card.mechanism if self.card and self.card.mechanism in self.content else None

    @cached_property
    def plugin_hash(self) -> str | None:
        """Its sha256."""
        return None if self.plugin is None else hashlib.sha256(self.content[self.plugin.name]).hexdigest()

    def submission(self) -> Submission:
        """As the board takes it. Raises ValueError where there is no card."""
        if self.card is None:
            raise ValueError(self.card_problem)
        return Submission(self.card, tuple(self.results.values()), self.reproduced, self.plugin)


def read_contents(folder: Path) -> Contents:
    """Reads a submission's folder. Damaged or hostile files become sentences, never errors."""
    folder = Path(os.path.abspath(folder))  # not resolved: the names that were given are the team and the method
    try:
        return _read(folder)
    except Exception as error:  # one submission never stops the others, nor anybody's board
        return Contents(folder, (fault(error),), card_problem="It was not read.")


def fault(error: Exception) -> str:
    """The sentence for an error of the gate itself: the submission is refused, the others are still examined."""
    frames = extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    return f"The gate cannot examine it ({type(error).__name__}{where}); report this, with the submission, as a fault."


def _read(folder: Path) -> Contents:
    size, content = survey(folder)
    card, suite = None, None
    reproduced: tuple[Reproduction, ...] = ()
    card_problem = f"There is no {CARD} that can be read; `dpicl submit --new TEAM/METHOD` writes one."
    found = {name: _result(folder, name, content[name]) for name in content if name.startswith("results/")}
    schema = [one for one in found.values() if isinstance(one, str)]
    try:
        if CARD in content:
            suite = suite_of(folder / CARD)
            card, card_problem = read_card(folder / CARD), ""
    except DpiclError as error:
        card_problem = str(error).replace(f"{folder}/", "")  # no path of this machine in a report
    try:
        reproduced = read_reproduced(folder / REPRODUCED) if REPRODUCED in content else ()
    except DpiclError as error:
        schema.append(str(error).replace(f"{folder}/", ""))
    size += [
        f"{name} is not the mechanism that the card names; remove it, a submission has one file of code."
        for name in content
        if card is not None and name.endswith(".py") and name != card.mechanism
    ]
    results = {name: one for name, one in found.items() if isinstance(one, Result)}
    return Contents(folder, tuple(size), card, suite, card_problem, tuple(schema), content, results, reproduced)


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
    for number, (name, info, problem) in enumerate(_walk(folder)):
        if number >= _MOST_ENTRIES:
            problems.insert(0, f"It has more than {_MOST_ENTRIES:,} files and folders; send fewer tasks or seeds.")
            break
        if problem:
            problems.append(problem)
        elif not stat.S_ISDIR(info.st_mode):
            sizes[name] = info.st_size
    total = sum(sizes.values())
    if too_much := len(sizes) > MOST_FILES or total > LARGEST:
        most = f"{MOST_FILES:,} and {LARGEST:,} are the most, so send fewer tasks or seeds."
        problems.append(f"It has {len(sizes):,} files with {total:,} bytes; {most}")
    files = {}
    for name in sorted(name for name in sizes if not (too_much and "/" in name)):
        try:
            files[name] = content_of(folder / name, LARGEST_FILE)
        except OSError:
            problems.append(f"{name} cannot be read; give it the usual rights.")
    if len(problems) > _MOST_PROBLEMS:
        problems[_MOST_PROBLEMS:] = [f"There are {len(problems) - _MOST_PROBLEMS:,} more problems of this kind."]
    return problems, files


def _walk(folder: Path) -> Iterator[tuple[str, os.stat_result, str]]:
    """(path below the folder, with slashes; what it is; why it may not be there) of every entry; a refused folder is
    not entered."""
    waiting = [folder]
    while waiting:
        for path, info in _entries(waiting.pop()):
            name, is_folder = path.relative_to(folder).as_posix(), stat.S_ISDIR(info.st_mode)
            if is_folder and _LOCKS_PLACE.fullmatch(name) and all(starmap(_is_lock, _entries(path))):
                continue
            yield name, info, (problem := _refused(folder, name, info))
            if is_folder and not problem:
                waiting.append(path)


def _entries(folder: Path) -> list[tuple[Path, os.stat_result]]:
    """What is in one folder, sorted, up to what a submission may have; an unreadable folder has one such entry."""
    try:
        with os.scandir(folder) as found:
            first = islice(found, _MOST_ENTRIES + 1)
            return sorted((Path(folder, one.name), one.stat(follow_symlinks=False)) for one in first)
    except OSError:
        return [(folder / "(contents)", _UNREADABLE)]


def _is_lock(path: Path, info: os.stat_result) -> bool:
    return stat.S_ISREG(info.st_mode) and info.st_size <= _LOCK_FILES.get(path.suffix or path.name, -1)


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
