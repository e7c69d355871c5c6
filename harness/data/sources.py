"""Where a task's records come from: the Hugging Face hub, local JSONL files, or the project's own synthetic corpora.

Every source gives the same thing: train and test lists of :class:`Record`, with label words instead of label ids, one
line a text. What happens to them afterwards is the same for all sources (dpicl.harness.data.splits). Texts may be
private, so no error in this file shows one.
"""

from __future__ import annotations

import codecs
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from dpicl.harness.core import json_text
from dpicl.harness.core.errors import DataError, UsageError
from dpicl.harness.core.vocabulary import Record
from dpicl.harness.data.splits import Split, normalised

SOURCES = ("auto", "hub", "local", "synthetic")
#: Audit event (PEP 578) of every reading of a source, with the task's name: the conformance kit sees who reads.
RECORDS_READ = "dpicl.records"

#: Bytes of one line of a JSONL file.
LONGEST_LINE = 10_000_000
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class SourceSpec:
    """What a task.yaml says about its data.

    labels: label words in public order; empty for tasks without classes.
    local: 'text' and 'label', the fields of a local JSONL record, and 'labels', label as written there -> label word
        (label words themselves are always accepted); or 'reader', a function from such a record to its text, and
        'label', the constant label.
    hub: path, revision and columns of the hub data set, or {"missing": reason}.
    synthetic: module of the corpus, and default numbers of train and test records (a class; in all without classes).
    public: source -> how many train records are public; empty where none is.
    max_words: 'text' and 'label' -> how many words of it are kept. The cut looks at that record alone.
    line_separator: what takes the place of line breaks in a text.
    """

    name: str
    labels: tuple[str, ...]
    local: Mapping[str, Any]
    hub: Mapping[str, Any]
    synthetic: Mapping[str, Any]
    public: Mapping[str, int] = field(default_factory=dict)
    max_words: Mapping[str, int] = field(default_factory=dict)
    line_separator: str = " "


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
        for split in ("train", "test"):
            local_file(spec, split)
    elif source == "hub":
        hub_commit(spec)


# --- local files ---------------------------------------------------------------------------------------------------


def read_local(spec: SourceSpec) -> tuple[Split, Split]:
    """$DPICL_DATA/<task>/train.jsonl and test.jsonl. Raises DataError with the file and line, never with the text."""
    train, test = (_read_jsonl(spec, local_file(spec, split)) for split in ("train", "test"))
    return train, test


def local_file(spec: SourceSpec, split: str) -> Path:
    """The file of a split under $DPICL_DATA. Raises DataError where it is not there."""
    if "missing" in spec.local:
        raise DataError(f"{spec.local['missing']} Use `--source synthetic`, or another task.")
    folder = data_folder()
    if folder is None:
        raise DataError(
            f"DPICL_DATA is not set; point it to a folder that holds {spec.name}/train.jsonl and"
            f" {spec.name}/test.jsonl, or use `--source synthetic`."
        )
    path = folder / spec.name / f"{split}.jsonl"
    if not path.is_file():
        raise DataError(
            f"DPICL_DATA holds no {spec.name}/{path.name}; put the file there, or use `--source synthetic`."
        )
    return path


def _read_jsonl(spec: SourceSpec, path: Path) -> Split:
    place = f"{spec.name}/{path.name}"
    try:
        with path.open("rb") as file:
            lines = enumerate(_lines(file), start=1)
            return [_parse(spec, line, f"{place} line {number}") for number, line in lines if line.strip()]
    except OSError as error:
        raise DataError(f"Cannot read {place} under DPICL_DATA: {error.strerror}.") from error


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file, without the byte order mark that some editors write; a longer one than any record is cut."""
    first = True
    while line := file.readline(LONGEST_LINE + 1):
        yield line.removeprefix(codecs.BOM_UTF8) if first else line
        first = False


def _parse(spec: SourceSpec, line: bytes, place: str) -> Record:
    try:
        row = json_text.loads(line, LONGEST_LINE, plain=False)
    except ValueError as error:
        raise DataError(f"{place} is not a JSON object: {error}; repair or remove this line.") from None
    if not isinstance(row, dict):
        raise DataError(f"{place} is not a JSON object; repair or remove this line.")
    if "reader" in spec.local:
        return _record(spec, _read_row(spec, row, place), spec.local["label"], place)
    fields = spec.local["text"], spec.local["label"]
    columns = [row.get(field) for field in fields]
    if not all(isinstance(value, str) for value in columns):
        raise DataError(f"{place} needs the string fields '{fields[0]}' and '{fields[1]}'.")
    text, label = map(str, columns)
    return _record(spec, text, spec.local.get("labels", {}).get(label, label), place)


def _read_row(spec: SourceSpec, row: dict[str, Any], place: str) -> str:
    """The text of a row by the task's own reader, whose exceptions may quote the row unless it means them for us."""
    reader: Callable[[dict[str, Any]], str] = function_of(spec.local["reader"], f"The reader of task {spec.name}")
    try:
        text = reader(row)
    except ValueError as error:
        raise DataError(f"{place} {error}; repair or remove this line.") from None
    except Exception as error:
        raise DataError(f"{place} ended the task's reader ({type(error).__name__}); repair or remove it.") from None
    if not isinstance(text, str):
        raise DataError(f"{place}: the task's reader gave no text; repair the line or the reader.")
    return text


def function_of(name: str, what: str) -> Any:
    """The function of a dotted name. Raises DataError where there is none; what: the subject of that sentence."""
    module, _, function = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError, SyntaxError) as error:
        raise DataError(f"{what}, {name}, cannot be loaded ({type(error).__name__}: {error}).") from error


def _record(spec: SourceSpec, text: str, label: str, place: str) -> Record:
    """One line of text with single spaces, and of label: prompts and demonstrations are made of lines.

    Characters that no tokenizer accepts (halves of surrogate pairs) become '?', so that no text makes a run fail.
    """
    lines = [" ".join(line.split()) for line in text.splitlines()]
    text = _first_words(spec.line_separator.join(line for line in lines if line), spec.max_words.get("text"))
    label = _first_words(label, spec.max_words.get("label"))
    text, label = (part.encode("utf-8", "replace").decode() for part in (text, label))
    if not text or not label:
        raise DataError(f"{place} has an empty text or label; fill it in or remove it.")
    if spec.labels and label not in spec.labels:
        known = ", ".join([*spec.local.get("labels", {}), *spec.labels])
        raise DataError(f"{place} has an unknown label; known: {known}.")
    return Record(text, label)


def _first_words(text: str, most: int | None) -> str:
    """The first so many words (None: all), with single spaces between them."""
    return " ".join(text.split()[:most])


# --- the hub -------------------------------------------------------------------------------------------------------


def read_hub(spec: SourceSpec) -> tuple[Split, Split]:
    """One commit of a hub data set by `datasets.load_dataset`. Raises DataError that says how to go on without it."""
    revision = hub_commit(spec)
    import datasets

    path = spec.hub["path"]
    splits = spec.hub.get("splits", {"train": "train", "test": "test"})
    try:
        train, test = (
            datasets.load_dataset(path, spec.hub.get("name"), split=splits[name], revision=revision)
            for name in ("train", "test")
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
    if "missing" in spec.hub:
        if "missing" in spec.local:
            raise DataError(f"{spec.hub['missing']} Use `--source synthetic`, or another task.")
        raise DataError(
            f"{spec.hub['missing']} Put {spec.name}/train.jsonl and {spec.name}/test.jsonl under DPICL_DATA and use"
            " `--source local`, or use `--source synthetic`."
        )
    if pinned := spec.hub.get("revision"):
        return str(pinned)
    given = dict(item.strip().partition("=")[::2] for item in os.environ.get("DPICL_HUB_REVISION", "").split(","))
    revision = given.get(spec.name, "")
    if not _COMMIT.fullmatch(revision):
        raise DataError(
            f"This project pins no commit of {spec.hub['path']}; set DPICL_HUB_REVISION={spec.name}=COMMIT with one of"
            f" 40 hexadecimal digits (https://huggingface.co/datasets/{spec.hub['path']}/commits/main lists them), or"
            " use `--source local` or `--source synthetic`."
        )
    return revision


def _hub_split(spec: SourceSpec, rows: Iterable[Mapping[str, Any]]) -> Split:
    """Where the hub stores class ids, `hub.labels` lists our word for each id, in the hub's order."""
    text, label, words = spec.hub["text"], spec.hub["label"], spec.hub.get("labels")
    records = []
    for number, row in enumerate(rows):
        place = f"{spec.hub['path']} row {number}"
        written, word = row.get(text), row.get(label)
        if words is not None and isinstance(word, int):
            word = words[word] if 0 <= word < len(words) else ""
        if not isinstance(written, str) or not isinstance(word, str):
            raise DataError(f"{place} has no text '{text}' with a label '{label}'; correct the columns in task.yaml.")
        records.append(_record(spec, written, word, place))
    return records


# --- synthetic corpora -----------------------------------------------------------------------------------------------


def read_synthetic(spec: SourceSpec, limit_train: int | None, limit_test: int | None, seed: int) -> tuple[Split, Split]:
    """Distinct records of the task's grammar; each is a function of (seed, class, split, index) alone.

    limit_train (a class; in all without classes) and limit_test (in all) may also ask for more than the default sizes.
    Where a part is public, it comes on top, and a smaller limit draws from the records of the default size.
    """
    records = function_of(f"{spec.synthetic['module']}.records", f"The synthetic corpus of {spec.name}")
    groups: Sequence[str | None] = spec.labels or (None,)
    train = int(spec.synthetic["train"]) if limit_train is None else limit_train
    if spec.public:
        train = max(train, int(spec.synthetic["train"])) + spec.public["synthetic"]
    sizes = {"test": max(int(spec.synthetic["test"]), -(-(limit_test or 0) // len(groups))), "train": train}
    seen: set[str] = set()
    splits: dict[str, Split] = {}
    for split, size in sizes.items():  # test first: a train record never repeats a test record
        splits[split] = [
            _record(spec, text, label, f"the synthetic corpus of {spec.name}")
            for group in groups
            for text, label in _distinct(spec.name, records(group, split, seed), size, seen)
        ]
    return splits["train"], splits["test"]


def _distinct(name: str, stream: Iterator[tuple[str, str]], size: int, seen: set[str]) -> Iterator[tuple[str, str]]:
    """The first `size` records of the stream whose keys are new, or all of a corpus that ends before; adds their keys
    to `seen`."""
    found = misses = 0
    while found < size:
        if (record := next(stream, None)) is None:
            return
        text, label = record
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
