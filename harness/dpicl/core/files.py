"""Writes files atomically, reads them without waiting for a pipe or a device, and locks them."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from filelock import FileLock, Timeout

from dpicl.core.errors import ResultError
from dpicl.core.paths import cache_folder, private_folder

#: What file systems without hard links answer.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
#: Characters of a file's name that stand in its temporary one, which must not become too long for the file system.
_KEPT_OF_NAME = 50
#: Bytes from which on the hash of a file is remembered, and seconds after which a file is no longer being written.
_LARGE, _SETTLED = 2**24, 2.0


class NotRegular(OSError):
    """A folder, pipe or device where a file should be."""


def write_whole(path: Path, text: str, results: Path) -> None:
    """As `put_whole`. results: the results folder, for the message of a ResultError when the disk does not take it."""
    try:
        put_whole(path, text, root=results)
    except OSError as error:
        raise unwritable_error(results, error) from error


def put_whole(
    path: Path,
    content: str | bytes,
    new: bool = False,
    private: bool = False,
    synced: bool = True,
    root: Path | None = None,
) -> None:
    """Writes a file by a temporary one in the same folder, ``.NAME.RANDOM.tmp``, fsync and rename; makes the folder.

    Nobody can foresee the temporary name, and a link or file that has it is not written to. new: one that is there
    stays (FileExistsError). private: its owner alone may read it. synced: without it a power cut may cost the file,
    which is for files by the thousand that are easily made again. root: a folder that the file stays in, see
    `require_no_link`. Raises OSError, also for what is no file's name or no plain file (a device would be replaced),
    ResultError for a link below the root, and leaves nothing.
    """
    if not path.name or "\0" in str(path):
        raise OSError(errno.EINVAL, "invalid file name", str(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    if root is not None:
        require_no_link(path, root)
    temporary = path.with_name(f".{path.name[:_KEPT_OF_NAME]}.{secrets.token_hex(8)}.tmp")
    try:
        make_folder(path.parent)
        with open(temporary, "xb", opener=partial(_make, mode=0o600 if private else 0o666)) as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            if synced:
                os.fsync(file.fileno())
        if new:
            link(temporary, path)
            temporary.unlink()
        else:
            os.replace(temporary, path)
        if synced:
            sync_folder(path.parent)
    except OSError:
        with suppress(OSError):  # a parent that is no folder: there is nothing to remove
            temporary.unlink(missing_ok=True)
        raise


def _make(path: str, flags: int, mode: int) -> int:
    """An opener that follows no link; with the mode "x" there is no file yet either."""
    return os.open(path, flags | os.O_NOFOLLOW, mode)


def open_regular(path: str, flags: int) -> int:
    """An opener for `open`: of regular files, so that no pipe or device is waited for. Raises NotRegular, OSError."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegular(errno.EINVAL, "not a regular file", path)
    return descriptor


def content_of(path: Path, largest: int = -1) -> bytes:
    """The content of a regular file, at most so many bytes of it. Raises OSError."""
    with open(path, "rb", opener=open_regular) as file:
        size = os.fstat(file.fileno()).st_size
        if not 0 <= size < largest:
            return file.read(largest)
        # `read` makes room for all that it may read, 50 MB for a small file
        content = file.read(size + 1)
        return content if len(content) <= size else content + file.read(largest - len(content))


def file_sha256(path: Path) -> str:
    """Hexadecimal sha256 of a regular file. Raises OSError."""
    with open(path, "rb", opener=open_regular) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def folder_sha256(folder: Path) -> str:
    """sha256 over every file of a folder and of those below it, hidden ones apart: over a line ``sha256  path`` for
    each, as sha256sum prints them, in order of path. Raises OSError."""
    lines = [f"{known_sha256(folder / path)}  {path}\n" for path in _list_files(folder)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _list_files(folder: Path) -> list[str]:
    """Paths below the folder, in order. Links to folders are followed, each folder once."""
    paths, visited = list[str](), set[str]()
    for place, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        if real in visited:
            folders.clear()
            continue
        visited.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        visible = (Path(place) / name for name in names if not name.startswith("."))
        paths += [path.relative_to(folder).as_posix() for path in visible if path.is_file()]
    return sorted(paths)


def known_sha256(path: Path) -> str:
    """`file_sha256`, which the cache folder remembers of a large file for as long as the file stands still."""
    state = path.stat()
    if state.st_size < _LARGE:
        return file_sha256(path)
    name = hashlib.sha256(repr((os.path.realpath(path), *_signature(state))).encode()).hexdigest()
    remembered = cache_folder() / "hashes" / name
    with suppress(OSError, ValueError):
        digest = content_of(remembered, 64).decode("ascii")
        if re.fullmatch("[0-9a-f]{64}", digest):
            return digest
    digest = file_sha256(path)
    # a file system may give two changes within one tick of its clock the same time
    has_settled = time.time() - max(state.st_mtime, state.st_ctime) > _SETTLED
    if has_settled and _signature(path.stat()) == _signature(state):
        with suppress(OSError):  # then it is worked out again next time
            put_whole(remembered, digest)
    return digest


def _signature(state: os.stat_result) -> tuple[int, ...]:
    """What changes with every change of a file's content."""
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns


def link(whole: Path, path: Path) -> None:
    """Gives a file a second name, in one step. Raises FileExistsError where that is taken; where the file system has no
    hard links, the name is taken first, with the same rights, and the content follows. Raises OSError."""
    try:
        os.link(whole, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        with open(path, "xb", opener=partial(_make, mode=whole.stat().st_mode & 0o777)) as file:
            file.write(whole.read_bytes())
            file.flush()
            os.fsync(file.fileno())


def unwritable_error(folder: Path, error: OSError) -> ResultError:
    """The error of a results folder that cannot be written."""
    return ResultError(
        f"Cannot write results under {folder}: {error.strerror}; fix that, or choose another folder with --results."
    )


def require_no_link(path: Path, root: Path) -> None:
    """Raises ResultError where the path, or a folder between it and the root, is a symbolic link: a results folder from
    elsewhere must not lead what is written into it out of it. The root itself, which the user has named, may be one."""
    for part in (path, *path.parents):
        if part == root:
            return
        if part.is_symlink():
            raise ResultError(
                f"{part} is a symbolic link, and nothing is read or written where it leads; put what it leads to in its"
                " place, or choose another folder."
            )


def make_folder(folder: Path) -> None:
    """Makes a folder and those above it where they are missing; they are there after a power cut. Raises OSError."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        sync_folder(each.parent)


def sync_folder(folder: Path) -> None:
    """What was made in a folder is there after a power cut. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def own_folder() -> Path:
    """`private_folder`, there and its owner's alone, also after a power cut. Raises OSError."""
    folder = private_folder()
    make_folder(folder)
    folder.chmod(0o700)
    return folder


def append_synced(path: Path, text: str) -> None:
    """Adds to a file that is there; it holds the text after a power cut. Raises OSError."""
    with open(path, "ab", opener=partial(_append, mode=0o600)) as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


def _append(path: str, flags: int, mode: int) -> int:
    """An opener that makes no file."""
    return _make(path, flags & ~os.O_CREAT, mode)


def remove_synced(path: Path) -> None:
    """The file is gone, also after a power cut. Raises OSError."""
    path.unlink(missing_ok=True)
    sync_folder(path.parent)


@contextmanager
def hold_lock(path: Path, wait: bool = False, private: bool = False) -> Iterator[bool]:
    """Holds a lock file, which the operating system frees when its holder dies, however it dies (filelock, by flock).

    Yields False, without it, when another process has it and ``wait`` is off. The holder may remove the file before it
    lets go: another one of that name is another lock. private: a new one is its owner's alone to read. Raises OSError,
    also for a link, pipe or folder of that name.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.lstat().st_mode):
            raise NotRegular(errno.EINVAL, f"{path} is not a regular file")
    lock = FileLock(path, mode=0o600) if private else FileLock(path)
    with suppress(Timeout):
        lock.acquire(blocking=wait)
    try:
        yield lock.is_locked
    finally:
        lock.release()
