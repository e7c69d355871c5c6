"""A power cut, replayed: what a process did to files is written down, and the disk is put together as it may be then.

What counts is POSIX alone. The content of a file is on the disk as it was at its last fsync; a name in a folder (new,
moved or removed) as it was at the last fsync of the folder. Everything since then may be there or not, name by name, so
each prefix of a journal is replayed in several ways (`LOSSES`).
"""

from __future__ import annotations

import builtins
import io
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: One thing that was done: its name and what it was done to.
Step = tuple[Any, ...]
#: What a cut does with what was not synced: loses all of it, loses contents alone (names are often written earlier), or
#: some of it by chance.
LOSSES = ("all", "contents", "some", "others")


class Journal:
    """Writes down what this process does to the files under a folder, until it ends. steps: in order; a step 'said' is
    a line that the process has written to stderr. without: a folder inside that does not matter."""

    def __init__(self, folder: Path, without: Path | None = None) -> None:
        self._folder, self._without = str(folder), f"{without}/"
        self.steps: list[Step] = []

    def install(self) -> None:
        for name in ("link", "replace", "rename"):
            setattr(os, name, self._noting(getattr(os, name), "link" if name == "link" else "move", 2))
        for name in ("unlink", "mkdir", "rmdir"):
            setattr(os, name, self._noting(getattr(os, name), name, 1))
        os.remove = os.unlink
        os.open = self._opening(os.open)
        io.open = builtins.open = self._opening(io.open)
        os.fsync = self._syncing(os.fsync)

    def said(self, line: str) -> None:
        self.steps.append(("said", line))

    def _inside(self, path: Any) -> str | None:
        """The path below the folder; None for one elsewhere, and for what has no path."""
        if isinstance(path, int):
            try:
                path = os.readlink(f"/proc/self/fd/{path}")
            except OSError:
                return None
        text = os.fsdecode(path)
        if f"{text}/".startswith(self._without):
            return None
        return text if text == self._folder or text.startswith(self._folder + "/") else None

    def _noting(self, call: Callable[..., Any], name: str, paths: int) -> Callable[..., Any]:
        def noted(*words: Any, **more: Any) -> Any:
            given = call(*words, **more)
            inside = [self._inside(word) for word in words[:paths]]
            if inside[-1] is not None:
                self.steps.append((name, *inside))
            return given

        return noted

    def _opening(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def opened(path: Any, *rest: Any, **more: Any) -> Any:
            inside = self._inside(path)
            new = inside is not None and not os.path.lexists(inside)
            given = call(path, *rest, **more)
            if new and os.path.isfile(inside or ""):
                self.steps.append(("make", inside))
            return given

        return opened

    def _syncing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def synced(file: int) -> None:
            call(file)
            if (inside := self._inside(file)) is not None:
                content = None if os.path.isdir(inside) else Path(inside).read_bytes()
                self.steps.append(("sync", inside, content))

        return synced


@dataclass
class _File:
    """content: as it was at the last fsync."""

    content: bytes = b""


@dataclass
class _Folder:
    """now: names as processes see them. kept: as they were at the last fsync."""

    now: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)


class Disk:
    """What a journal makes of an empty folder."""

    def __init__(self, folder: Path) -> None:
        self._top, self._root = folder, _Folder()

    def do(self, step: Step) -> None:
        name, *words = step
        if name == "said":
            return
        if name == "sync" and words[0] == str(self._top):
            self._root.kept = dict(self._root.now)
            return
        folder, last = self._place(words[0] if name == "sync" else words[-1])
        match name:
            case "make":
                folder.now[last] = _File()
            case "mkdir":
                folder.now[last] = _Folder()
            case "unlink" | "rmdir":
                folder.now.pop(last, None)
            case "link" | "move":
                source, first = self._place(words[0])
                if first in source.now:
                    folder.now[last] = source.now[first]
                    if name == "move":
                        del source.now[first]
            case "sync" if words[1] is None:
                found = folder.now[last]
                found.kept = dict(found.now)
            case "sync" if last in folder.now:
                folder.now[last].content = words[1]

    def _place(self, path: str) -> tuple[_Folder, str]:
        *above, last = Path(path).relative_to(self._top).parts
        folder = self._root
        for name in above:
            folder = folder.now[name]
        return folder, last

    def after(self, loss: str, chance: random.Random) -> dict[str, bytes | None]:
        """Path below the folder -> content (None: a folder), once the power was cut."""
        return dict(self._left(self._root, "", loss, chance))

    def _left(self, folder: _Folder, path: str, loss: str, chance: random.Random) -> Iterator[tuple[str, bytes | None]]:
        names = {**folder.kept}
        for name in sorted({*folder.now, *folder.kept}):
            newer = loss == "contents" or (loss in ("some", "others") and chance.random() < 0.5)
            if newer and folder.now.get(name) is not folder.kept.get(name):
                names.pop(name, None)
                if name in folder.now:
                    names[name] = folder.now[name]
        for name, found in sorted(names.items()):
            place = f"{path}{name}"
            if isinstance(found, _Folder):
                yield place, None
                yield from self._left(found, place + "/", loss, chance)
            else:
                yield place, found.content


def cuts(steps: Sequence[Step], folder: Path, seed: int = 0) -> Iterator[tuple[list[Step], dict[str, bytes | None]]]:
    """Every different disk that a power cut may leave, with what was done before it. folder: of the journal; its parent
    and what is not in the journal are there."""
    disk, chance = Disk(folder), random.Random(seed)
    before: dict[str, dict[str, bytes | None]] = {}
    for at, step in enumerate(steps, start=1):
        disk.do(step)
        for loss in LOSSES:
            left = disk.after(loss, chance)
            if step[0] == "said" or before.get(loss) != left:
                before[loss] = left
                yield list(steps[:at]), left


def put(left: dict[str, bytes | None], folder: Path) -> None:
    """Writes a disk into an empty folder."""
    folder.mkdir(parents=True)
    for path, content in left.items():
        if content is None:
            (folder / path).mkdir(parents=True, exist_ok=True)
        else:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
