"""Where a task's records come from: the Hugging Face hub, local JSONL files, or the project's own synthetic corpora.

Every source gives the same thing: train and test lists of :class:`Record`, with label words instead of label ids, one
line a text. After that all sources share one path: duplicates and train/test leaks go, limits apply, a fingerprint is
taken. Texts may be private, so no error and no repr in this file shows one.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import DataError, UsageError
from harness.seeds import streams

SOURCES = ("auto", "hub", "local", "synthetic")


@dataclass(frozen=True)
class Record:
    """One example: its text (kept out of repr) and its label word, or for extraction the phrase to be found in it."""

    text: str = field(repr=False)
    label: str = field(repr=False)


@dataclass(frozen=True)
class SourceSpec:
    """What a task.yaml says about its data.

    labels: label words in public order; empty for extraction tasks.
    local_labels: label as written in local files -> label word (label words themselves are always accepted).
    text_column, label_column: fields of a local JSONL record.
    hub: path, revision and columns of the hub data set, or {"missing": reason}.
    synthetic: module of the corpus, and default numbers of train and test records (a class; in all for extraction).
    """

    name: str
    labels: tuple[str, ...]
    local_labels: Mapping[str, str]
    text_column: str
    label_column: str
    hub: Mapping[str, Any]
    synthetic: Mapping[str, Any]


Split = list[Record]


def normalised(text: str) -> str:
    """The key by which two texts are one record: lower-cased letters and digits; the text itself if it has none."""
    return "".join(c for c in text.lower() if c.isalnum()) or text


def resolve(source: str, name: str) -> str:
    """The source that will be used: 'auto' is 'local' where $DPICL_DATA holds the task, else 'synthetic'."""
    if source not in SOURCES:
        raise UsageError(f"Unknown source '{source}'; use one of {', '.join(SOURCES)}.")
    if source != "auto":
        return source
    folder = data_folder()
    return "local" if folder is not None and (folder / name / "train.jsonl").is_file() else "synthetic"


def data_folder() -> Path | None:
    """The folder that $DPICL_DATA names, or None. Raises DataError when it names something that is no folder."""
    value = os.environ.get("DPICL_DATA", "")
    if not value:
        return None
    folder = Path(value).expanduser()
    if not folder.is_dir():
        raise DataError("DPICL_DATA does not name a folder; point it to one that holds TASK/train.jsonl, or unset it.")
    return folder


def read(
    spec: SourceSpec, source: str, limit_train: int | None, limit_test: int | None, seed: int
) -> tuple[Split, Split]:
    """(train, test) as the source has them, before de-duplication."""
    match source:
        case "hub":
            return read_hub(spec)
        case "local":
            return read_local(spec)
        case "synthetic":
            return read_synthetic(spec, limit_train, limit_test, seed)
    raise UsageError(f"Unknown source '{source}'; use one of {', '.join(SOURCES)}.")


# --- local files ---------------------------------------------------------------------------------------------------


def read_local(spec: SourceSpec) -> tuple[Split, Split]:
    """$DPICL_DATA/<task>/train.jsonl and test.jsonl. Raises DataError with the file and line, never with the text."""
    folder = data_folder()
    if folder is None:
        raise DataError(
            f"DPICL_DATA is not set; point it to a folder that holds {spec.name}/train.jsonl and"
            f" {spec.name}/test.jsonl, or use `--source synthetic`."
        )
    train, test = (_read_jsonl(spec, folder / spec.name / f"{split}.jsonl") for split in ("train", "test"))
    return train, test


def _read_jsonl(spec: SourceSpec, path: Path) -> Split:
    place = f"{spec.name}/{path.name}"
    if not path.is_file():
        raise DataError(f"DPICL_DATA holds no {place}; put the file there, or use `--source synthetic`.")
    records = []
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                records.append(_parse(spec, line, f"{place} line {number}"))
    return records


def _parse(spec: SourceSpec, line: bytes, place: str) -> Record:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    if not isinstance(row, dict):
        # `from None`: a JSONDecodeError carries the whole line.
        raise DataError(f"{place} is not a JSON object; repair or remove this line.") from None
    columns = row.get(spec.text_column), row.get(spec.label_column)
    if not all(isinstance(value, str) for value in columns):
        raise DataError(f"{place} needs the string fields '{spec.text_column}' and '{spec.label_column}'.")
    text, label = map(str, columns)
    return _record(spec, text, spec.local_labels.get(label, label), place)


def _record(spec: SourceSpec, text: str, label: str, place: str) -> Record:
    """One line of text with single spaces: prompts and demonstrations are made of lines.

    Characters that no tokenizer accepts (halves of surrogate pairs) become '?', so that no text makes a run fail.
    """
    text, label = (part.encode("utf-8", "replace").decode() for part in (" ".join(text.split()), label.strip()))
    if not text or not label:
        raise DataError(f"{place} has an empty text or label; fill it in or remove it.")
    if spec.labels and label not in spec.labels:
        known = ", ".join([*spec.local_labels, *spec.labels])
        raise DataError(f"{place} has an unknown label; known: {known}.")
    return Record(text, label)


# --- the hub -------------------------------------------------------------------------------------------------------


def read_hub(spec: SourceSpec) -> tuple[Split, Split]:
    """The pinned revision by `datasets.load_dataset`. Raises DataError that says how to go on without network."""
    if "missing" in spec.hub:
        raise DataError(
            f"{spec.hub['missing']} Put {spec.name}/train.jsonl and {spec.name}/test.jsonl under DPICL_DATA and use"
            " `--source local`, or use `--source synthetic`."
        )
    import datasets

    path, revision = spec.hub["path"], spec.hub["revision"]
    try:
        data = datasets.load_dataset(path, spec.hub.get("name"), revision=revision)
    except Exception as error:  # network, authentication and format errors of three libraries
        raise DataError(
            f"Could not read {path} from the Hugging Face hub ({type(error).__name__}); use `--source local` with"
            f" DPICL_DATA set to a folder that holds {spec.name}/train.jsonl and {spec.name}/test.jsonl, or"
            " `--source synthetic`."
        ) from error
    return _hub_split(spec, data["train"]), _hub_split(spec, data["test"])


def _hub_split(spec: SourceSpec, rows: Iterable[Mapping[str, Any]]) -> Split:
    """The hub stores class ids; `hub.labels` lists our word for each id, in the hub's order."""
    text, label, words = spec.hub["text"], spec.hub["label"], spec.hub["labels"]
    records = []
    for number, row in enumerate(rows):
        word = words[row[label]] if 0 <= row[label] < len(words) else ""
        records.append(_record(spec, row[text], word, f"{spec.hub['path']} row {number}"))
    return records


# --- synthetic corpora -----------------------------------------------------------------------------------------------


def read_synthetic(spec: SourceSpec, limit_train: int | None, limit_test: int | None, seed: int) -> tuple[Split, Split]:
    """Distinct records of the task's grammar; each is a function of (seed, class, split, index) alone.

    limit_train (a class; in all for extraction) and limit_test (in all) may also ask for more than the default sizes.
    """
    module = importlib.import_module(spec.synthetic["module"])
    groups: Sequence[str | None] = spec.labels or (None,)
    sizes = {
        "test": max(int(spec.synthetic["test"]), -(-(limit_test or 0) // len(groups))),
        "train": int(spec.synthetic["train"]) if limit_train is None else limit_train,
    }
    seen: set[str] = set()
    splits: dict[str, Split] = {}
    for split, size in sizes.items():  # test first: a train record never repeats a test record
        splits[split] = [
            Record(text, label)
            for group in groups
            for text, label in _distinct(spec.name, module.records(group, split, seed), size, seen)
        ]
    return splits["train"], splits["test"]


def _distinct(name: str, stream: Iterator[tuple[str, str]], size: int, seen: set[str]) -> Iterator[tuple[str, str]]:
    """The first `size` records of the stream whose keys are new; adds their keys to `seen`."""
    found = misses = 0
    while found < size:
        text, label = next(stream)
        key = normalised(text)
        if key not in seen:
            seen.add(key)
            found, misses = found + 1, 0
            yield text, label
        elif (misses := misses + 1) > 2000:
            raise DataError(
                f"The synthetic corpus of {name} has about {found} distinct records of one class, not {size}; ask for"
                " fewer train records."
            )


# --- what all sources share ------------------------------------------------------------------------------------------


def deduplicate(train: Sequence[Record], test: Sequence[Record]) -> tuple[Split, Split, dict[str, int]]:
    """Keeps the first record of each key, and no train record whose key is in test; counts what was dropped.

    A repeated record would make one person's record count twice, and a record-level epsilon would not hold for them.
    """
    test_keys: set[str] = set()
    kept_test = [record for record in test if _is_new(record, test_keys)]
    train_keys: set[str] = set()
    unique = [record for record in train if _is_new(record, train_keys)]
    kept_train = [record for record in unique if normalised(record.text) not in test_keys]
    dropped = {
        "duplicates": len(train) - len(unique),
        "train_in_test": len(unique) - len(kept_train),
        "test_duplicates": len(test) - len(kept_test),
    }
    return kept_train, kept_test, dropped


def _is_new(record: Record, keys: set[str]) -> bool:
    key = normalised(record.text)
    if key in keys:
        return False
    keys.add(key)
    return True


def subsample(
    spec: SourceSpec, train: Split, test: Split, limit_train: int | None, limit_test: int | None, seed: int
) -> tuple[Split, Split]:
    """At most limit_train train records a class (in all for extraction) and limit_test test records, by public coins.

    A class keeps the train records with the smallest hash of (seed, text), in their order: one record more in the file
    displaces at most one other. Test records are always permuted, so that a shorter test set is a random part of a
    longer one (files are often sorted by class).
    """
    random = streams(seed)
    groups: dict[str, list[int]] = {}
    for index, record in enumerate(train):
        groups.setdefault(record.label if spec.labels else "", []).append(index)
    kept: list[int] = []
    for members in groups.values():
        kept += sorted(members, key=lambda i: _lot(seed, train[i]))[:limit_train]
    order = random.stream(f"data:{spec.name}:test").permutation(len(test))
    return [train[i] for i in sorted(kept)], [test[i] for i in order[:limit_test]]


def _lot(seed: int, record: Record) -> bytes:
    """A public lot for each text that does not depend on the other records."""
    return hashlib.sha256(f"{seed}:{normalised(record.text)}".encode()).digest()


def require_all_classes(spec: SourceSpec, train: Split, test: Split) -> None:
    """Raises DataError for a class without train records, or an empty split."""
    missing = [label for label in spec.labels if label not in {record.label for record in train}]
    if missing:
        raise DataError(f"{spec.name} has no train record of {', '.join(missing)}; add some or use another source.")
    if not train or not test:
        raise DataError(f"{spec.name} has an empty {'train' if not train else 'test'} set; use another source.")


def fingerprint(train: Sequence[Record], test: Sequence[Record]) -> str:
    """sha256 over all records in order: (split, label, text), each as one JSON line."""
    digest = hashlib.sha256()
    for split, records in (("train", train), ("test", test)):
        for record in records:
            digest.update(json.dumps([split, record.label, record.text], ensure_ascii=True).encode() + b"\n")
    return digest.hexdigest()


def check_limit(name: str, value: int | None) -> None:
    """Raises UsageError unless the limit is None or at least 1."""
    if value is not None and value < 1:
        raise UsageError(f"{name} must be at least 1, not {value}.")
