"""A task of the user's own for one release: records from a file, labels from the command line or from a known task.

What a label is called, what a text is, how many records there are: these words and numbers are public, and the user
says them. With secure noise a record that cannot be read is one fixed sentence, whatever is wrong with it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpicl.harness.core import json_text
from dpicl.harness.core.errors import DataError, UsageError
from dpicl.harness.core.vocabulary import Query, Record
from dpicl.harness.data import sources
from dpicl.harness.data.concealed import concealed
from dpicl.harness.data.config import classes, load_config, source_spec
from dpicl.harness.data.sources import SourceSpec
from dpicl.harness.data.task import Task

#: The name of a task that is made of --labels.
NAME = "own"
TABLES = (".csv", ".tsv")
#: Characters of one cell of a table.
_LONGEST_CELL = 10_000_000

_UNREADABLE = (
    "The private records cannot be read: one of them has no text, or a label that is none of those given. With secure"
    " noise nothing more is said, since it may tell about one of them; --noise seeded names the line, where nobody else"
    " reads the screen."
)


@dataclass(frozen=True)
class OwnTask:
    """What is public of the task. labels: in order; or task: the name of a known one. text_field, label_field: of a
    row (None: as the task's file says, else 'text' and 'label'). text_is: what a text is, in a word or two."""

    labels: Sequence[str] = ()
    task: str | None = None
    text_field: str | None = None
    label_field: str | None = None
    text_is: str = "text"

    def config(self) -> Mapping[str, Any]:
        """Its task file. Raises UsageError for words that do not fit."""
        if (self.task is None) is (not self.labels):
            raise UsageError(
                "Say what the labels are: --labels billing,technical,refund; or --task T, the name of a known task"
                " whose labels and prompts fit (one of the two)."
            )
        if self.task is None:
            return written_config(self.labels, self.text_is)
        if self.text_is != "text":
            raise UsageError(f"--text-is goes with --labels: {self.task} has prompts of its own; leave it out.")
        config = load_config(self.task)
        if "codes" in config["metadata"]:
            raise UsageError(
                f"{self.task} replaces labels by secret codes, which is for benchmarks; use its base task."
            )
        return config

    def spec(self) -> SourceSpec:
        """How a row becomes a record."""
        config = self.config()
        own = source_spec(config)
        local = dict(own.local)
        if "reader" in local and (self.text_field or self.label_field):
            raise UsageError(f"{self.task} reads its records in a way of its own; leave the names of fields out.")
        fields = {"text": self.text_field, "label": self.label_field}
        local |= {name: field for name, field in fields.items() if field is not None}
        return SourceSpec(own.name, own.labels, local, {}, {}, {}, own.max_words, own.line_separator)


def load_own(
    own: OwnTask, data: Path, sizes: Mapping[str, int] | None, secure: bool, public: Path | None = None
) -> Task:
    """The task with the records of a file, all of them private.

    sizes: declared n of every class ('' for a task without classes); None: they are counted. public: a file of records
    that everybody may know, for tasks whose mechanisms need some.
    Raises UsageError for what does not fit, DataError for a file that is not there or has not the fields, Concealed for
    records that cannot be read with secure noise.
    """
    config, spec = own.config(), own.spec()
    known = _records(spec, public) if public is not None else []
    if config["metadata"]["data"].get("public") and public is None:
        raise UsageError(
            f"Mechanisms on {config['metadata']['name']} use records that everybody knows, and those of --data are"
            " private; give --public FILE with such records."
        )
    _check_there(spec, data)
    records = concealed(secure, lambda: _records(spec, data), _UNREADABLE)
    return Task.of_records(config, records, sizes, known)


def declared_sizes(given: Sequence[tuple[str | None, int]], config: Mapping[str, Any]) -> dict[str, int] | None:
    """n of every class ('' without classes), from one number for all or a number for each label; None for none given.

    Raises UsageError for numbers that do not fit the labels.
    """
    labels = classes(config)
    if not given:
        return None
    if len(given) == 1 and given[0][0] is None:
        return dict.fromkeys(labels or [""], given[0][1])
    named = {label: number for label, number in given if label is not None}
    if set(named) != set(labels) or len(named) < len(given):
        form = (
            f"--size N for all classes, or {' '.join(f'--size {label}=N' for label in labels)}"
            if labels
            else "--size N"
        )
        raise UsageError(f"The declared sizes do not fit the labels; write {form}.")
    return {label: named[label] for label in labels}


def queries_of(path: Path, field: str) -> list[Query]:
    """The queries of a file, in order: JSONL or a table with this field (and `id`, if it has one), or a text file with
    one a line. Raises DataError."""
    if path.suffix.lower() in (".txt", ".text"):
        lines = [" ".join(line.split()) for line in _text(path).splitlines()]
        rows: list[dict[str, Any]] = [{field: line} for line in lines if line]
    else:
        rows = rows_of(path)
    queries = []
    for number, row in enumerate(rows, start=1):
        text, name = row.get(field), row.get("id", number)
        if not isinstance(text, str) or not text.strip() or isinstance(name, bool) or not isinstance(name, str | int):
            raise DataError(
                f"Query {number} of {path} has no text in the field '{field}', or an `id` that is neither text nor"
                " number; repair it, or name the field with --text-field."
            )
        queries.append(Query(str(name).encode("utf-8", "replace").decode(), " ".join(_clean(text).split())))
    if not queries:
        raise DataError(f"{path} holds no query; write one a line.")
    if len({query.id for query in queries}) < len(queries):
        raise DataError(f"Two queries of {path} have one `id`; give each its own, or none.")
    return queries


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a CSV, TSV or JSONL file. Raises DataError with the line, never with its content."""
    if path.suffix.lower() in TABLES:
        return _table(path)
    rows = []
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json_text.loads(line, sources.LONGEST_LINE, plain=False)
        except ValueError as error:
            raise DataError(f"{path} line {number} is not a JSON object: {error}; repair or remove it.") from None
        if not isinstance(row, dict):
            raise DataError(f"{path} line {number} is not a JSON object; repair or remove it.")
        rows.append(row)
    return rows


def written_config(labels: Sequence[str], text_is: str) -> Mapping[str, Any]:
    """The task file of a classification with these labels. Raises UsageError for words that no prompt can hold."""
    for label in labels:
        if not label or label != " ".join(label.split()) or len(label) > 200:
            raise UsageError(f"The label '{label[:60]}' must be words in one line, with single spaces.")
    if len(labels) < 2 or len(set(labels)) < len(labels):
        raise UsageError("A classification needs at least two labels, each of them once.")
    if not re.fullmatch(r"[^\W_](?:[\w '-]{0,58}\w)?", text_is):
        raise UsageError(f"--text-is '{text_is[:60]}' must be a word or a few, such as 'support ticket'.")
    listed = f"{', '.join(labels[:-1])} or {labels[-1]}"
    title = text_is[0].upper() + text_is[1:]
    return {
        "task": f"dpicl_{NAME}",
        "output_type": "multiple_choice",
        "description": f"Classify each {text_is} as {listed}.\n\n",
        "doc_to_text": f"{title}: {{{{text}}}}\nCategory:",
        "doc_to_target": "gold",
        "doc_to_choice": list(labels),
        "target_delimiter": " ",
        "fewshot_delimiter": "\n\n",
        "metadata": {
            "version": 1,
            "name": NAME,
            "kind": "classification",
            "main_metric": "acc_calibrated",
            "prompts": {
                "stop": ["\n", " END"],
                "completion": {
                    "instruction": f"Given a category, write one {text_is} of it.\n\n",
                    "example": f'Category: "{{label}}"\n{title}: "{{text}} END"\n',
                    "separator": "",
                    "open": f'Category: "{{label}}"\n{title}: "',
                },
                "chat": {
                    "example": "{text}",
                    "separator": "\n\n",
                    "public": f"Generate only one {text_is} of the category {{label}}.",
                    "public_prefix": f"{title}:",
                    "private": f"Examples of the category {{label}}, each one {text_is}.\n\n{{examples}}\n\n"
                    "Please give me another one.",
                    "private_prefix": f"{title}:",
                },
            },
            "data": {"local": {"text": "text", "label": "label"}, "hub": {}, "synthetic": {}},
        },
    }


def _records(spec: SourceSpec, path: Path) -> list[Record]:
    return [sources.record_of(spec, row, f"{path} row {number}") for number, row in enumerate(rows_of(path), start=1)]


def _check_there(spec: SourceSpec, path: Path) -> None:
    """Raises DataError where the file is missing, or a table has not the columns: their names are no secret."""
    if not path.is_file():
        raise DataError(f"There is no file {path}; give a CSV, TSV or JSONL file with --data.")
    if path.suffix.lower() not in TABLES or "reader" in spec.local:
        return
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        columns = next(csv.reader(file, delimiter=_delimiter(path)), [])
    for field, flag in ((spec.local["text"], "--text-field"), (spec.local["label"], "--label-field")):
        if field not in columns:
            raise DataError(
                f"{path} has no column '{field}' but {', '.join(repr(name[:40]) for name in columns[:20])}; name the"
                f" one that is meant with {flag}."
            )


def _table(path: Path) -> list[dict[str, Any]]:
    csv.field_size_limit(_LONGEST_CELL)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, delimiter=_delimiter(path), strict=True)
            rows: list[dict[str, Any]] = [dict(row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as a table in UTF-8 ({type(error).__name__}); repair it.") from None
    return rows


def _delimiter(path: Path) -> str:
    return "\t" if path.suffix.lower() == ".tsv" else ","


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as text in UTF-8 ({type(error).__name__}); repair it.") from None


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
