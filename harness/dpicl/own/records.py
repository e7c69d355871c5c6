"""Builds a task from a user's own records, with labels from the command line or from a known task.

What a label is called, what a text is, how many records there are: these words and numbers are public, and the user
says them. With secure noise a record that cannot be read is one fixed sentence, whatever is wrong with it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

from yaml.reader import Reader

from dpicl.core.errors import DataError, UsageError
from dpicl.core.strict_yaml import parse
from dpicl.core.vocabulary import Query, Record
from dpicl.data.concealed import conceal
from dpicl.data.config import load_config
from dpicl.data.reading import read_records
from dpicl.data.tables import Table, UnreadableContent, fields_of, open_table, require_file
from dpicl.data.task import Task
from dpicl.data.task_file import LocalKeys, SourceSpec, TaskFile

#: Characters of all labels together, which the instruction lists.
_LONGEST_LIST = 15_000


@dataclass(frozen=True)
class OwnRecords:
    """What is public of them. labels: as a file has it -> label word, in public order; or task: the name of a known
    task. text_field, label_field: of a row (None: as the task's file says, else those with a usual name). text_is: what
    a text is, in a word or two."""

    labels: Mapping[str, str] = field(default_factory=dict)
    task: str | None = None
    text_field: str | None = None
    label_field: str | None = None
    text_is: str = "text"

    def config(self) -> TaskFile:
        """Their task file. Raises UsageError for words that do not fit."""
        if (self.task is None) is (not self.labels):
            raise UsageError(
                "Say what the labels are: --labels billing,technical,refund; or --task T, the name of a known task"
                " whose labels and prompts fit (one of the two)."
            )
        if self.task is None:
            return make_config(list(dict.fromkeys(self.labels.values())), self.text_is)
        if self.text_is != "text":
            raise UsageError(f"--text-is goes with --labels: {self.task} has prompts of its own; leave it out.")
        config = load_config(self.task)
        if config.metadata.codes:
            raise UsageError(f"{self.task} has secret codes for labels, which is for benchmarks; use its base task.")
        return config

    def spec(self, path: Table) -> SourceSpec:
        """How a row of a file becomes a record. Raises DataError for a file that is no table or has not the fields."""
        own = self.config().source
        local = own.local
        if local.reader:
            if self.text_field or self.label_field:
                raise UsageError(f"{self.task} reads its records in a way of its own; leave the names of fields out.")
        elif local.missing:
            raise DataError(f"{self.task} has no records of a file: {local.missing} Choose another task, or --labels.")
        elif self.task is None:
            text, label = fields_of(path, self.text_field, self.label_field)
            local = LocalKeys(text=text, label=label, labels=dict(self.labels))
        else:
            given = {"text": self.text_field or local.text, "label": self.label_field or local.label}
            local = local.model_copy(update=given)
        open_table(path, local.fields)
        return own.model_copy(update={"local": local})


def load_own(
    own: OwnRecords, data: Table, sizes: Mapping[str, int] | None, secure: bool, public: Table | None = None
) -> Task:
    """The task with the records of a file, all of them private.

    sizes: declared n of every class ('' for a task without classes); None: they are counted. public: a file of records
    that everybody may know, for tasks whose mechanisms need some.
    Raises UsageError for what does not fit, DataError for a file that is not there or has not the fields, Concealed for
    records that cannot be read with secure noise.
    """
    config = own.config()
    if config.data.public and public is None:
        raise UsageError(
            f"Mechanisms on {config.metadata.name} use records that everybody knows, and those of --data are"
            " private; give --public FILE with such records."
        )
    known = [] if public is None else read_public(public, own)
    unreadable = _explain_unreadable(data)
    try:
        spec = own.spec(data)
    except UnreadableContent:
        with conceal(secure, unreadable):
            raise
    with conceal(secure, unreadable):
        records = read_records(data, spec).check()
    if not records:
        said = f"; `dpicl data {data}` says more" if isinstance(data, Path) else ""
        raise DataError(f"{data} holds no record, so there is nothing to release from{said}.")
    return Task.from_records(config, records, sizes, known)


def _explain_unreadable(data: Table) -> str:
    """What is said with secure noise of records that cannot be read; nothing in it comes from a record."""
    way = "--noise seeded names the row"
    if isinstance(data, Path):
        way = f"`{shlex.join(['dpicl', 'data', str(data)])}` with the same labels and fields names the line"
    return (
        "The private records cannot be read: one of them has no text, has a label that is none of those given, or is"
        " neither UTF-8 nor what the file should hold. With secure noise nothing more is said, since it may tell about"
        f" one of them; {way}, where nobody else reads the screen."
    )


def read_public(data: Table, own: OwnRecords) -> list[Record]:
    """Records that everybody may know. Raises DataError, with the line, for one that cannot be read."""
    return read_records(data, own.spec(data)).check()


def queries_of(path: Path, own: OwnRecords) -> list[Query]:
    """The queries of a file, in order: a text file with one a line, or a table with the field of texts (and `id`, if it
    has one that is not null). Raises DataError."""
    name = own.text_field or ("" if own.task is None else own.config().data.local.text) or "text"
    if path.suffix.lower() == ".txt":
        rows: list[tuple[int, Mapping[str, Any]]] = list(enumerate(({name: line} for line in _lines(path)), start=1))
    else:
        table = open_table(path)
        rows = [(row.number, {} if row.fault else row.values) for row in table.rows]
    queries = []
    for at, (number, row) in enumerate(rows, start=1):
        text, key = row.get(name), row.get("id")
        key = at if key is None else key
        if not isinstance(text, str) or not text.strip() or isinstance(key, bool) or not isinstance(key, str | int):
            raise DataError(
                f"{path} line {number} has no text in the field '{name}', or an `id` that is neither text nor number;"
                " repair it, or name the field with --text-field."
            )
        queries.append(query_of(str(key), text))
    if not queries:
        raise DataError(f"{path} holds no query; write one a line.")
    if len({query.id for query in queries}) < len(queries):
        raise DataError(f"Two queries of {path} have one `id`; give each its own, or none.")
    return queries


def query_of(name: str, text: str) -> Query:
    """A query in one line, of characters that every tokenizer accepts."""
    return Query(*(" ".join(part.encode("utf-8", "replace").decode().split()) for part in (name, text)))


def make_config(labels: Sequence[str], text_is: str) -> TaskFile:
    """The task file of a classification with these labels. Raises UsageError for words that no prompt can hold."""
    for label in labels:
        unreadable = Reader.NON_PRINTABLE.search(label)
        if not label or label != " ".join(label.split()) or len(label) > 200 or unreadable:
            raise UsageError(f"The label '{label[:60]}' must be words in one line, with single spaces.")
    if not 2 <= len(labels) <= 1000 or len(set(labels)) < len(labels):
        raise UsageError("A classification needs at least two labels, at most 1,000, each of them once.")
    if not re.fullmatch(r"[^\W_](?:[\w '-]{0,58}\w)?", text_is):
        raise UsageError(f"--text-is '{text_is[:60]}' must be a word or a few, such as 'support ticket'.")
    listed = f"{', '.join(labels[:-1])} or {labels[-1]}"
    if len(listed) > _LONGEST_LIST:
        raise UsageError(
            f"The labels have {len(listed):,} characters together, and an instruction lists them; give at most"
            f" {_LONGEST_LIST:,}."
        )
    words = {"listed": listed, "text_is": text_is, "title": text_is[0].upper() + text_is[1:]}
    quoted = {name: json.dumps(said, ensure_ascii=False)[1:-1] for name, said in words.items()}  # as in YAML's quotes
    template = Path(__file__).with_name("task.yaml.txt")
    written = parse(Template(template.read_text("utf-8")).substitute(quoted), template, functions=True).data
    return TaskFile.model_validate({**written, "doc_to_choice": list(labels)})


def _lines(path: Path) -> list[str]:
    try:
        require_file(path, "queries")
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); give a file with queries.") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8; save it as UTF-8.") from None
    return [line for line in lines if line.strip()]
