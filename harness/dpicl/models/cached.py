"""Caches folders of weights under ``$DPICL_CACHE/models/``: one process writes each atomically, and the sha256 of every
file is checked at each use.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError

from dpicl.core import json_text
from dpicl.core.errors import ModelError
from dpicl.core.files import file_sha256, hold_lock
from dpicl.core.paths import models_folder
from dpicl.models.weights import reason

#: Written last: the sha256 of every other file.
_COMPLETE = "complete.json"


def cached_folder(
    name: str,
    format: int,
    make: Callable[[Path], object],
) -> Path:
    """The folder of that name, which ``make`` fills where it is missing or damaged; other processes wait for it.

    format: raised when what is written changes, so that older folders are made again. What a killed process left is
    replaced. Raises ModelError when the cache cannot be written.
    """
    folder = models_folder() / name
    if is_intact(folder, format):
        return folder
    fresh = folder.with_name(f".{name}")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with hold_lock(folder.with_name(f"{name}.lock"), wait=True):
            if not is_intact(folder, format):
                for old in (fresh, folder):
                    shutil.rmtree(old, ignore_errors=True)
                fresh.mkdir(mode=0o700)
                try:
                    make(fresh)
                    files = {path.name: file_sha256(path) for path in sorted(fresh.iterdir())}
                    (fresh / _COMPLETE).write_text(
                        json.dumps({"format": format, "files": files}), encoding="utf-8"
                    )
                    fresh.rename(folder)
                finally:
                    shutil.rmtree(fresh, ignore_errors=True)
    except (OSError, SafetensorError) as error:
        raise ModelError(
            f"The cache folder {folder.parent} cannot be written ({reason(error)}); make room, or set DPICL_CACHE to"
            " another."
        ) from error
    return folder


def is_intact(folder: Path, format: int) -> bool:
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
