"""Work in a forked process to which something happens at one step of the way in which it writes; and a power cut,
replayed from all of these steps.
"""

from __future__ import annotations

import builtins
import fcntl
import io
import os
import pickle
import random
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpicl.core.cache_file import CacheFile
from dpicl.program import main

#: What two runs of one cell may differ in; for pydantic's ``exclude``.
MAY_DIFFER: Any = {"created": True, "cost": True, "manifest": {"commit", "dirty"}}
_CALLS = ("link", "replace", "rename", "unlink", "mkdir", "rmdir", "chmod", "fsync")


class Watch:
    """Counts the steps of this process under a folder: calls that change files, files opened for writing, the middle of
    every text that is written to one, locks, and accesses to a cache of SQLite, whose own writing is not seen."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.count = str(folder), 0

    def before(self, name: str, path: str) -> None:
        """What is done right before a step."""

    def after(self, name: str, *paths: str | None) -> None:
        """What is done after one that went well; None for a path elsewhere."""

    def install(self) -> None:
        """From now on, in this process."""
        for name in _CALLS:
            setattr(os, name, self._watched(name, getattr(os, name), 2 if name in ("link", "replace", "rename") else 1))
        os.remove, fcntl.flock = os.unlink, self._watched("flock", fcntl.flock)
        os.open = self._opening(os.open, lambda flags=0, *_, **__: bool(flags & (os.O_WRONLY | os.O_RDWR)))
        opened = self._opening(io.open, lambda mode, *_, opener=None, **__: not opener and bool({*mode} & {*"wax+"}))
        io.open = builtins.open = lambda file, mode="r", *rest, **more: (
            _Halves(opened(file, mode, *rest, **more), self.step)
            if set(mode) & set("wax+")
            else opened(file, mode, *rest, **more)
        )
        run = CacheFile.run

        def accessed(cache: CacheFile, action: Any) -> Any:
            self.step("cache", cache.folder)
            return run(cache, action)

        CacheFile.run = accessed

    def step(self, name: str, target: Any) -> None:
        if (path := self._inside(target)) is not None:
            self.count += 1
            self.before(name, path)

    def _inside(self, target: Any) -> str | None:
        """The path of a name or an open file's number below the folder; None for one elsewhere."""
        try:
            text = os.readlink(f"/proc/self/fd/{target}") if isinstance(target, int) else os.fsdecode(target)
        except OSError:
            return None
        return text if f"{text}/".startswith(f"{self._folder}/") else None

    def _watched(self, name: str, call: Callable[..., Any], paths: int = 1) -> Callable[..., Any]:
        def watched(*words: Any, **more: Any) -> Any:
            self.step(name, words[0])
            given = call(*words, **more)
            found = [self._inside(word) for word in words[:paths]]
            if found[-1] is not None:
                self.after(name, *found)
            return given

        return watched

    def _opening(self, call: Callable[..., Any], writes: Callable[..., bool]) -> Callable[..., Any]:
        def opened(path: Any, *rest: Any, **more: Any) -> Any:
            if writes(*rest, **more):
                self.step("open", path)
            inside = self._inside(path)
            new = inside is not None and not os.path.lexists(inside)
            given = call(path, *rest, **more)
            if new and os.path.isfile(inside or ""):
                self.after("make", inside)
            return given

        return opened


class _Halves:
    """A file that is written in two halves, with a step between them."""

    def __init__(self, file: Any, step: Callable[[str, Any], None]) -> None:
        self._file, self._step = file, step

    def write(self, content: Any) -> int:
        middle = len(content) // 2
        self._file.write(content[:middle])
        self._file.flush()
        self._step("write", self._file.fileno())
        self._file.write(content[middle:])
        return len(content)

    def __enter__(self) -> _Halves:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class Killed(Watch):
    """Kills this process (or its whole group) right before one step. What is on the disk after a step is there before
    the next one, so no other point makes a difference. deadly: the step, None for never."""

    def __init__(self, folder: Path, deadly: int | None, group: bool) -> None:
        super().__init__(folder)
        self._deadly, self._group = deadly, group

    def before(self, name: str, path: str) -> None:
        if self.count == self._deadly:
            os.killpg(0, signal.SIGKILL) if self._group else os.kill(os.getpid(), signal.SIGKILL)


class Failing(Watch):
    """From one call on that needs room or the right to write, each fails with an errno. first: None for never."""

    def __init__(self, folder: Path, number: int, first: int | None) -> None:
        super().__init__(folder)
        self._number, self._first, self.failing = number, first, 0

    def before(self, name: str, path: str) -> None:
        if name in ("link", "replace", "rename", "mkdir", "fsync", "open", "write"):
            self.failing += 1
            if self._first is not None and self.failing >= self._first:
                raise OSError(self._number, os.strerror(self._number), path)


class Journal(Watch):
    """Writes down what is done to files, and what is said on stderr. without: names of folders that do not matter."""

    def __init__(self, folder: Path, without: str = "calibration") -> None:
        super().__init__(folder)
        self._without, self.steps = f"/{without}", list[tuple[Any, ...]]()

    def after(self, name: str, *paths: str | None) -> None:
        if self._without in (path := paths[-1] or "") or name in ("chmod", "flock"):
            return
        content = None if name != "fsync" or os.path.isdir(path) else Path(path).read_bytes()
        self.steps.append((name, *paths, content))

    def write(self, text: str) -> int:
        """As a stream: each line is a step."""
        self.steps += [("said", line, None) for line in text.splitlines()]
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.__stderr__, name)


@dataclass
class _Folder:
    """now: names as processes see them. kept: as they were at the last fsync. A file is a list of its content then."""

    now: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)

    def left(self, path: str, loss: str, chance: random.Random) -> Iterator[tuple[str, bytes | None]]:
        names = dict(self.kept)
        for name in sorted({*self.now, *self.kept}):
            if loss == "contents" or (loss == "some" and chance.random() < 0.5):
                names.pop(name, None)
                names.update({name: self.now[name]} if name in self.now else {})
        for name, found in sorted(names.items()):
            if isinstance(found, _Folder):
                yield f"{path}{name}", None
                yield from found.left(f"{path}{name}/", loss, chance)
            else:
                yield f"{path}{name}", found[0]


def cuts(steps: Sequence[tuple[Any, ...]], top: Path) -> Iterator[tuple[str, dict[str, bytes | None]]]:
    """Every different disk that a power cut may leave, with all that was said before it.

    What counts is POSIX alone: the content of a file is on the disk as it was at its last fsync, a name in a folder as
    it was at the last fsync of the folder. Since then everything is lost, or contents alone, or some names by chance.
    """
    root, chance, said = _Folder(), random.Random(0), ""
    before: dict[str, Any] = {}

    def place(path: str) -> tuple[_Folder, str]:
        *above, last = Path(path).relative_to(top).parts
        folder = root
        for name in above:
            folder = folder.now[name]
        return folder, last

    for name, *paths, content in steps:
        if name == "said":
            said += f"{paths[0]}\n"
        elif paths[-1] == str(top):
            root.kept = dict(root.now)
        else:
            folder, last = place(paths[-1])
            if name in ("make", "mkdir"):
                folder.now[last] = [b""] if name == "make" else _Folder()
            elif name in ("unlink", "rmdir"):
                folder.now.pop(last, None)
            elif name == "fsync" and isinstance(found := folder.now.get(last), _Folder):
                found.kept = dict(found.now)
            elif name == "fsync" and last in folder.now:
                folder.now[last][0] = content
            elif name in ("link", "replace", "rename") and paths[0] is not None:
                source, first = place(paths[0])
                if first in source.now:
                    folder.now[last] = source.now[first] if name == "link" else source.now.pop(first)
        for loss in ("all", "contents", "some"):
            left = dict(root.left("", loss, chance))
            if name == "said" or before.get(loss) != left:
                before[loss] = left
                yield said, left


def put(left: dict[str, bytes | None], folder: Path) -> None:
    """Writes a disk into an empty folder."""
    folder.mkdir(parents=True)
    for path, content in left.items():
        ((folder / path) if content is None else (folder / path).parent).mkdir(parents=True, exist_ok=True)
        if content is not None:
            (folder / path).write_bytes(content)


@dataclass(frozen=True)
class Child:
    """pipe: on which it answers."""

    pid: int
    pipe: int

    def wait(self) -> tuple[int, Any]:
        """(exit code, or minus the signal; its answer, None where it was killed)."""
        with os.fdopen(self.pipe, "rb") as file:
            answered = file.read()
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status), pickle.loads(answered) if answered else None


def start(work: Callable[[], object] | Sequence[object], folder: Path, watch: Watch | None = None) -> Child:
    """Some work, or a `dpicl` command, in a child of this process, under a watch, whose count or journal is the answer;
    its words go to ``folder/said``."""
    here, there = os.pipe()
    if child := os.fork():
        os.close(there)
        return Child(child, here)
    code = 99
    try:
        os.setpgid(0, 0)
        said = os.open(folder / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(said, 1)
        os.dup2(said, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        if watch is not None:
            watch.install()
        if isinstance(watch, Journal):
            sys.stderr = watch
        code = int(work() or 0) if callable(work) else main([str(word) for word in work])
        answer = watch.steps if isinstance(watch, Journal) else getattr(watch, "failing", getattr(watch, "count", 0))
        with os.fdopen(there, "wb") as file:
            file.write(pickle.dumps(answer))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
