"""Reads the files of a submission without trusting them or running anything.

What may be read becomes a card and results, or a sentence that says why it does not. A submission
has few files in few places (docs/submit.md); every other file, folder, link or device is a problem, and entries, sizes
and depth are limited, so that no folder keeps the gate busy.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from dpicl.core.errors import DpiclError, place_of
from dpicl.core.files import content_of
from dpicl.core.printable import make_visible
from dpicl.leaderboards.gate.card import (
    CARD,
    README,
    is_reserved,
    is_shadowing,
    read_card,
)
from dpicl.leaderboards.model.submissions import Card, Submission
from dpicl.results.schema import Result, Scores, either_from_text
from dpicl.results.store import Damaged, Store, join_files

#: Bytes of one file, and of all files of a submission together; files.
LARGEST_FILE, LARGEST, MOST_FILES = 200_000, 2_000_000, 2000
_MOST_ENTRIES = 4 * MOST_FILES
_PART = r"/[A-Za-z0-9_=+-](?:[A-Za-z0-9._=+-]{0,98}[A-Za-z0-9_=+-])?"
_LOCKS = rf"results{_PART}/\.locks"  # `dpicl run` leaves this folder behind; git ignores it
_FOLDER = re.compile(rf"results(?:{_PART}){{0,4}}|{_LOCKS}")  # results/<suite>/<model>/<row>/<task>
_FILE = re.compile(
    rf"{re.escape(CARD)}|{re.escape(README)}|[A-Za-z_][A-Za-z0-9_]*\.py"
    rf"|results(?:{_PART}){{4}}/[0-9a-f]{{16}}\.json"
)
_LOCK = re.compile(rf"{_LOCKS}/(?:\.gitignore|[0-9a-f]{{16}}\.lock)")
_LARGEST_LOCK = 2


@dataclass(frozen=True)
class Contents:
    """What is in the folder of a submission.

    size: problems of size, kind and place of files; where there is one, nothing is started for this submission.
    card_problem, schema: why card and results cannot
    be read. content: path below the folder -> bytes, of all files
    that were read. results: path -> result.
    """

    folder: Path
    size: tuple[str, ...] = ()
    card: Card | None = None
    card_problem: str = ""
    schema: tuple[str, ...] = ()
    content: dict[str, bytes] = field(default_factory=dict, repr=False)
    results: dict[str, Result] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        return make_visible(f"{self.folder.parent.name}/{self.folder.name}", 100)

    @property
    def plugin(self) -> Path | None:
        """The submitted file of the mechanism, None where there is none."""
        return (
            self.folder / self.card.mechanism
            if self.card and self.card.mechanism in self.content
            else None
        )

    @cached_property
    def plugin_hash(self) -> str | None:
        """Its sha256."""
        return (
            None
            if self.plugin is None
            else hashlib.sha256(self.content[self.plugin.name]).hexdigest()
        )

    @cached_property
    def digest(self) -> str:
        """12 hexadecimal digits over the mechanism's file and all results: what a record of a re-run is about."""
        digests = [
            (name, hashlib.sha256(content).hexdigest())
            for name, content in sorted(self.content.items())
            if name not in (CARD, README)
        ]
        return hashlib.sha256(repr(digests).encode()).hexdigest()[:12]

    def submission(self) -> Submission:
        """As the board takes it. Raises ValueError where there is no card."""
        if self.card is None:
            raise ValueError(self.card_problem)
        return Submission(self.card, tuple(self.results.values()), self.plugin)


def read_contents(folder: Path) -> Contents:
    """Reads a submission's folder. Damaged or hostile files become sentences, never errors."""
    folder = Path(
        os.path.abspath(folder)
    )  # not resolved: the folders' own names are the team and the method
    try:
        return _read(folder)
    except Exception as error:  # one submission never stops the others, nor anybody's board
        return Contents(folder, (fault(error),), card_problem="It was not read.")


def fault(error: Exception) -> str:
    """The sentence for an error of the gate itself: the submission is refused, the others are still examined."""
    what = f"{type(error).__name__} at {place_of(error)}"
    return f"The gate cannot examine it ({what}); report this, with the submission, as a fault."


def _read(folder: Path) -> Contents:
    size, content = survey(folder)
    schema, results = _read_results(folder, content)
    card = None
    card_problem = (
        f"There is no {CARD} that can be read; `dpicl submit --new TEAM/METHOD` writes one."
    )
    if CARD in content:
        try:
            card, card_problem = read_card(folder / CARD), ""
        except DpiclError as error:
            card_problem = str(error).replace(f"{folder}/", "")  # no path of this machine
    size += [
        f"{name} is not the mechanism that the card names; remove it, a submission has one file of code."
        for name in content
        if card is not None and name.endswith(".py") and name != card.mechanism
    ]
    return Contents(folder, tuple(size), card, card_problem, tuple(schema), content, results)


def _read_results(
    folder: Path, content: Mapping[str, bytes]
) -> tuple[list[str], dict[str, Result]]:
    """(sentences; path below the folder -> result that is where it belongs). A result that others score anew is there
    for their sake: it is no row of its own."""
    parsed: dict[Path, Result | Scores | Damaged | None] = {
        folder / name: _parse(folder / name, text)
        for name, text in content.items()
        if name.startswith("results/")
    }
    scored = {
        path.with_name(f"{scores.scored_release.cell_id}.json")
        for path, scores in parsed.items()
        if isinstance(scores, Scores)
    }
    parsed = {**dict.fromkeys(scored), **parsed}  # a release that was not read is none
    problems, results = [], {}
    for path, result in join_files(parsed).items():
        name = path.relative_to(folder).as_posix()
        if isinstance(result, Result):
            result = _require_place(folder, path, result)
        if isinstance(result, Damaged):
            reason = " ".join(result.reason.split())[:300].rstrip(".")
            problems.append(
                f"{name} is {reason}; send what `dpicl run` wrote, or run the cell again."
            )
        elif result is not None and path not in scored:
            results[name] = result
    return problems, results


def _parse(path: Path, content: bytes) -> Result | Scores | Damaged:
    try:
        return either_from_text(content.decode())
    except UnicodeDecodeError:
        return Damaged(path, "damaged: it is not text")
    except ValueError as error:
        return Damaged(path, str(error))


def _require_place(folder: Path, path: Path, result: Result) -> Result | Damaged:
    """The result, unless its file is not where it belongs."""
    try:
        place = Store(folder / "results", result.suite.name).path(result.cell)
    except ValueError as error:
        return Damaged(path, str(error))
    return (
        result
        if place == path
        else Damaged(path, "foreign: its name or folder does not fit its content")
    )


def survey(folder: Path) -> tuple[list[str], dict[str, bytes]]:
    """(problems of size, kind and place; path below the folder -> content of every file that may be read).

    Never raises for what is there.
    """
    for place in (folder.parent, folder):
        if place.is_symlink():
            return [f"{place.name} is a link; send the folder itself."], {}
    problems: list[str] = []
    sizes: dict[str, int] = {}
    for number, (name, info) in enumerate(_entries(folder)):
        if number >= _MOST_ENTRIES:
            problems.insert(
                0,
                f"It has more than {_MOST_ENTRIES:,} files and folders; send fewer tasks or seeds.",
            )
            break
        if not _is_expected(name, info):
            problems.append(
                f"{name} does not belong in a submission: docs/submit.md lists the files, and each must be a plain one"
                f" of at most {LARGEST_FILE:,} bytes, readable and not executable."
            )
        elif name.endswith(".py") and is_shadowing(Path(name).stem, folder):
            problems.append(
                f"{name} is called like a module of Python or a package and may run in its place; rename or remove it."
            )
        elif _FILE.fullmatch(name):
            sizes[name] = info.st_size
    total = sum(sizes.values())
    names = sorted(sizes)
    if len(sizes) > MOST_FILES or total > LARGEST:
        names = [name for name in names if "/" not in name]
        most = f"{MOST_FILES:,} and {LARGEST:,} are the most, so send fewer tasks or seeds."
        problems.append(f"It has {len(sizes):,} files with {total:,} bytes; {most}")
    files = {}
    for name in names:
        try:
            files[name] = content_of(folder / name, LARGEST_FILE)
        except OSError:
            problems.append(f"{name} cannot be read; give it the usual rights.")
    return problems, files


def _entries(folder: Path, below: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """(path below the folder, with slashes; what it is) of every entry, one by one; only the folders of a submission
    are entered, and no link. One that cannot be read has an entry that is no file."""
    try:
        with os.scandir(folder / below) as entries:
            for entry in entries:
                name = below + entry.name
                info = entry.stat(follow_symlinks=False)
                yield name, info
                if stat.S_ISDIR(info.st_mode) and _is_expected(name, info):
                    yield from _entries(folder, f"{name}/")
    except OSError:
        yield f"{below}(contents)", os.stat_result((0,) * 10)


def _is_expected(name: str, info: os.stat_result) -> bool:
    """Whether a submission may have this file or folder; a link or a device it may not, nor a name of a device."""
    if any(map(is_reserved, name.split("/"))):
        return False
    if stat.S_ISDIR(info.st_mode):
        return _FOLDER.fullmatch(name) is not None
    if not stat.S_ISREG(info.st_mode) or info.st_mode & 0o111:
        return False
    if _FILE.fullmatch(name):
        return info.st_size <= LARGEST_FILE
    return _LOCK.fullmatch(name) is not None and info.st_size <= _LARGEST_LOCK
