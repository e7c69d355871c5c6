"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from dpicl.harness.core.errors import ResultError


def write_whole(path: Path, text: str, results: Path) -> None:
    """Writes a file by a temporary one in the same folder, fsync and rename; makes the folder.

    results: the results folder, for the message. Raises ResultError when the disk does not take it, and leaves nothing.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):  # a parent that is no folder: there is nothing to remove
            temporary.unlink(missing_ok=True)
        raise unwritable(results, error) from error


def unwritable(folder: Path, error: OSError) -> ResultError:
    """The error of a results folder that cannot be written."""
    return ResultError(
        f"Cannot write results under {folder}: {error.strerror}; mend that, or choose another folder with --results."
    )


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
