"""Reads and writes the results folder: results/<suite>/<model>/<row>/<task>/<cell id>.json.

A file appears whole or not at all (temporary file in the same folder, fsync, link). A cell is locked by the process
that works on it, with flock, which the operating system frees when the process dies, however it dies. Scores that were
made anew of an earlier release are a file of their own, beside that result. Files that cannot be read as results are
never deleted: `set_aside` moves them into a folder `quarantine` beside them.

A results folder may come from elsewhere. Below it no link is followed, neither in reading nor in writing, and every
reader lists files by `list_results`, which names what it could not look into.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from dpicl.core import json_text
from dpicl.core.cell import Cell
from dpicl.core.collection import pause_collection
from dpicl.core.errors import ResultError
from dpicl.core.files import hold_lock, make_folder, put_whole, require_no_link, unwritable_error
from dpicl.core.messages import message
from dpicl.core.paths import QUARANTINE, slug
from dpicl.results.schema import (
    NewerFile,
    Result,
    Scores,
    either_from_text,
    from_text,
    join_scores,
    not_storable_error,
    split_scores,
    to_text,
)

_LOCKS = ".locks"
#: What a killed run leaves of a cell's file (`dpicl.core.files.put_whole`).
_UNFINISHED = re.compile(r"\.([0-9a-f]{16})\.json(?:\.[0-9a-f]{16})?\.tmp")
#: A result whose name was changed on the way, by a packing program or a system that takes case for nothing.
_MISNAMED = re.compile(r"\.json\s*(\.(gz|zip|bz2|xz|zst))?$", re.IGNORECASE)
_LINK = "a symbolic link, and none is followed below a results folder"
T = TypeVar("T")


@dataclass(frozen=True)
class Damaged:
    """A file in the results folder that is no result of this schema, or of other records, and why.

    unread: a file or folder that could not be looked into, and may hold sound results: it is never moved.
    """

    path: Path
    reason: str
    unread: bool = False


def report_damaged(damaged: Sequence[Damaged], moved: bool = False) -> None:
    """A sentence about files that are no results, and one about what could not be read. moved: whether the files were
    set aside."""
    what = (
        "moved into quarantine/ beside it"
        if moved
        else "ignored (it goes into quarantine/ when it is made again)"
    )
    unread = [each for each in damaged if each.unread]
    others = [each for each in damaged if not each.unread]
    for group, problem in (
        (unread, "could not be read, so results may be missing here"),
        (others, f"is not a result of this version and is {what}"),
    ):
        if group:
            message(f"dpicl: {group[0].path} {problem}: {group[0].reason}{_describe_more(group)}.")


def describe_unread(damaged: Sequence[Damaged]) -> list[str]:
    """What a page says of what could not be read, without a path of this machine."""
    number = sum(each.unread for each in damaged)
    return [
        f"Results may be missing here: {number} of the files and folders could not be read."
    ] * bool(number)


def _describe_more(damaged: Sequence[Damaged]) -> str:
    return f"; the same of {len(damaged) - 1} more" if len(damaged) > 1 else ""


class Store:
    """The results of one suite under a results folder. Reading needs no folder to be there; writing calls `prepare`."""

    def __init__(self, folder: Path, suite: str) -> None:
        self.results = folder
        self.folder = folder / slug(suite)

    def path(self, cell: Cell) -> Path:
        """Where the result of a cell is, or will be."""
        return self._place(cell, cell.id)

    def read(self, cell: Cell) -> Result | None:
        """The result of a cell; None when there is none that can be read."""
        path = self.path(cell)
        content = join_files({path: read_file(path, either_from_text)})[path]
        return content if isinstance(content, Result) and content.cell_id == cell.id else None

    def load_all(self) -> tuple[list[Result], list[Damaged]]:
        """Every result of the suite, of all its versions, and the files that are none. Changes nothing on disk."""
        if os.path.isfile(self.results):
            raise ResultError(f"{self.results} is a file; give a results folder with --results.")
        results = []
        paths, damaged = list_results(self.folder, self.results)
        with pause_collection():
            files = join_files({path: read_file(path, either_from_text) for path in paths})
            for path, content in files.items():
                if (
                    isinstance(content, Result)
                    and self._place(content.cell, content.cell_id) != path
                ):
                    content = Damaged(path, "foreign: its name or folder does not fit its content")
                if isinstance(content, Result):
                    results.append(content)
                elif content is not None:
                    damaged.append(content)
        return results, damaged

    def _place(self, cell: Cell, name: str) -> Path:
        folders = (slug(cell.model), slug(cell.label), slug(cell.task))
        return self.folder.joinpath(*folders, f"{name}.json")

    def prepare(self) -> None:
        """Makes the folder ready for writing. Raises ResultError when it cannot be written, before any work is done."""
        ignore = self.folder / _LOCKS / ".gitignore"
        require_no_link(ignore, self.results)
        try:
            make_folder(ignore.parent)
            # in place: a kill leaves no temporary file
            with (
                suppress(FileExistsError),
                ignore.open("x") as file,
            ):
                file.write("*\n")
            with tempfile.TemporaryFile(dir=self.folder):
                pass
        except OSError as error:
            raise unwritable_error(self.results, error) from error
        self._remove_unfinished()

    def set_aside(self, damaged: Sequence[Damaged]) -> list[Path]:
        """Moves files into `quarantine` beside them, under a name that is still free; returns where they are now.

        Raises ResultError, and moves nothing, where a file could not be read or a link stands in the way.
        """
        self._require_movable(damaged)
        moved = []
        for item in damaged:
            target = item.path.parent / QUARANTINE[0] / item.path.name
            number = 1
            while os.path.lexists(target):
                target = (
                    item.path.parent
                    / QUARANTINE[0]
                    / f"{item.path.stem}.{number}{item.path.suffix}"
                )
                number += 1
            try:
                target.parent.mkdir(exist_ok=True)
                os.replace(item.path, target)
            except FileNotFoundError:
                continue  # another run was faster
            except OSError as error:
                raise unwritable_error(self.results, error) from error
            moved.append(target)
        return moved

    def _require_movable(self, damaged: Sequence[Damaged]) -> None:
        if unread := [each for each in damaged if each.unread]:
            raise ResultError(
                f"{unread[0].path} could not be read ({unread[0].reason}){_describe_more(unread)}; it may hold results,"
                " so nothing was run or moved. Fix that, or choose another folder with --results."
            )
        for item in damaged:
            require_no_link(item.path.parent / QUARANTINE[0], self.results)

    @contextmanager
    def lock(self, cell: str, wait: bool = False) -> Iterator[bool]:
        """Holds the lock of a cell's id; yields False, without it, when another process holds it and `wait` is off.

        Raises ResultError.
        """
        path = self.folder / _LOCKS / f"{cell}.lock"
        require_no_link(path, self.results)
        with ExitStack() as stack:
            try:
                mine = stack.enter_context(hold_lock(path, wait))
            except OSError as error:
                raise unwritable_error(self.results, error) from error
            if mine:
                stack.callback(path.unlink, missing_ok=True)  # while it is held
            yield mine

    def write(self, result: Result) -> bool:
        """Writes one result, while the caller holds the cell's lock; False, without it, where there is one already, of
        another machine that shares the folder.

        Raises ResultError when the disk does not take it, and PluginError for one that nobody could read again.
        """
        path = self.path(result.cell)
        if result.scored_release is None:
            text = require_readable(to_text, from_text, result)
        else:
            text = require_readable(to_text, either_from_text, split_scores(result))
        if isinstance(
            content := join_files({path: read_file(path, either_from_text)})[path], Damaged
        ):
            self.set_aside([content])
        try:
            put_whole(path, text, new=True, root=self.results)
        except FileExistsError:
            return False
        except OSError as error:
            raise unwritable_error(self.results, error) from error
        return True

    def _remove_unfinished(self) -> None:
        """Removes what killed runs left, half-written files and locks; what a run that is alive has in use stays."""
        unfinished = defaultdict(list)
        for entry in _list_tree(self.folder, self.results)[0]:
            name = _UNFINISHED.fullmatch(entry.name)
            if name and entry.is_file(follow_symlinks=False):
                unfinished[name[1]].append(Path(entry.path))
        locks = {path.stem for path in (self.folder / _LOCKS).glob("*.lock")}
        for cell in sorted(unfinished.keys() | locks):
            with self.lock(cell) as mine:
                for path in unfinished[cell] if mine else ():
                    path.unlink(missing_ok=True)


def list_results(folder: Path, root: Path) -> tuple[list[Path], list[Damaged]]:
    """(the paths below a folder that have the name of a result, what could not be looked into), both sorted. Folders
    `quarantine` and names with a leading dot are not looked into. root: the folder that the user has named, which may
    be a link itself."""
    entries, unread = _list_tree(folder, root)
    visible = [entry for entry in entries if not entry.name.startswith(".")]
    places = [entry.path for entry in visible if entry.name.endswith(".json")]
    unread += [
        Damaged(Path(entry.path), "its name does not end in .json", unread=True)
        for entry in visible
        if not entry.name.endswith(".json") and _MISNAMED.search(entry.name)
    ]
    paths = [Path(place) for place in sorted(places, key=_parts)]
    return paths, sorted(unread, key=lambda each: each.path)


def _parts(place: str) -> list[str]:
    """Paths are in the order of their parts."""
    return place.split(os.sep)


def list_suites(results: Path) -> list[str]:
    """The folders of suites in a results folder. Raises ResultError where it cannot be read."""
    try:
        with os.scandir(results) as entries:
            names = [entry.name for entry in entries if entry.is_symlink() or entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ResultError(f"Cannot read {results}: {error.strerror}.") from error
    return sorted(name for name in names if name not in QUARANTINE and not name.startswith("."))


def _list_tree(folder: Path, root: Path) -> tuple[list[os.DirEntry[str]], list[Damaged]]:
    """(everything below a folder but folders, what could not be looked into): a link that leads to no plain file may
    stand for a folder."""
    if folder != root and folder.is_symlink():
        return [], [Damaged(folder, _LINK, unread=True)]
    files: list[os.DirEntry[str]] = []
    unread: list[Damaged] = []
    folders = [str(folder)]
    while folders:
        place = folders.pop()
        try:
            with os.scandir(place) as listing:
                entries = list(listing)
        except FileNotFoundError:
            continue
        except OSError as error:
            unread.append(_unread(Path(place), error))
            continue
        for entry in entries:
            is_json = entry.name.endswith(".json")
            is_hidden = entry.name.startswith(".") or entry.name in QUARANTINE
            if entry.is_dir(follow_symlinks=False) and not is_json:
                folders += [] if is_hidden else [entry.path]
            elif entry.is_symlink() and not (is_json or is_hidden or os.path.isfile(entry.path)):
                unread.append(Damaged(Path(entry.path), _LINK, unread=True))
            else:
                files.append(entry)
    return files, unread


def require_readable(write: Callable[[T], str], read: Callable[[str], object], content: T) -> str:
    """The text of a file, once it has been read again. Raises PluginError for what no file may hold."""
    try:
        text = write(content)
        read(text)
    except ValueError as error:  # also of a text that JSON cannot hold
        raise not_storable_error(str(error).removeprefix("damaged: ")) from error
    return text


def _unread(path: Path, error: OSError) -> Damaged:
    return Damaged(path, error.strerror or type(error).__name__, unread=True)


def read_file(path: Path, parse: Callable[[str], T]) -> T | Damaged | None:
    """What a file below a results folder holds, why it is no result, or None where there is no file.

    Raises ResultError for the file of a newer version of this program.
    """
    if path.is_symlink():
        return Damaged(path, _LINK)
    try:
        text = json_text.text_of(path)
    except FileNotFoundError:
        return None
    except ValueError as error:
        return Damaged(path, f"damaged: {error}")
    except OSError as error:
        return _unread(path, error)
    try:
        return parse(text)
    except NewerFile as error:
        raise ResultError(f"{path} was {error}, or give another folder.") from None
    except ValueError as error:
        return Damaged(path, str(error))


def join_files(
    files: Mapping[Path, Result | Scores | Damaged | None],
) -> dict[Path, Result | Damaged | None]:
    """Files below a results folder, scores as results: with the release that lies beside them. Scores without it are
    damaged."""
    joined: dict[Path, Result | Damaged | None] = {}
    for path, content in files.items():
        joined[path] = _join(path, content, files) if isinstance(content, Scores) else content
    return joined


def _join(
    path: Path, scores: Scores, files: Mapping[Path, Result | Scores | Damaged | None]
) -> Result | Damaged:
    place = path.with_name(f"{scores.scored_release.cell_id}.json")
    release = files[place] if place in files else read_file(place, either_from_text)
    if not isinstance(release, Result):
        return Damaged(
            path, f"damaged: it scores the release of {place.name}, which is not beside it"
        )
    try:
        return join_scores(scores, release)
    except ValueError as error:
        return Damaged(path, str(error))
