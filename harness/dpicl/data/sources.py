"""Loads a task's records from the Hugging Face hub, local JSONL files, or synthetic corpora.

Every source gives the same thing: train and test lists of :class:`Record`, with label words instead of label ids, one
line a text. What happens to them afterwards is the same for all sources (dpicl.data.splits). Texts may be
private, so no error in this file shows one.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpicl.core.errors import DataError, UsageError
from dpicl.core.vocabulary import Record
from dpicl.data.reading import FileRecords, RowFault, function_of, normal_record, read_records
from dpicl.data.splits import Split, normalise
from dpicl.data.tables import SUFFIXES, Rows
from dpicl.data.task_file import LocalKeys, SourceSpec

SPLITS = ("train", "test")
SOURCES = ("auto", "hub", "local", "synthetic")
#: Audit event (PEP 578) of every reading of a source, with the task's name: the conformance kit sees who reads.
RECORDS_READ = "dpicl.records"

_COMMIT = re.compile(r"[0-9a-f]{40}")


def resolve(source: str, spec: SourceSpec) -> str:
    """The source that will be used: 'auto' is 'local' where the task has local records here, else 'synthetic'.

    Raises UsageError for an unknown source, DataError as `has_local`.
    """
    if source not in SOURCES:
        raise UsageError(f"Unknown source '{source}'; use one of {', '.join(SOURCES)}.")
    if source != "auto":
        return source
    return "local" if has_local(spec) else "synthetic"


def read(
    spec: SourceSpec, source: str, limit_train: int | None, limit_test: int | None, seed: int
) -> tuple[Split, Split]:
    """(train, test) as the source has them, before de-duplication."""
    sys.audit(RECORDS_READ, spec.name)
    match source:
        case "hub":
            return read_hub(spec)
        case "local":
            return read_local(spec)
    return read_synthetic(spec, limit_train, limit_test, seed)


def check_there(spec: SourceSpec, source: str) -> None:
    """Raises DataError where a local file is missing, or no commit of a hub data set is known. Reads no record."""
    if source == "local":
        for split in SPLITS:
            split_file(spec, split)
    elif source == "hub":
        hub_commit(spec)


# --- local files ---------------------------------------------------------------------------------------------------


def data_folder() -> Path | None:
    """The folder that $DPICL_DATA names, or None. Raises DataError when it names something that is no folder."""
    value = os.environ.get("DPICL_DATA", "")
    if not value:
        return None
    folder = Path(value).expanduser()
    if not folder.is_dir():
        raise DataError(
            f"DPICL_DATA={value} is not a folder ({folder.absolute()}); point it to one that holds TASK/train.jsonl, or"
            " unset it."
        )
    return folder


def has_local(spec: SourceSpec) -> bool:
    """Whether 'auto' means local files: task.yaml names some, or $DPICL_DATA has a folder of the task.

    Raises DataError where $DPICL_DATA is no folder, or holds tasks one level higher or lower than it should.
    """
    if spec.local.train:
        return True
    folder = data_folder()
    if folder is None or spec.local.missing:
        return False
    if _candidates(folder / spec.name, "train"):
        return True
    _require_right_level(folder, spec.name)
    return False


def split_file(spec: SourceSpec, split: str) -> Path:
    """The file of a split. Raises DataError that says what is there instead."""
    if spec.local.missing:
        raise DataError(f"{spec.local.missing} Use `--source synthetic`, or another task.")
    if spec.local.train:
        file = spec.local.train if split == "train" else spec.local.test
        if not file or not Path(file).exists():
            reason = f"names {file}, which is not there, for" if file else "names no file of"
            raise DataError(
                f"task.yaml of {spec.name} {reason} the {split} records; correct metadata.data.local there."
            )
        return Path(file)
    folder = data_folder()
    if folder is None:
        raise DataError(
            f"DPICL_DATA is not set; point it to a folder that holds {spec.name}/train.jsonl and"
            f" {spec.name}/test.jsonl, or use `--source synthetic`."
        )
    base = folder.absolute() / spec.name
    candidates = _candidates(base, split)
    names = " and ".join(path.name for path in candidates)
    readable = [path for path in candidates if path.suffix.lower() in SUFFIXES]
    if len(readable) == 1:
        return readable[0]
    if readable:
        raise DataError(
            f"{base} holds {names}; keep one of them, since each may be the {split} records."
        )
    _require_right_level(folder, spec.name)
    raise DataError(
        f"DPICL_DATA={os.environ['DPICL_DATA']} holds no {spec.name}/{split}.jsonl ({base / f'{split}.jsonl'})"
        f"{f', but {names}, which is not read' if candidates else ''}; put the file there (or one that ends in"
        f" {', '.join(SUFFIXES[1:])}), or use `--source synthetic`."
    )


def _candidates(folder: Path, split: str) -> list[Path]:
    """Whatever has the split's name and an ending."""
    return sorted(path for path in folder.glob(f"{split}.*") if not path.is_dir())


def _require_right_level(folder: Path, name: str) -> None:
    """Raises DataError where train records lie one level above or below $DPICL_DATA/TASK."""
    around = [folder, *sorted(folder.glob(f"*/{name}"))]
    if place := next((each for each in around if _candidates(each, "train")), None):
        raise DataError(
            f"DPICL_DATA={os.environ['DPICL_DATA']} must hold a folder {name} with the records of this task, and train"
            f" records lie in {place.absolute()}; set DPICL_DATA one level higher or lower, or move them to"
            f" {folder.absolute() / name}."
        )


def read_local(spec: SourceSpec) -> tuple[Split, Split]:
    """The local records. Raises DataError with the file and line, never with the text."""
    train, test = (reading_of(spec, split).check() for split in SPLITS)
    return train, test


def reading_of(spec: SourceSpec, split: str) -> FileRecords:
    """What the local file of a split holds, faults included. Raises DataError for one that is no table."""
    return read_records(split_file(spec, split), spec)


# --- the hub -------------------------------------------------------------------------------------------------------


def read_hub(spec: SourceSpec) -> tuple[Split, Split]:
    """One commit of a hub data set by `datasets.load_dataset`. Raises DataError that says how to go on without it."""
    revision = hub_commit(spec)
    import datasets

    path = spec.hub.path
    try:
        train, test = (
            datasets.load_dataset(path, spec.hub.name, split=split, revision=revision)
            for split in (spec.hub.splits["train"], spec.hub.splits["test"])
        )
    except Exception as error:  # network, authentication and format errors of three libraries
        raise DataError(
            f"Could not read {path} from the Hugging Face hub ({type(error).__name__}); use `--source local` with"
            f" DPICL_DATA set to a folder that holds {spec.name}/train.jsonl and {spec.name}/test.jsonl, or"
            " `--source synthetic`."
        ) from error
    return _hub_split(spec, train), _hub_split(spec, test)


def hub_commit(spec: SourceSpec) -> str:
    """The commit that the task file pins, or the one that $DPICL_HUB_REVISION names for this task.

    Never a branch: what it holds may change between two cells of one board. Raises DataError where there is none, and
    for a task that is not on the hub.
    """
    if spec.hub.missing:
        if spec.local.missing:
            raise DataError(f"{spec.hub.missing} Use `--source synthetic`, or another task.")
        raise DataError(
            f"{spec.hub.missing} Put {spec.name}/train.jsonl and {spec.name}/test.jsonl under DPICL_DATA and use"
            " `--source local`, or use `--source synthetic`."
        )
    if spec.hub.revision:
        return spec.hub.revision
    pairs = os.environ.get("DPICL_HUB_REVISION", "").split(",")
    revisions = dict(pair.strip().partition("=")[::2] for pair in pairs)
    revision = revisions.get(spec.name, "")
    if not _COMMIT.fullmatch(revision):
        raise DataError(
            f"This project pins no commit of {spec.hub.path}; set DPICL_HUB_REVISION={spec.name}=COMMIT with one of"
            f" 40 hexadecimal digits (https://huggingface.co/datasets/{spec.hub.path}/commits/main lists them), or"
            " use `--source local` or `--source synthetic`."
        )
    return revision


def _hub_split(spec: SourceSpec, rows: Sequence[Mapping[str, Any]]) -> Split:
    """Where the hub stores class ids, `hub.labels` lists our word for each id, in the hub's order."""
    columns = LocalKeys(text=spec.hub.text, label=spec.hub.label)
    table = Rows(
        spec.hub.path,
        rows,
        {spec.hub.label: spec.hub.labels},
    )
    return read_records(table, spec.model_copy(update={"local": columns})).check()


# --- synthetic corpora -----------------------------------------------------------------------------------------------


def read_synthetic(
    spec: SourceSpec,
    limit_train: int | None,
    limit_test: int | None,
    seed: int,
) -> tuple[Split, Split]:
    """Distinct records of the task's grammar; each is a function of (seed, class, split, index) alone.

    limit_train (a class; in all without classes) and limit_test (in all) may also ask for more than the default sizes.
    Where a part is public, it comes on top, and a smaller limit draws from the records of the default size. Raises
    DataError where the task's file says that there is no corpus.
    """
    if spec.synthetic.missing:
        raise DataError(
            f"Task {spec.name} has no synthetic corpus: {spec.synthetic.missing} Set DPICL_DATA to the folder that"
            f" holds {spec.name}/train.jsonl and {spec.name}/test.jsonl, and use `--source local`."
        )
    records = function_of(
        f"{spec.synthetic.module}.records", f"The synthetic corpus of {spec.name}"
    )
    groups: Sequence[str | None] = spec.labels or (None,)
    train = spec.synthetic.train if limit_train is None else limit_train
    if spec.public:
        train = max(train, spec.synthetic.train) + spec.public["synthetic"]
    sizes = {"test": max(spec.synthetic.test, -(-(limit_test or 0) // len(groups))), "train": train}
    texts: set[str] = set()
    splits: dict[str, Split] = {}
    for split, size in sizes.items():  # test first: a train record never repeats a test record
        splits[split] = [
            _record(spec, text, label, f"The synthetic corpus of {spec.name}")
            for group in groups
            for text, label in _read_distinct(spec.name, records(group, split, seed), size, texts)
        ]
    return splits["train"], splits["test"]


def _record(spec: SourceSpec, text: str, label: str, place: str) -> Record:
    try:
        return normal_record(spec, text, label)
    except RowFault as fault:
        raise DataError(f"{place} {fault}; leave it out, or correct the task file.") from None


def _read_distinct(
    name: str, stream: Iterator[tuple[str, str]], size: int, texts: set[str]
) -> Iterator[tuple[str, str]]:
    """The first `size` records of the stream whose keys are new, or all of a corpus that ends before; adds their keys
    to `seen`."""
    number = misses = 0
    while number < size:
        if (record := next(stream, None)) is None:
            return
        text, label = record
        key = normalise(text)
        if key not in texts:
            texts.add(key)
            number, misses = number + 1, 0
            yield text, label
        elif (misses := misses + 1) > 2000:
            raise DataError(
                f"The synthetic corpus of {name} has about {number} distinct records of one class, not {size}; ask for"
                " fewer train records."
            )
