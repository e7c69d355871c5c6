"""Folders of weights under ``$DPICL_CACHE/models/``, made once: a folder appears whole or not at all, and every file is
checked against the sha256 that it had, whenever the folder is used. What killed processes left is removed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from safetensors import SafetensorError

from dpicl.core import json_text
from dpicl.core.errors import ModelError
from dpicl.core.locks import remove_abandoned, temporary_folder
from dpicl.core.paths import models_folder
from dpicl.models.weights import file_sha256, reason

#: Written last: the sha256 of every other file.
_COMPLETE = "complete.json"


def cached_folder(name: str, format: int, make: Callable[[Path], object]) -> Path:
    """The folder of that name, which ``make`` fills where it is missing or damaged.

    format: raised when what is written changes, so that older folders are made again.
    Raises ModelError when the cache cannot be written.
    """
    folder = models_folder() / name
    with suppress(OSError):  # a cache that can only be read is as good
        remove_abandoned(folder.parent)
    if intact(folder, format):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(folder.parent, folder.name) as fresh:
            make(fresh)
            files = {path.name: file_sha256(path) for path in sorted(fresh.iterdir())}
            (fresh / _COMPLETE).write_text(json.dumps({"format": format, "files": files}), encoding="utf-8")
            return _publish(fresh, folder, format)
    except (OSError, SafetensorError) as error:
        raise ModelError(
            f"The cache folder {folder.parent} cannot be written ({reason(error)}); make room, or set DPICL_CACHE to"
            " another."
        ) from error


def intact(folder: Path, format: int) -> bool:
    """Whether the folder holds every file that was written, with the sha256 that it had, and no other."""
    try:
        noted = json_text.read(folder / _COMPLETE)
        names = {path.name for path in folder.iterdir()} - {_COMPLETE}
        return (
            noted["format"] == format
            and set(noted["files"]) == names != set()
            and all(file_sha256(folder / name) == digest for name, digest in noted["files"].items())
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def _publish(fresh: Path, folder: Path, format: int) -> Path:
    """Renames a finished folder into place; another process that was faster wins, a damaged one is removed."""
    if folder.exists() and not intact(folder, format):
        with temporary_folder(folder.parent, f"{folder.name}-damaged") as damaged:
            os.replace(folder, damaged / folder.name)
    try:
        os.rename(fresh, folder)
    except OSError:
        if not intact(folder, format):
            raise
    return folder
