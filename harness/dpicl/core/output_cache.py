"""Caches computed values, such as outputs of a model: a file for each model and task, keyed by a hash of what they
depend on. (`dpicl.accounting.calibration_cache` keeps calibrations so, in a folder of their own.)

What slots answer depends on neither epsilon nor noise, so every release after the first one finds it here. The files
hold text derived from private records: they lie in a folder of their own that only its owner may read, and nothing of
them is ever published; `dpicl doctor` names it. Prompts are not stored, only their hashes. With secure noise nothing is
stored at all.

A file is a log: each line is a batch of outputs behind its checksum, and is written at once. A damaged line counts as
absent, so the model is asked again; where a file cannot be read, or the disk takes nothing more, this process keeps the
outputs in memory.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from dpicl.core.files import open_regular
from dpicl.core.paths import cache_folder

_log = logging.getLogger(__name__)


def outputs_folder() -> Path:
    return cache_folder() / "outputs"


class _Batch(BaseModel):
    """A line. values: hexadecimal key -> JSON."""

    model_config = ConfigDict(strict=True)

    values: dict[str, str]


class OutputCache:
    """Outputs by key. folder: where the files are; None keeps everything in memory and writes nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder, self._logs = folder, dict[tuple[str, str], _Log]()
        self._warned: set[str] = set()
        if folder is not None:
            self._try(lambda: _make_private(folder))  # what is wrong is said before the work begins

    def get(self, model: str, task: str, keys: Iterable[bytes]) -> dict[bytes, Any]:
        """The values of those keys that are there and sound."""
        log = self._log_of(model, task)
        if self._folder is not None and self._try(log.refresh):
            self._warn(
                "damaged", f"{self._folder} holds damaged values, which are worked out again"
            )
        return {key: json.loads(log.values[key.hex()]) for key in keys if key.hex() in log.values}

    def put(self, model: str, task: str, values: Mapping[bytes, Any]) -> None:
        """Stores JSON values; a key that is there already keeps its value."""
        log, new = (
            self._log_of(model, task),
            {key.hex(): json.dumps(value) for key, value in values.items()},
        )
        if self._folder is not None and new:
            self._try(lambda: log.append(_Batch(values=new)))
        log.keep(new)

    def _log_of(self, model: str, task: str) -> _Log:
        if (model, task) not in self._logs:
            name = hashlib.sha256(json.dumps([model, task]).encode()).hexdigest()[:24]
            self._logs[model, task] = _Log((self._folder or Path()) / f"{name}.log")
        return self._logs[model, task]

    def _try(self, action: Callable[[], Any]) -> Any:
        """What ``action`` gives; None, with a warning, where the folder cannot be used."""
        try:
            return action()
        except OSError as error:
            self._warn(
                "unusable",
                f"{self._folder} cannot be used ({error.strerror}); the run goes on and keeps nothing there."
                " Remove it if it is damaged; DPICL_CACHE names another folder",
            )
            return None

    def _warn(self, about: str, text: str) -> None:
        if about not in self._warned:
            _log.warning("The output cache %s.", text)
            self._warned.add(about)


class _Log:
    """One file. values: what was read of it so far, and what this process added."""

    def __init__(self, path: Path) -> None:
        self.path, self.values = path, dict[str, str]()
        self._place = (0, 0)

    def refresh(self) -> int:
        """Reads what is new, also of other processes. Returns how many lines are damaged. Raises OSError."""
        try:
            with open(self.path, "rb", opener=open_regular) as file:
                number = os.fstat(file.fileno()).st_ino
                begin = self._place[1] if number == self._place[0] else 0
                file.seek(begin)
                content = file.read()
        except FileNotFoundError:
            return 0
        whole = content[: content.rfind(b"\n") + 1]
        self._place = number, begin + len(whole)
        batches = _batches(whole)
        for batch in batches:
            self.keep(batch.values if batch else {})
        return batches.count(None)

    def keep(self, values: Mapping[str, str]) -> None:
        for key, value in values.items():
            self.values.setdefault(key, value)

    def append(self, batch: _Batch) -> None:
        """Raises OSError."""
        _make_private(self.path.parent)
        content = batch.model_dump_json().encode()
        with open(self.path, "ab", opener=_open_private) as file:
            # what another process left of a line ends before
            file.write(b"\n%s %s\n" % (_checksum(content), content))


def key_of(*parts: Any) -> bytes:
    return hashlib.sha256(
        json.dumps(parts, sort_keys=True).encode("utf-8", "surrogatepass")
    ).digest()


def _batches(content: bytes) -> list[_Batch | None]:
    """What the lines hold; None for a damaged one."""
    batches: list[_Batch | None] = []
    for line in filter(None, content.split(b"\n")):
        checksum, _, text = line.partition(b" ")
        try:
            batches.append(
                _Batch.model_validate_json(text) if checksum == _checksum(text) else None
            )
        except ValidationError:
            batches.append(None)
    return batches


def _checksum(content: bytes) -> bytes:
    """It finds damage, not forgery: there is no secret in it."""
    return hashlib.blake2b(content, digest_size=16).hexdigest().encode()


def _make_private(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
