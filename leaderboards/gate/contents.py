"""The files of a submission, read without trust and without running anything.

Nothing is followed (links), nothing above the limits is opened, and every file that is no result is named with its
reason. A submission has few kinds of files:

    <team>/<method>/submission.yaml, README.md, reproduced.json, <method>.py
    <team>/<method>/results/<suite>/<model>/<row>/<task>/<cell id>.json
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import DpiclError
from harness.results import Result, from_text
from harness.store import Store
from leaderboards.gate.card import CARD, NAME, REPRODUCED, Card, read_card, read_reproduced
from leaderboards.submitted import Reproduction, Submission

#: Bytes of one file, and of all files of a submission together.
LARGEST_FILE = 200_000
LARGEST = 2_000_000
MOST_FILES = 2000
KINDS = (".yaml", ".json", ".py", ".md")
_DEPTH = 6  # results/<suite>/<model>/<row>/<task>/<file>
_LOCKS = ".locks"  # `dpicl run` leaves this folder behind; git ignores it


@dataclass(frozen=True)
class Contents:
    """What is in the folder of a submission.

    size: problems of size, kind and place of files. card_problem, schema: why card and results cannot be read.
    files: path below the folder -> sha256, of all files that were read. results: path -> result.
    plugin: the mechanism's file as it was sent, None where there is none.
    """

    folder: Path
    size: tuple[str, ...]
    card: Card | None
    card_problem: str
    schema: tuple[str, ...]
    files: dict[str, str] = field(repr=False)
    results: dict[str, Result] = field(repr=False)
    plugin: Path | None
    reproduced: tuple[Reproduction, ...]

    @property
    def name(self) -> str:
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def plugin_hash(self) -> str | None:
        return None if self.plugin is None else self.files[self.plugin.name]

    @property
    def hash(self) -> str:
        """sha256 over names and contents of the card, the mechanism and the results; a re-run's seed is from it."""
        own = sorted(item for item in self.files.items() if item[0] not in (REPRODUCED, "README.md"))
        return hashlib.sha256(json.dumps(own).encode()).hexdigest()

    def submission(self) -> Submission:
        """As the board takes it. Raises ValueError where there is no card."""
        if self.card is None:
            raise ValueError(self.card_problem)
        card = self.card
        return Submission(
            team=self.folder.parent.name,
            method=self.folder.name,
            folder=self.folder,
            authors=tuple(card.authors),
            licence=card.licence,
            paper=card.paper,
            code=card.code,
            public_data=card.public_data,
            tuning=card.tuning,
            reported={(one.task, one.epsilon): one.score for one in card.reported},
            footnote=card.footnote,
            unreliable=card.unreliable,
            reproduced=self.reproduced,
            plugin=self.plugin,
            results=tuple(self.results.values()),
        )


def read_contents(folder: Path) -> Contents:
    """Reads a submission's folder. Damaged or hostile files become sentences, never errors."""
    folder = Path(os.path.abspath(folder))  # not resolved: the names that were given are the team and the method
    size, sound = _survey(folder)
    files, results, schema = {}, {}, []
    for name in sound:
        content = (folder / name).read_bytes()
        files[name] = hashlib.sha256(content).hexdigest()
        if name.startswith("results/"):
            found = _result(folder, name, content)
            if isinstance(found, Result):
                results[name] = found
            else:
                schema.append(found)
    card, card_problem = _card(folder, CARD in files)
    plugin = _plugin(folder, files, card)
    size += [
        f"{name} is not the mechanism that the card names; remove it, one file is sent."
        for name in files
        if card is not None and name.endswith(".py") and name != card.mechanism
    ]
    again: tuple[Reproduction, ...] = ()
    if REPRODUCED in files:
        try:
            again = read_reproduced(folder / REPRODUCED)
        except DpiclError as error:
            schema.append(str(error).replace(f"{folder}/", ""))
    return Contents(folder, tuple(size), card, card_problem, tuple(schema), files, results, plugin, again)


def _card(folder: Path, there: bool) -> tuple[Card | None, str]:
    if not there:
        return None, f"There is no {CARD} that can be read; `dpicl submit --new TEAM/METHOD` writes one."
    team, method = folder.parent.name, folder.name
    for kind, name in (("team", team), ("method", method)):
        if not NAME.fullmatch(name):
            return None, (
                f"The {kind}'s folder is called {name!r}; use at most 40 lower-case letters, digits, '-' and '_'."
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


def _plugin(folder: Path, files: dict[str, str], card: Card | None) -> Path | None:
    named = card.mechanism if card else ""
    return folder / named if named in files else None


def _survey(folder: Path) -> tuple[list[str], list[str]]:
    """(problems, files that may be opened). Looks at names and sizes alone."""
    problems, sound, total = [], [], 0
    for path, info in _walk(folder):
        name = path.relative_to(folder).as_posix()
        problem = _refused(name, info)
        if problem:
            problems.append(problem)
            continue
        total += info.st_size
        sound.append(name)
    if len(sound) > MOST_FILES:
        problems.append(f"It has {len(sound):,} files; {MOST_FILES:,} is the most, so send fewer tasks or seeds.")
        sound = sorted(sound, key=lambda name: name.count("/"))[:MOST_FILES]
    if total > LARGEST:
        problems.append(f"It has {total:,} bytes; {LARGEST:,} is the most, so send fewer tasks or seeds.")
    return problems, sorted(sound)


def _walk(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Every file and link, and every folder that is refused; what is in refused folders is not looked at."""
    for place, folders, names in os.walk(folder, followlinks=False):
        for name in list(folders):
            path = Path(place, name)
            if (
                path.is_symlink()
                or name.startswith(".")
                or name == "set_aside"
                or len(path.parts) > len(folder.parts) + _DEPTH
            ):
                folders.remove(name)
                if not (name == _LOCKS and _only_locks(path)):
                    yield path, path.lstat()
        folders.sort()
        for name in sorted(names):
            path = Path(place, name)
            yield path, path.lstat()


def _only_locks(folder: Path) -> bool:
    if folder.is_symlink():
        return False
    return all(
        path.name == ".gitignore" or (path.suffix == ".lock" and path.lstat().st_size == 0) for path in folder.iterdir()
    )


def _refused(name: str, info: os.stat_result) -> str:
    """Why a file may not be in a submission, or ""."""
    parts = name.split("/")
    if stat.S_ISLNK(info.st_mode):
        return f"{name} is a link; send the file itself."
    if parts[-1] == "set_aside":
        return f"{name} holds results that `dpicl run` set aside; remove the folder."
    if any(part.startswith(".") for part in parts):
        return f"{name} is hidden; remove it."
    if not stat.S_ISREG(info.st_mode):
        return f"{name} is deeper than a result is, or no plain file; remove it."
    if info.st_mode & 0o111:
        return f"{name} is marked as executable; take the mark off with `chmod -x`."
    if info.st_size > LARGEST_FILE:
        return f"{name} has {info.st_size:,} bytes; {LARGEST_FILE:,} is the most for one file."
    if Path(name).suffix not in KINDS:
        return f"{name} is none of the kinds {', '.join(KINDS)}; remove it."
    if parts[0] == "results":
        return "" if len(parts) == _DEPTH and name.endswith(".json") else f"{name} is not where a result is; remove it."
    if len(parts) > 1 or (name.endswith((".yaml", ".json", ".md")) and name not in (CARD, REPRODUCED, "README.md")):
        return f"{name} belongs to no submission; remove it, docs/submitting.md lists the files."
    return ""


def _result(folder: Path, name: str, content: bytes) -> Result | str:
    """A result whose file is where it belongs, or a sentence."""
    try:
        result = from_text(content.decode())
    except UnicodeDecodeError:
        return f"{name} is damaged: it is not text; run the cell again."
    except ValueError as error:
        return f"{name} is {' '.join(str(error).split())[:300].rstrip('.')}; run the cell again."
    if Store(folder / "results", result.suite.name).path(result.cell) != folder / name:
        return f"{name} is foreign: its name or folder does not fit its content; copy what `dpicl run` wrote."
    return result
