"""Fingerprints of the records behind a result and of those that a run would use now.

A fingerprint is a hash over all records as loaded (dpicl.data.splits). It stands in the result file.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from dpicl.core import json_text, seeds
from dpicl.core.cell import Cell
from dpicl.core.errors import DataError
from dpicl.core.files import file_sha256, own_folder, put_whole
from dpicl.core.paths import private_folder
from dpicl.data import config as task_config
from dpicl.data import reading, tables, task, task_file
from dpicl.data import sources as data_sources
from dpicl.data import splits as record_sets
from dpicl.data.config import TASKS, load_config, task_folders
from dpicl.data.task import Task
from dpicl.results.schema import Part, Result

#: The records that a limit keeps are the same for every cell of a suite, whatever its seed.
_RECORDS_SEED = 0
#: 64 hexadecimal digits.
_SHA256 = r"^[0-9a-f]{64}$"
#: What turns files into records; with other code the same files may be other records.
_CODE = (data_sources, reading, record_sets, seeds, tables, task, task_config, task_file)


class NotRead(DataError):
    """Records of the hub that no run has read on this machine, and that are not to be fetched now."""


def task_of(cell: Cell) -> Task:
    """The task of a cell with its records, whose fingerprint is kept; with all test records from which a seed draws,
    where it does. Raises DataError."""
    before = _cache_path(cell)
    task = Task.load(
        cell.task,
        cell.source,
        limit_train=cell.train_records,
        limit_test=cell.test_records,
        seed=_RECORDS_SEED,
        code_seed=cell.seed,
        development=cell.development,
        pool=cell.fresh_test_records,
    )
    # else the files changed while they were read
    if before is not None and before == _cache_path(cell):
        with suppress(OSError):  # then it is worked out again next time
            own_folder()
            before.unlink(missing_ok=True)
            put_whole(before, AtHand.of(task).model_dump_json(), new=True, private=True)
    return task


class AtHand(Part):
    """The records that a run would use now. test: a hash over the ids of the test records."""

    fingerprint: Annotated[str, Field(pattern=_SHA256)]
    test: Annotated[str, Field(pattern=_SHA256)]

    @classmethod
    def of(cls, task: Task) -> AtHand:
        return cls(
            fingerprint=task.fingerprint,
            test=json_text.sha256_of(sorted(query.id for query in task.queries())),
        )

    @classmethod
    def read(cls, path: Path) -> AtHand | None:
        """What a file holds of records; None where there is none, or a damaged one."""
        try:
            return cls.model_validate_json(json_text.text_of(path), strict=True)
        except (OSError, ValueError):
            return None


@dataclass
class Fingerprints:
    """The fingerprints of the records at hand, each worked out once, and kept on disk under what they follow from.

    download: whether records of the hub may be fetched for that; without it those that no run has read are not at hand.
    """

    download: bool = True
    _known: dict[tuple[Any, ...], AtHand] = field(default_factory=dict)

    def find_at_hand(self, cell: Cell) -> AtHand:
        """Raises DataError where the source is missing (NotRead: not fetched)."""
        key = _request(cell)
        if key not in self._known:
            self._known[key] = _find_at_hand(cell, self.download)
        return self._known[key]

    def difference(self, result: Result) -> str:
        """How the records of a result differ from those at hand, in a few words; "" where they are the same.

        Raises as `find_at_hand`.
        """
        now = self.find_at_hand(result.cell)
        if result.manifest.data.fingerprint == now.fingerprint:
            return ""
        if result.cell.fresh_test_records:
            return "the records changed"
        ids = result.documents[result.main_metric].ids
        return (
            "the test records changed"
            if json_text.sha256_of(sorted(ids)) != now.test
            else "the train or public records changed"
        )


def _find_at_hand(cell: Cell, download: bool) -> AtHand:
    path = _cache_path(cell)
    if path is not None and (remembered := AtHand.read(path)) is not None:
        return remembered
    if cell.source == "hub" and not download:
        raise NotRead(f"The records of {cell.task} on the hub have not been read here.")
    return AtHand.of(task_of(cell))


def _request(cell: Cell) -> tuple[Any, ...]:
    """What a cell says of its records; of those that a seed draws, of the whole set."""
    pool = ("pool",) if cell.fresh_test_records else ()
    return cell.task, cell.source, cell.train_records, cell.test_records, cell.development, *pool


def _cache_path(cell: Cell) -> Path | None:
    """The file for the fingerprint of these records, named by everything that they follow from; None where that is not
    known: tasks that are not built in may read what we do not see. Raises DataError where the source is missing."""
    spec = load_config(cell.task).source
    data_sources.check_there(spec, cell.source)
    if not task_folders()[cell.task].built_in:
        return None
    content: list[Any] = []
    if cell.source == "local":
        places = [data_sources.split_file(spec, split) for split in data_sources.SPLITS]
        content = [[place.name, _file_hash(place)] for place in places]
    elif cell.source == "hub":
        content = [spec.hub.path, data_sources.hub_commit(spec)]
    parts = [*_request(cell), _code(), content]
    return private_folder() / f"records-{json_text.sha256_of(parts)}.json"


@cache
def _code() -> str:
    """A hash over everything of ours that makes records: task files, corpora, readers."""
    files = [Path(str(module.__file__)) for module in _CODE]
    files += sorted(path for path in TASKS.rglob("*") if path.suffix in (".yaml", ".txt", ".py"))
    return json_text.sha256_of([[path.name, _file_hash(path)] for path in files])


def _file_hash(path: Path) -> str:
    try:
        return file_sha256(path)
    except OSError as error:
        raise DataError(
            f"Cannot read {path.parent.name}/{path.name}: {error.strerror}; fix that."
        ) from error
