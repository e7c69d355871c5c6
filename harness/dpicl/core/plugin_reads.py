"""Notes which files a plug-in reads: data, and modules that it imports while it runs.

Python reports the opening of a file as an audit event (PEP 578). A file counts where the plug-in's own code, or what it
calls outside of the harness, opened it: what the harness itself opens has other names for its content. What was read
stays noted for the whole process, since a plug-in may keep it. A file outside of the plug-in's folder is noted by its
last name alone, since results show no path of a machine: where it is, only a process that has read it knows. Not seen
are files that native code opens by itself (as safetensors does), that a child process reads, names below an open folder
(``dir_fd``), which names a folder holds, and values of environment variables.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.util import source_from_cache
from pathlib import Path

from dpicl.core.audit_events import calling_modules, listen
from dpicl.core.files import known_sha256
from dpicl.core.paths import CLONE, PACKAGE

#: In place of a hash: there is no file, or it changed while the plug-in was in use, so that nothing equals it.
ABSENT, CHANGED = "absent", "changed"
#: What a plug-in calls of these opens files for it.
_READERS = "dpicl.core."
#: How names of files outside of the plug-in's folder begin.
OUTSIDE = "(outside)/"
#: Audit events whose first argument is a file that is opened.
_EVENTS = ("open", "sqlite3.connect", "ctypes.dlopen")
#: What belongs to the system, to Python or to the package: no data of a plug-in.
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc", "/proc", "/sys", "/dev", "/run", "/System")
_OURS = tuple({str(PACKAGE), *(str(CLONE / name) for name in ("mechanisms", "tasks") if CLONE)})
_PREFIXES = (sys.prefix, sys.base_prefix, sys.exec_prefix, *_SYSTEM, *_OURS)

#: Module of a plug-in -> its folder, as it was given and where links lead; and file -> hash.
_folders: dict[str, tuple[Path, Path]] = {}
_reads: defaultdict[str, dict[str, str]] = defaultdict(dict)
#: Module of a plug-in -> the files that it wrote itself, which do not count: what it reads there is its own.
_written: defaultdict[str, set[str]] = defaultdict(set)
#: Module of a plug-in -> name of a file outside of its folder -> where it is.
_outside: defaultdict[str, dict[str, str]] = defaultdict(dict)


def watch(module: str, folder: Path) -> None:
    """From now on, what the plug-in of this module's name reads below the folder is noted."""
    _listen()
    _folders[module] = folder.absolute(), folder.resolve()


def files_read(module: str) -> dict[str, str]:
    """Path below the plug-in's folder -> sha256 of the file as it was read, of all that was read so far."""
    return dict(sorted(_reads[module].items()))


def list_places(module: str) -> list[str]:
    """Where the files are that were read so far: below the plug-in's folder, and whole paths of files elsewhere."""
    return [_outside[module].get(name, name) for name in _reads[module]]


def list_changed(module: str, files: Mapping[str, str]) -> list[str]:
    """The files that are other ones now; none for a plug-in that this process has not loaded."""
    if module not in _folders:
        return []
    known = set(files) - set(list_unknown(module, files))
    return [
        name for name in files if name in known and _hash_of(_place_of(module, name)) != files[name]
    ]


def list_unknown(module: str, files: Mapping[str, str]) -> list[str]:
    """Those of the files that this process cannot find."""
    return [name for name in files if name.startswith(OUTSIDE) and name not in _outside[module]]


def _place_of(module: str, name: str) -> Path:
    return Path(_outside[module].get(name, _folders[module][0] / name))


@cache
def _listen() -> None:
    listen(_note)


def _note(
    event: str, path: object = None, mode: object = None, flags: object = 0, *_: object
) -> None:
    if event not in _EVENTS or not isinstance(path, str | bytes | os.PathLike):
        return
    file = os.path.abspath(os.fsdecode(path))
    module = _find_reader(file)
    if module is None:
        return
    writes = isinstance(flags, int) and bool(
        flags & os.O_ACCMODE == os.O_WRONLY or flags & os.O_TRUNC
    )
    name = _name_of(module, file, may_be_absent=writes)
    if name is None:
        return
    if writes:
        _written[module].add(name)
        _reads[module].pop(name, None)
    elif name not in _written[module]:
        digest = _hash_of(_place_of(module, name))
        noted = _reads[module].setdefault(name, digest)
        _reads[module][name] = digest if noted == digest else CHANGED


def _name_of(module: str, file: str, *, may_be_absent: bool) -> str | None:
    """The path below the plug-in's folder, of compiled code that of its source; the last name of a file elsewhere. None
    of a hidden file, or one of an installed package: an environment may lie beside a plug-in."""
    place = _source_of(Path(file))
    real_place = _source_of(Path(os.path.realpath(file)))
    for folder in _folders[module]:
        for known in (place, real_place):
            if known.is_relative_to(folder) and known != folder:
                below = known.relative_to(folder)
                return None if _is_installed(below) else below.as_posix()
    is_system = file.startswith(tuple(f"{prefix}/" for prefix in _PREFIXES))
    if is_system or _is_installed(place) or not (may_be_absent or place.is_file()):
        return None
    places = _outside[module]
    noted = {where: name for name, where in places.items()}
    if str(place) not in noted:
        same = sum(Path(where).name == place.name for where in noted)
        name = f"{OUTSIDE}{f'{same + 1}/' if same else ''}{place.name}"
        places[name], noted[str(place)] = str(place), name
    return noted[str(place)]


def _source_of(place: Path) -> Path:
    if place.parent.name == "__pycache__":
        with suppress(ValueError):
            return Path(source_from_cache(place))
    return place


def _is_installed(path: Path) -> bool:
    return any(part.startswith(".") or part.endswith("-packages") for part in path.parts)


def _find_reader(file: str) -> str | None:
    """The plug-in whose code opens a file; None where the harness does, or no plug-in is at work. A thread of a library
    shows nobody: there the file's folder tells."""
    for name in calling_modules():
        if name in _folders:
            return name
        if name.startswith("dpicl.") and not name.startswith(
            (_READERS, "dpicl.mechanisms.", "dpicl.tasks.")
        ):
            return None
    if threading.current_thread() is threading.main_thread():
        return None
    place = Path(file)
    return next(
        (
            module
            for module, folders in _folders.items()
            if any(place.is_relative_to(folder) for folder in folders)
        ),
        None,
    )


def _hash_of(path: Path) -> str:
    try:
        return known_sha256(path)
    except OSError:
        return ABSENT
