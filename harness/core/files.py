"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from functools import partial
from pathlib import Path

from dpicl.harness.core.errors import ResultError


def write_whole(path: Path, text: str, results: Path) -> None:
    """As `put_whole`. results: the results folder, for the message of a ResultError when the disk does not take it."""
    try:
        put_whole(path, text)
    except OSError as error:
        raise unwritable(results, error) from error


def put_whole(path: Path, content: str | bytes, tag: str = "", new: bool = False, private: bool = False) -> None:
    """Writes a file by a temporary one in the same folder, ``.NAME.tmp``, fsync and rename; makes the folder.

    tag: stands before ``.tmp`` where several processes may write the file at once. private: its owner alone may read
    it. new: the same, and one that is there stays (FileExistsError). Raises OSError, also for what is no file's name or
    no plain file (a device would be replaced), and leaves nothing.
    """
    if not path.name or "\0" in str(path):
        raise OSError(errno.EINVAL, "it is no name of a file", str(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is no plain file", str(path))
    temporary = path.with_name(f".{path.name}{tag}.tmp")
    rights = partial(os.open, mode=0o600 if new or private else 0o666)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb", opener=rights) as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        if new:
            os.link(temporary, path)
            temporary.unlink()
        else:
            os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError:
        with suppress(OSError):  # a parent that is no folder: there is nothing to remove
            temporary.unlink(missing_ok=True)
        raise


def unwritable(folder: Path, error: OSError) -> ResultError:
    """The error of a results folder that cannot be written."""
    return ResultError(
        f"Cannot write results under {folder}: {error.strerror}; fix that, or choose another folder with --results."
    )


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
