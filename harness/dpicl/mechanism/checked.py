"""Remembers on this machine which plug-in files passed `dpicl check`; results of a run and privacy cards state it.

A note is of one content of a file, of what it imported beside it and read below its folder, and of one version of the
kit; an edited file, an edited neighbour and an older kit do not count. A class without source is never known again.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from dpicl.core import json_text, plugin_reads
from dpicl.core.files import write_whole
from dpicl.core.paths import cache_folder
from dpicl.core.plugins import MODULE, folder_hash
from dpicl.mechanism import registry

_LARGEST = 1_000_000


def note(digest: str, passed: bool) -> None:
    """Notes what the whole kit said of a plug-in. digest: `Registered.plugin_hash`. Raises ResultError when the cache
    folder cannot be written."""
    beside = {name: content for name, content in _list_beside(digest).items() if content != digest}
    write_whole(
        _file(digest),
        json.dumps({"kit": _kit(), "passed": passed, "beside": beside}),
        cache_folder(),
    )


def has_passed(digest: str) -> bool:
    """Whether the whole kit, as it is now, passed a plug-in of this content, and of what it imported, on this
    machine."""
    try:
        noted = json_text.read(_file(digest), _LARGEST)
    except (OSError, ValueError):
        return False  # never checked, or a damaged note
    if not isinstance(noted, dict) or not isinstance(beside := noted.pop("beside", None), dict):
        return False
    now = _list_beside(digest, beside)
    unchanged = all(now.get(name) == content for name, content in beside.items())
    return unchanged and noted == {"kit": _kit(), "passed": True}


def _list_beside(
    digest: str,
    names: Iterable[str] = (),
) -> dict[str, str]:
    """File -> sha256, of what a plug-in that this process knows imported or read, and of these besides; nothing for one
    that it does not know, or has no file."""
    module = sys.modules.get(f"{MODULE}{digest[:16]}") or sys.modules.get(
        registry.module_here(digest)
    )
    file = getattr(module, "__file__", None)
    if module is None or file is None:
        return {}
    files = dict.fromkeys(names, "")
    for folder in {Path(file).absolute().parent, Path(file).resolve().parent}:
        files |= dict.fromkeys(_list_imported(folder), "")
        files |= dict.fromkeys(plugin_reads.list_places(module.__name__), "")
        files = {name: _hash(folder / name) or content for name, content in files.items()}
    return files


def _list_imported(folder: Path) -> Iterator[str]:
    """The files of modules that were imported from a folder, below it."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str):
            continue
        origin = Path(file).resolve()
        place = folder.joinpath(*name.split("."))
        if not origin.is_relative_to(folder):
            continue  # some libraries name a module by its whole path
        if origin.parent == folder or origin in (place.with_suffix(".py"), place / "__init__.py"):
            yield origin.relative_to(folder).as_posix()


def _hash(path: Path) -> str:
    """sha256 of a file; '' for one that cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _file(digest: str) -> Path:
    return cache_folder() / "checked" / f"{digest}.json"


@cache
def _kit() -> str:
    return folder_hash(Path(__file__).parents[1] / "conformance")
