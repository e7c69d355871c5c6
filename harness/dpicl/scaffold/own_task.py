"""Writes a task for a user's file: `dpicl new task NAME --from train.csv`. The records stay where they are."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from dpicl.core.decoding import FileFormat
from dpicl.core.errors import UsageError
from dpicl.data.counts import count_records, label_words
from dpicl.data.reading import read_records
from dpicl.data.tables import fields_of
from dpicl.data.task_file import LocalKeys, SourceSpec
from dpicl.scaffold.writing import EXAMPLES, write_example

#: Labels of which an instruction lists every one.
_LISTED = 50


@dataclass(frozen=True)
class WrittenTask:
    """The folder of a task and its files. test: whether there are test records. notes: sentences about what the user
    should look at."""

    files: Sequence[Path]
    labels: Sequence[str]
    test: bool
    notes: Sequence[str]


def own_spec(
    name: str, text: str, label: str, labels: Mapping[str, str], format: FileFormat
) -> SourceSpec:
    """What to read from a file: two fields, and label as written -> label word (empty: any label)."""
    local = LocalKeys(text=text, label=label, labels=dict(labels), **asdict(format))
    return SourceSpec(name=name, labels=tuple(dict.fromkeys(labels.values())), local=local)


def write_own_task(
    name: str,
    train: Path,
    test: Path | None,
    text: str | None,
    label: str | None,
    labels: Mapping[str, str],
    taken: Iterable[str],
    folder: Path,
    format: FileFormat,
) -> WrittenTask:
    """Writes the folder of a classification task that names the user's files, with its labels and their fields.

    text, label: fields; None: those with a usual name. labels: as written -> label word; empty: those of the file.
    Raises UsageError as `write_example`, and DataError for records that cannot be read.
    """
    beside = train.with_name(train.name.replace("train", "test", 1))
    if test is None and beside != train and beside.exists():
        test = beside
    columns = fields_of(train, text, label, format)
    spec = own_spec(name, *columns, labels, format)
    reading = read_records(train, spec)
    reading.check()
    words = list(spec.labels) or label_words(reading, columns[1])
    if len(words) < 2:
        raise UsageError(
            f"The field '{columns[1]}' of {train} has {len(words)} label; a classification task has at least 2. Name"
            " them all with --labels."
        )
    if test is not None:
        known = own_spec(name, *columns, labels or {word: word for word in words}, format)
        counted = count_records(reading, read_records(test, known), words)
        if counted.problems:
            raise UsageError(
                f"{counted.problems[0]}; `dpicl data {train} --test {test}` says more."
            )
    files = write_without_records(name, taken, folder)
    target, paths = files[0], {"train": train} if test is None else {"train": train, "test": test}
    local: dict[str, object] = {
        "text": columns[0],
        "label": columns[1],
        **relative_paths(paths, target),
        **format.changes,
    }
    if mapped := {key: word for key, word in labels.items() if key != word}:
        local["labels"] = mapped
    listed = f" as {', '.join(words[:-1])} or {words[-1]}" if len(words) <= _LISTED else ""
    values = {
        "description": f"Classify the texts{listed}.\n\n",
        "doc_to_choice": words,
        "    local": local,
    }
    for key in ("    hub", "    synthetic"):
        values[key] = no_records(name)
    _set_values(target / "task.yaml", values)
    joined = [reading.joined_note] if reading.joined_note else []
    return WrittenTask(files, words, test is not None, [*joined, *_notes(words, test)])


def write_without_records(name: str, taken: Iterable[str], folder: Path) -> list[Path]:
    """Writes the example of a task without its records; returns the folder and its files. Raises UsageError."""
    target, *files = write_example(EXAMPLES["task"], name, taken, folder)
    for file in files:
        if file.suffix == ".jsonl":
            file.unlink()
    return [target, *(file for file in files if file.suffix != ".jsonl")]


def relative_paths(paths: Mapping[str, Path], folder: Path) -> dict[str, str]:
    """Split -> its file, as a task file in ``folder`` names it."""
    return {
        split: os.path.relpath(path.resolve(), folder.resolve()) for split, path in paths.items()
    }


def no_records(name: str) -> dict[str, str]:
    """Why a task of a user's own file has no other source."""
    return {"missing": f"The records of {name} are a file of your own."}


def _set_values(file: Path, values: Mapping[str, object]) -> None:
    """Gives keys that stand on lines of their own these values, as JSON, which YAML reads whatever is in them."""
    text = file.read_text(encoding="utf-8")
    for key, value in values.items():
        line = f"{key}: {json.dumps(value, ensure_ascii=False)}"
        text = re.sub(rf"^{key}: .*$", lambda _, line=line: line, text, count=1, flags=re.MULTILINE)  # type: ignore[misc]
    file.write_text(text, encoding="utf-8")


def _notes(words: Sequence[str], test: Path | None) -> list[str]:
    notes = [
        f"Labels are public; task.yaml has these {len(words)}: look whether all of them may be known."
    ]
    if all(word.lstrip("-").isdecimal() for word in words):
        notes.append(
            "The labels are numbers, which tell a model nothing: name them with --labels 0=billing,1=refund."
        )
    if test is None:
        notes.append(
            "There is no test file, which a run needs and a release does not: add `test: FILE` under"
            " metadata.data.local in task.yaml. Test records count as public."
        )
    return notes
