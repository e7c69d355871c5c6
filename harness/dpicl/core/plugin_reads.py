"""Notes which files below its own folder a plug-in reads: data, and modules that it imports while it runs.

Python reports the opening of a file as an audit event (PEP 578). A file counts where the plug-in's own code, or what it
calls outside of the harness, opened it: what the harness itself opens has other names for its content. What was read
stays noted for the whole process, since a plug-in may keep it. Not seen are files that native code opens by itself (as
safetensors and SQLite do), that a child process or a library's own thread reads, names below an open folder
(``dir_fd``), which names a folder holds, and environment variables.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.util import source_from_cache
from pathlib import Path

from dpicl.core.audit_events import calling_modules, listen
from dpicl.core.files import known_sha256

#: In place of a hash: there is no file, or it changed while the plug-in was in use, so that nothing equals it.
ABSENT, CHANGED = "absent", "changed"
#: What a plug-in calls of these opens files for it.
_READERS = "dpicl.core."

#: Module of a plug-in -> its folder, as it was given and where links lead; and file -> hash.
_folders: dict[str, tuple[Path, Path]] = {}
_reads: defaultdict[str, dict[str, str]] = defaultdict(dict)
#: Module of a plug-in -> the files that it wrote itself, which do not count: what it reads there is its own.
_written: defaultdict[str, set[str]] = defaultdict(set)


def watch(module: str, folder: Path) -> None:
    """From now on, what the plug-in of this module's name reads below the folder is noted."""
    _listen()
    _folders[module] = folder.absolute(), folder.resolve()


def files_read(module: str) -> dict[str, str]:
    """Path below the plug-in's folder -> sha256 of the file as it was read, of all that was read so far."""
    return dict(sorted(_reads[module].items()))


def list_changed(module: str, files: Mapping[str, str]) -> list[str]:
    """The files that are other ones now; none for a plug-in that this process has not loaded."""
    if module not in _folders:
        return []
    folder = _folders[module][0]
    return [name for name, digest in files.items() if _hash_of(folder / name) != digest]


@cache
def _listen() -> None:
    listen(_note)


def _note(
    event: str, path: object = None, mode: object = None, flags: object = 0, *_: object
) -> None:
    if event != "open" or not isinstance(path, str | bytes | os.PathLike):
        return
    module = _find_reader()
    if module is None:
        return
    name = _name_below(_folders[module], os.fsdecode(path))
    if name is None:
        return
    if isinstance(flags, int) and (flags & os.O_ACCMODE == os.O_WRONLY or flags & os.O_TRUNC):
        _written[module].add(name)
        _reads[module].pop(name, None)
    elif name not in _written[module]:
        digest = _hash_of(_folders[module][0] / name)
        noted = _reads[module].setdefault(name, digest)
        _reads[module][name] = digest if noted == digest else CHANGED


def _name_below(folders: tuple[Path, Path], path: str) -> str | None:
    """The path below the folder, of compiled code that of its source; None of a file elsewhere, in a hidden folder or
    of an installed package: an environment may lie beside a plug-in."""
    for folder, place in zip(
        folders, (Path(os.path.abspath(path)), Path(os.path.realpath(path))), strict=True
    ):
        if place.is_relative_to(folder) and place != folder:
            if place.parent.name == "__pycache__":
                with suppress(ValueError):
                    place = Path(source_from_cache(place))
            name = place.relative_to(folder)
            is_installed = any(
                part.startswith(".") or part == "site-packages" for part in name.parts
            )
            return None if is_installed else name.as_posix()
    return None


def _find_reader() -> str | None:
    """The plug-in whose code opens a file; None where the harness does, or no plug-in is at work."""
    for name in calling_modules():
        if name in _folders:
            return name
        if name.startswith("dpicl.") and not name.startswith(
            (_READERS, "dpicl.mechanisms.", "dpicl.tasks.")
        ):
            return None
    return None


def _hash_of(path: Path) -> str:
    try:
        return known_sha256(path)
    except OSError:
        return ABSENT
