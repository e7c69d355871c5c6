"""Which records a result was made from, and which ones a run would use now.

A fingerprint is a hash over all records as loaded (dpicl.data.splits). It stands in the result file, but not
with secure noise: there it would tell two neighbouring sets apart. Such a result's fingerprint stays on this machine,
keyed with a secret of this machine, in a file beside that secret (`private_folder`).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from dpicl.core import json_text, seeds
from dpicl.core.cell import Cell
from dpicl.core.errors import DataError, ResultError
from dpicl.core.files import content_of, make_folder, put_whole, regular, sync_folder
from dpicl.core.paths import private_folder
from dpicl.data import config as task_config
from dpicl.data import local, reading, tables, task
from dpicl.data import sources as data_sources
from dpicl.data import splits as record_sets
from dpicl.data.concealed import load_task
from dpicl.data.config import TASKS, load_config, source_spec, task_folders
from dpicl.data.task import Task
from dpicl.run.results import WITHHELD, Result

#: The records that a limit keeps are the same for every cell of a suite, whatever its seed.
_RECORDS_SEED = 0
#: 64 hexadecimal digits.
_SHA256 = re.compile(r"[0-9a-f]{64}")
#: What turns files into records; with other code the same files may be other records.
_CODE = (data_sources, local, reading, record_sets, seeds, tables, task, task_config)


class NotRead(DataError):
    """Records of the hub that no run has read on this machine, and that are not to be fetched now."""


def task_of(cell: Cell) -> Task:
    """The task of a cell with its records, whose fingerprint is kept. Raises DataError, and Concealed with secure
    noise."""
    before = _kept_under(cell)
    task = load_task(
        cell.task,
        cell.source,
        cell.secure,
        limit_train=cell.train_records,
        limit_test=cell.test_records,
        seed=_RECORDS_SEED,
        sizes=cell.sizes,
        code_seed=cell.seed,
        last_test=cell.development,
    )
    if before is not None and before == _kept_under(cell):  # else the files changed while they were read
        with suppress(OSError):  # then it is worked out again next time
            own_folder()
            before.unlink(missing_ok=True)
            put_whole(before, json.dumps(asdict(AtHand.of(task))), new=True, private=True)
    return task


@dataclass(frozen=True)
class AtHand:
    """The records that a run would use now. test: a hash over the ids of the test records."""

    fingerprint: str
    test: str

    @classmethod
    def of(cls, task: Task) -> AtHand:
        return cls(task.fingerprint, _hash_of(sorted(query.id for query in task.queries())))

    @classmethod
    def kept(cls, path: Path) -> AtHand | None:
        """What a file holds of records; None where there is none, or a damaged one."""
        try:
            found = json_text.read(path)
        except (OSError, ValueError):
            return None
        fits = isinstance(found, dict) and found.keys() == {"fingerprint", "test"}
        if not fits or not all(isinstance(value, str) and _SHA256.fullmatch(value) for value in found.values()):
            return None
        return cls(**found)


@dataclass
class Fingerprints:
    """The fingerprints of the records at hand, each worked out once, and kept on disk under what they follow from.

    download: whether records of the hub may be fetched for that; without it those that no run has read are not at hand.
    """

    download: bool = True
    _known: dict[tuple[Any, ...], AtHand] = field(default_factory=dict)

    def at_hand(self, cell: Cell) -> AtHand:
        """Raises DataError where the source is missing (NotRead: not fetched), and Concealed with secure noise."""
        key = (*_asked(cell), cell.secure)
        if key not in self._known:
            self._known[key] = _at_hand(cell, self.download)
        return self._known[key]

    def difference(self, result: Result) -> str:
        """How the records of a result differ from those at hand, in a few words; "" where they are the same.

        Raises as `at_hand`.
        """
        now = self.at_hand(result.cell)
        if result.manifest.data.fingerprint != WITHHELD:
            same = result.manifest.data.fingerprint == now.fingerprint
        elif made_from := _noted(result):
            same = _keyed(now.fingerprint) == made_from
        else:
            return "this machine does not know which private records they were made from"
        if same:
            return ""
        ids = result.documents[result.main_metric].ids
        return (
            "the test records changed" if _hash_of(sorted(ids)) != now.test else "the train or public records changed"
        )


def fingerprint_of(result: Result) -> str:
    """The fingerprint in a result; with secure noise the keyed one of this machine, or WITHHELD where it has none."""
    found = result.manifest.data.fingerprint
    return found if found != WITHHELD else _noted(result) or WITHHELD


def noted(result: Result, fingerprint: str) -> Result:
    """A result with secure noise as it may be written: this machine has noted which records it was made from.

    fingerprint: of these records.

    Where the same numbers were made in the same second from other records, it is dated a second later, so that each of
    the two is noted. Raises ResultError where nothing can be noted: the result would count for any records.
    """
    keyed = _keyed(fingerprint)
    while _noted(result) not in (None, keyed):
        later = datetime.fromisoformat(result.created) + timedelta(seconds=1)
        result = result.model_copy(update={"created": later.isoformat(timespec="seconds")})
    try:
        (own_folder() / f"{_key_of(result)}.{keyed}").touch(mode=0o600)
        sync_folder(private_folder())  # without the note, the result would be of unknown records
    except OSError as error:
        raise _unusable(error) from error
    return result


def _at_hand(cell: Cell, download: bool) -> AtHand:
    path = _kept_under(cell)
    if path is not None and (kept := AtHand.kept(path)) is not None:
        return kept
    if cell.source == "hub" and not download:
        raise NotRead(f"The records of {cell.task} on the hub have not been read here.")
    return AtHand.of(task_of(cell))


def _asked(cell: Cell) -> tuple[Any, ...]:
    """What a cell says of its records."""
    return cell.task, cell.source, cell.train_records, cell.test_records, cell.development, cell.sizes is None


def _kept_under(cell: Cell) -> Path | None:
    """The file for the fingerprint of these records, named by everything that they follow from; None where that is not
    known: tasks that are not built in may read what we do not see. Raises DataError where the source is missing."""
    spec = source_spec(load_config(cell.task))
    data_sources.check_there(spec, cell.source)
    if not task_folders()[cell.task].built_in:
        return None
    content: list[Any] = []
    if cell.source == "local":
        places = [local.split_file(spec, split) for split in local.SPLITS]
        content = [[[file.name, _file_hash(file)] for file in local.files_of(place)] for place in places]
    elif cell.source == "hub":
        content = [str(spec.hub["path"]), data_sources.hub_commit(spec)]
    parts = [*_asked(cell), _code(), content]
    return private_folder() / f"records-{_hash_of(parts)}.json"


@cache
def _code() -> str:
    """A hash over everything of ours that makes records: task files, corpora, readers."""
    files = [Path(str(module.__file__)) for module in _CODE]
    files += sorted(path for path in TASKS.rglob("*") if path.suffix in (".yaml", ".txt", ".py"))
    return _hash_of([[path.name, _file_hash(path)] for path in files])


def _file_hash(path: Path) -> str:
    try:
        with open(path, "rb", opener=regular) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"Cannot read {path.parent.name}/{path.name}: {error.strerror}; fix that.") from error


def _hash_of(parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _key_of(result: Result) -> str:
    """What names a result on this machine, wherever its file is: its cell, when it was made, what came out."""
    outcomes = {metric: [own.ids, own.outcomes] for metric, own in sorted(result.documents.items())}
    return _hash_of([result.cell_id, result.created, outcomes])[:32]


def _noted(result: Result) -> str | None:
    """The keyed fingerprint of the private records from which this machine made a result."""
    return next((path.suffix[1:] for path in private_folder().glob(f"{_key_of(result)}.*")), None)


def _keyed(fingerprint: str) -> str:
    return hmac.new(machine_key(), fingerprint.encode(), hashlib.sha256).hexdigest()


def machine_key() -> bytes:
    """This machine's key: 32 random bytes, made once. Raises ResultError where it cannot be kept."""
    try:
        path = own_folder() / "key"
        if not path.exists():
            with suppress(FileExistsError):  # another one was faster: its key counts
                put_whole(path, os.urandom(32).hex(), new=True, private=True)
        key = content_of(path).decode()
        if not _SHA256.fullmatch(key):  # a shorter one would be no secret
            raise ValueError(f"{path.name} is damaged; put a copy of it back")
        return bytes.fromhex(key)
    except (OSError, ValueError) as error:
        raise _unusable(error) from error


def _unusable(error: Exception) -> ResultError:
    return ResultError(
        f"Cannot use {private_folder()} ({error}); with secure noise it must hold which records a result was made from."
        " Fix that: another folder would begin another budget."
    )


def own_folder() -> Path:
    """`private_folder`, there and its owner's alone, also after a power cut. Raises OSError."""
    folder = private_folder()
    make_folder(folder)
    folder.chmod(0o700)
    return folder
