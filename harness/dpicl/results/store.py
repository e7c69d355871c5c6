"""Reads and writes the results folder: results/<suite>/<model>/<row>/<task>/<cell id>.json.

A file appears whole or not at all (temporary file in the same folder, fsync, link). A cell is locked by the process
that works on it, with flock, which the operating system frees when the process dies, however it dies. Files that cannot
be read as results are never deleted: `set_aside` moves them into a folder `quarantine` beside them.
"""

from __future__ import annotations

import gc
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from dpicl.core import json_text
from dpicl.core.cell import Cell
from dpicl.core.errors import ResultError
from dpicl.core.files import hold_lock, make_folder, put_whole, unwritable_error
from dpicl.core.paths import slug
from dpicl.results.schema import Result, from_text, not_storable_error, to_text

#: Beside a file that is no result: it is moved into the first, and not read again; the second is of earlier versions.
QUARANTINE = ("quarantine", "set_aside")
_LOCKS = ".locks"
_UNFINISHED = ".*.json.*tmp"
T = TypeVar("T")


@dataclass(frozen=True)
class Damaged:
    """A file in the results folder that is no result of this schema, or of other records, and why."""

    path: Path
    reason: str


def describe_damaged(damaged: Sequence[Damaged], moved: bool) -> str:
    """One sentence about files that are no results. moved: whether they were set aside."""
    first = damaged[0]
    what = "moved into quarantine/ beside it" if moved else "ignored (`dpicl run` moves it into quarantine/)"
    more = f"; so are {len(damaged) - 1} more" if len(damaged) > 1 else ""
    return f"dpicl: {first.path} is not a result of this version and is {what}: {first.reason}{more}."


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
        found = read_file(self.path(cell), from_text)
        return found if isinstance(found, Result) and found.cell_id == cell.id else None

    def load_all(self) -> tuple[list[Result], list[Damaged]]:
        """Every result of the suite, of all its versions, and the files that are none. Changes nothing on disk."""
        if self.results.is_file():
            raise ResultError(f"{self.results} is a file; give a results folder with --results.")
        results, damaged = [], []
        with pause_collection():
            for path in self._files():
                found: Result | Damaged | None = read_file(path, from_text)
                if isinstance(found, Result) and self._place(found.cell, found.cell_id) != path:
                    found = Damaged(path, "foreign: its name or folder does not fit its content")
                if isinstance(found, Result):
                    results.append(found)
                elif found is not None:
                    damaged.append(found)
        return results, damaged

    def _place(self, cell: Cell, name: str) -> Path:
        return self.folder / slug(cell.model) / slug(cell.label) / cell.task / f"{name}.json"

    def _files(self) -> list[Path]:
        found = []
        for folder, folders, files in os.walk(self.folder):
            folders[:] = [name for name in folders if name not in QUARANTINE and not name.startswith(".")]
            inside = Path(folder)
            names = (name for name in (*files, *folders) if name.endswith(".json") and not name.startswith("."))
            found += [inside / name for name in names]
        return sorted(found)

    def prepare(self) -> None:
        """Makes the folder ready for writing. Raises ResultError when it cannot be written, before any work is done."""
        try:
            make_folder(self.folder / _LOCKS)
            (self.folder / _LOCKS / ".gitignore").write_text("*\n")  # in place: a kill leaves no temporary file
            with tempfile.TemporaryFile(dir=self.folder):
                pass
        except OSError as error:
            raise unwritable_error(self.results, error) from error
        self._remove_unfinished()

    def set_aside(self, damaged: Sequence[Damaged]) -> list[Path]:
        """Moves files into `quarantine` beside them, under a name that is still free; returns where they are now."""
        moved = []
        for item in damaged:
            target = item.path.parent / QUARANTINE[0] / item.path.name
            number = 1
            while target.exists():
                target = item.path.parent / QUARANTINE[0] / f"{item.path.stem}.{number}{item.path.suffix}"
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

    @contextmanager
    def lock(self, cell: str, wait: bool = False) -> Iterator[bool]:
        """Holds the lock of a cell's id; yields False, without it, when another process holds it and `wait` is off.

        Raises ResultError.
        """
        path = self.folder / _LOCKS / f"{cell}.lock"
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
        text = require_readable(to_text, from_text, result)
        if isinstance(found := read_file(path, from_text), Damaged):
            self.set_aside([found])
        try:
            put_whole(path, text, new=True)
        except FileExistsError:
            return False
        except OSError as error:
            raise unwritable_error(self.results, error) from error
        return True

    def _remove_unfinished(self) -> None:
        """Removes what killed runs left, half-written files and locks; what a run that is alive has in use stays."""
        unfinished = defaultdict(list)
        for path in self.folder.rglob(_UNFINISHED):
            unfinished[path.name.split(".")[1]].append(path)
        locks = {path.stem for path in (self.folder / _LOCKS).glob("*.lock")}
        for cell in sorted(unfinished.keys() | locks):
            with self.lock(cell) as mine:
                for path in unfinished[cell] if mine else ():
                    path.unlink(missing_ok=True)


def require_readable(write: Callable[[T], str], read: Callable[[str], T], content: T) -> str:
    """The text of a file, once it has been read again. Raises PluginError for what no file may hold."""
    try:
        text = write(content)
        read(text)
    except ValueError as error:  # also of a text that JSON cannot hold
        raise not_storable_error(str(error).removeprefix("damaged: ")) from error
    return text


def read_file(path: Path, parse: Callable[[str], T]) -> T | Damaged | None:
    """What a file holds, why it is no result, or None where there is no file."""
    try:
        text = json_text.text_of(path)
    except FileNotFoundError:
        return None
    except ValueError as error:
        return Damaged(path, f"damaged: {error}")
    except OSError as error:
        raise ResultError(f"Cannot read {path}: {error.strerror}.") from error
    try:
        return parse(text)
    except ValueError as error:
        return Damaged(path, str(error))


@contextmanager
def pause_collection() -> Iterator[None]:
    """Keeps the garbage collector from walking, again and again, through objects that all stay: most of the time that
    ten thousand results take to read. What is no part of a circle is freed as ever.

    Afterwards these objects count as old: the two collections of young ones that would walk through all of them are
    left out.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.freeze()
            gc.unfreeze()  # into the oldest generation
            gc.enable()
