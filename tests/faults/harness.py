"""Work in a forked process that is killed at a step of its writing, or whose disk fails; and power cuts, replayed."""

import builtins
import errno
import fcntl
import io
import multiprocessing
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from dpicl.program import main

ERRORS = (errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT)
_TWO_PATHS = ("link", "replace", "rename")
_CALLS = (*_TWO_PATHS, "unlink", "mkdir", "rmdir", "chmod", "fsync")
_NEED_ROOM = (*_TWO_PATHS, "mkdir", "fsync", "open", "write")


@dataclass
class Watch:
    """Follows the steps of this process under a folder: calls that change files, files opened for writing, the middle
    of every text that is written, and locks.

    deadly: the step right before which the process is killed. broken: the step that needs room from which on each such
    step fails. journal: what was done, and is said to be.
    """

    folder: Path
    deadly: int | None = None
    broken: int | None = None
    steps: int = 0
    needed: int = 0
    journal: list[tuple[Any, ...]] = field(default_factory=list)

    def install(self) -> None:
        """From now on, in this process."""
        for name in _CALLS:
            setattr(os, name, self._watch(name, getattr(os, name)))
        os.remove, fcntl.flock = os.unlink, self._watch("flock", fcntl.flock)
        os.open = self._watch(
            "open", os.open, lambda flags=0, *_, **__: flags & (os.O_WRONLY | os.O_RDWR)
        )
        opened = self._watch(
            "open",
            io.open,
            lambda mode="r", *_, **more: "opener" not in more and {*mode} & {*"wax"},
        )

        def open_in_halves(path: Any, mode: str = "r", *rest: Any, **more: Any) -> Any:
            file = opened(path, mode, *rest, **more)
            if {*mode} & {*"wax+"}:
                file.write = partial(self._write_halves, file, file.write)
            return file

        io.open = builtins.open = open_in_halves  # type: ignore[assignment]

    def step(self, name: str, target: Any) -> None:
        if (path := self._find_inside(target)) is None:
            return
        self.steps += 1
        self.needed += name in _NEED_ROOM
        if self.steps == self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.broken is not None and name in _NEED_ROOM and self.needed >= self.broken:
            number = ERRORS[self.broken % len(ERRORS)]
            raise OSError(number, os.strerror(number), path)

    def say(self, text: str) -> None:
        self.journal.append(("said", [text], None))

    def _write_halves(self, file: Any, write: Callable[[Any], int], content: Any) -> int:
        middle = len(content) // 2
        write(content[:middle])
        file.flush()
        self.step("write", file.fileno())
        write(content[middle:])
        return len(content)

    def _find_inside(self, target: Any) -> str | None:
        """The path of a name or an open file's number below the folder; None for one elsewhere."""
        try:
            text = (
                os.readlink(f"/proc/self/fd/{target}")
                if isinstance(target, int)
                else os.fsdecode(target)
            )
        except OSError:
            return None
        return text if f"{text}/".startswith(f"{self.folder}/") else None

    def _note(self, name: str, paths: list[str | None]) -> None:
        if (
            (path := paths[-1]) is not None
            and "/calibration" not in path
            and name not in ("chmod", "flock")
        ):
            synced = name == "fsync" and not os.path.isdir(path)
            self.journal.append(
                (
                    name,
                    paths,
                    Path(path).read_bytes() if synced else None,
                )
            )

    def _watch(self, name: str, call: Any, writes: Any = None) -> Callable[..., Any]:
        def call_watched(*words: Any, **more: Any) -> Any:
            if writes is None or writes(*words[1:], **more):
                self.step(name, words[0])
            paths = [self._find_inside(word) for word in words[: 1 + (name in _TWO_PATHS)]]
            new = name != "open" or not os.path.lexists(paths[0] or "")
            answer = call(*words, **more)
            if new:
                self._note(name, paths)
            return answer

        return call_watched


def cuts(
    journal: Sequence[tuple[Any, ...]], top: Path
) -> Iterator[tuple[str, dict[str, bytes | None]]]:
    """Every different disk (path -> content, None for a folder) that a power cut may leave of a folder that was empty,
    with all that was said before it.

    What counts is POSIX alone: the content of a file is on the disk as it was at its last fsync, a name in a folder as
    it was at the last fsync of the folder. Since then everything is lost, or contents alone, or some names by chance.
    """
    now: dict[str, Any] = {}  # path -> [content at the last fsync]; None for a folder
    on_disk: dict[str, Any] = {}  # the same, as names were at the last fsync of their folder
    chance = random.Random(0)
    names_said = ""
    before = dict[str, Any]()
    for name, paths, content in journal:
        path = str(paths[-1])
        match name:
            case "said":
                names_said += f"{path}\n"
            case "open" | "mkdir":  # a file that is new
                now[path] = [b""] if name == "open" else None
            case "unlink" | "rmdir":
                now.pop(path, None)
            case "fsync" if content is not None and path in now:
                now[path][0] = content
            case "fsync" if content is None:
                for path_in_folder in [
                    each for each in {*now, *on_disk} if os.path.dirname(each) == path
                ]:
                    on_disk.pop(path_in_folder, None)
                    on_disk.update(
                        {path_in_folder: now[path_in_folder]} if path_in_folder in now else {}
                    )
            case "link" | "replace" | "rename" if paths[0] in now:
                now[path] = now[paths[0]] if name == "link" else now.pop(paths[0])
        for loss in ("all", "contents", "some"):
            names = dict(on_disk)
            for path_in_folder in sorted({*now, *on_disk}):
                if loss == "contents" or (loss == "some" and chance.random() < 0.5):
                    names.pop(path_in_folder, None)
                    names.update(
                        {path_in_folder: now[path_in_folder]} if path_in_folder in now else {}
                    )
            left: dict[str, bytes | None] = {}
            for path_in_folder in sorted(names):  # a folder comes before what is in it
                above = os.path.dirname(path_in_folder)
                if above == str(top) or os.path.relpath(above, top) in left:
                    left[os.path.relpath(path_in_folder, top)] = (
                        names[path_in_folder] and names[path_in_folder][0]
                    )
            if name == "said" or before.get(loss) != left:
                before[loss] = left
                yield names_said, left


def put(left: dict[str, bytes | None], folder: Path) -> None:
    """Writes a disk into an empty folder."""
    folder.mkdir(parents=True)
    for path, content in left.items():
        (folder / path).mkdir() if content is None else (folder / path).write_bytes(content)


def run_child(work: Any, folder: Path, watch: Watch | None = None) -> tuple[int, Any]:
    """Runs a function, or a `dpicl` command of such words, in a child process; what it says goes to ``folder/said``.

    Returns its exit code, or minus the signal that ended it, and its watch, the given one where it was killed.
    """
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)

    def child() -> None:
        log = (folder / "said").open("a", buffering=1)
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        sys.stdout = sys.stderr = sys.__stderr__ = log  # type: ignore[misc]
        if watch is not None:
            watch.install()
        code = int(work() or 0) if callable(work) else main([str(word) for word in work])
        there.send(watch)
        sys.exit(code)

    process = fork.Process(target=child)
    process.start()
    there.close()
    with here, suppress(EOFError):
        watch = here.recv()
    process.join()
    return process.exitcode or 0, watch
