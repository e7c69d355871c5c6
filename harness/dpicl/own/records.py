"""Builds a task from a user's own records, with labels from the command line or from a known task.

What a label is called, what a text is, how many records there are: these words and numbers are public, and the user
says them. With secure noise a record that cannot be read is one fixed sentence, whatever is wrong with it.
"""

from __future__ import annotations

import filecmp
import io
import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from string import Template
from typing import Any
from unicodedata import normalize

from yaml.reader import Reader

from dpicl.core.decoding import (
    PACKED,
    PLAIN,
    FileFormat,
    UnreadableContent,
    describe_escaped,
    is_escaped,
    read_text,
    unpack,
)
from dpicl.core.errors import DataError, UsageError
from dpicl.core.strict_yaml import parse
from dpicl.core.vocabulary import Query, Record
from dpicl.data.concealed import conceal
from dpicl.data.config import load_config
from dpicl.data.free_texts import Form, write_dialogue, write_pair
from dpicl.data.persons import keep_rows, personal_columns
from dpicl.data.reading import FileRecords, read_records
from dpicl.data.tables import (
    BLANK,
    NO_QUOTING,
    FileRow,
    Table,
    fields_of,
    open_table,
    require_file,
    text_field_of,
)
from dpicl.data.task import Task
from dpicl.data.task_file import LocalKeys, SourceSpec, TaskFile
from dpicl.own.private_ledger import machine_key

#: Chooses the rows of a person where nothing is private.
_SEEDED_KEY = b"seeded"
#: How a prompt without records asks for texts of a form, and a public example of one.
_FORMS: Mapping[str, tuple[str, str]] = {
    "pairs": (
        " with its output, as INPUT / Output: OUTPUT",
        write_pair("What time is it?", "It is noon."),
    ),
    "dialogues": (
        " as User: TEXT / Assistant: TEXT",
        write_dialogue(
            [
                {"role": "user", "content": "What time is it?"},
                {"role": "assistant", "content": "It is noon."},
            ]
        ),
    ),
}
#: Characters of all labels together, which the instruction lists.
_LONGEST_LIST = 15_000


@dataclass(frozen=True)
class OwnRecords:
    """What is public of them. labels: as a file has it -> label word, in public order; or task: the name of a known
    task. text_field, label_field: of a row (None: as the task's file says, else those with a usual name). text_is: what
    a text is, in a word or two. format: how the files are written. person_field: the field that says whose a row is;
    None: the guarantee is for a record. rows_per_person: of which at most so many are used. per_record: whether it was
    said that the guarantee is for a record, whoever it is of. form: whether texts have labels, and what they are where
    they have none. output_field: of what belongs to a text, of pairs. skip_invalid, skip_other_labels: see
    `LocalKeys`."""

    labels: Mapping[str, str] = field(default_factory=dict)
    task: str | None = None
    text_field: str | None = None
    label_field: str | None = None
    text_is: str = "text"
    format: FileFormat = PLAIN
    person_field: str | None = None
    rows_per_person: int = 1
    per_record: bool = False
    form: Form = "labelled"
    output_field: str | None = None
    skip_invalid: bool = False
    skip_other_labels: bool = False

    def require_one_unit(self) -> None:
        """Raises UsageError where it is not clear whom the guarantee is for."""
        if self.person_field and self.per_record:
            raise UsageError(
                "--person-field protects a person and --per-record a single record; give one of the two."
            )
        if self.rows_per_person != 1 and not self.person_field:
            raise UsageError(
                "--rows-per-person needs --person-field NAME, the column that says whose a row is."
            )

    @property
    def reading_notes(self) -> list[str]:
        """Sentences about rows that are not used: what was chosen, and nothing that follows from the rows."""
        if self.skip_invalid:
            what = "not sound or of other labels"
        elif self.skip_other_labels:
            what = "of other labels"
        else:
            return []
        return [
            f"Rows that are {what} were left out, each for what stands in it alone, so the guarantee is the same; how"
            " many is not said here, since it may tell about one of them (`dpicl data FILE` says it to you)."
        ]

    def config(self) -> TaskFile:
        """Their task file. Raises UsageError for words that do not fit."""
        if self.form != "labelled":
            if self.task is not None or self.labels or self.label_field:
                raise UsageError(
                    "Texts without labels (--no-labels, --output-field, --dialogues) have no --labels, --label-field or"
                    " --task; give one or the other."
                )
            return make_text_config(self.text_is, self.form)
        if (self.task is None) is (not self.labels):
            raise UsageError(
                "Say what the labels are: --labels billing,technical,refund; or --task T, the name of a known task"
                " whose labels and prompts fit (one of the two). Texts without labels: --no-labels."
            )
        if self.task is None:
            return make_config(list(dict.fromkeys(self.labels.values())), self.text_is)
        if self.text_is != "text":
            raise UsageError(
                f"--text-is goes with --labels: {self.task} has prompts of its own; leave it out."
            )
        config = load_config(self.task)
        if config.metadata.codes:
            raise UsageError(
                f"{self.task} has secret codes for labels, which is for benchmarks; use its base task."
            )
        return config

    def spec(self, path: Table) -> SourceSpec:
        """How a row of a file becomes a record. Raises DataError for a file that is no table or has not the fields."""
        source = self.config().source
        local = source.local
        if local.reader:
            if self.text_field or self.label_field:
                raise UsageError(
                    f"{self.task} reads its records in a way of its own; leave the names of fields out."
                )
        elif local.missing:
            raise DataError(
                f"{self.task} has no records of a file: {local.missing} Choose another task, or --labels."
            )
        elif self.form != "labelled":
            text = text_field_of(path, self.text_field, self.format, self.form == "dialogues")
            output, dialogues = self.output_field or "", self.form == "dialogues"
            local = local.model_copy(
                update={"text": text, "output": output, "dialogues": dialogues}
            )
        elif self.task is None:
            text, label = fields_of(path, self.text_field, self.label_field, self.format)
            local = LocalKeys(text=text, label=label, labels=dict(self.labels))
        else:
            fields = {
                "text": self.text_field or local.text,
                "label": self.label_field or local.label,
            }
            local = local.model_copy(update=fields)
        if self.person_field in local.fields:
            raise UsageError(
                f"--person-field names '{self.person_field}', which holds the text or the label."
            )
        changes = {
            "skip_invalid": self.skip_invalid or local.skip_invalid,
            "skip_other_labels": self.skip_other_labels or local.skip_other_labels,
            "person": self.person_field or "",
            **self.format.changes,
        }
        local = local.model_copy(update=changes)
        open_table(path, local.columns, local.format)
        return source.model_copy(update={"local": local})


@dataclass(frozen=True)
class LoadedRecords:
    """read: all records of the file, used or not. persons: whose they are, as `person_key` has it; empty where no
    field was named."""

    task: Task
    read: Sequence[Record] = field(repr=False)
    persons: frozenset[str] = field(default=frozenset(), repr=False)


def load_own(
    described: OwnRecords,
    data: Table,
    sizes: Mapping[str, int] | None,
    secure: bool,
    public: Table | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> LoadedRecords:
    """The task with the records of a file, all of them private; of each person those that `keep_rows` keeps.

    sizes: declared n of every class ('' for a task without classes); None: they are counted. public: a file of records
    that everybody may know, for tasks whose mechanisms need some. tell: takes a note about how a file was read; with
    secure noise there is none about private records.
    Raises UsageError for what does not fit, DataError for a file that is not there or has not the fields, Concealed for
    records that cannot be read with secure noise.
    """
    config = described.config()
    if config.data.public and public is None:
        raise UsageError(
            f"Mechanisms on {config.metadata.name} use records that everybody knows, and those of --data are"
            " private; give --public FILE with such records."
        )
    known = [] if public is None else read_public(public, described, tell)
    unreadable = _explain_unreadable(data)
    try:
        spec = described.spec(data)
    except UnreadableContent:
        with conceal(secure, unreadable):
            raise
    with conceal(secure, unreadable):
        reading = read_records(data, spec)
    if secure and not described.person_field and not described.per_record:
        _refuse_undecided(reading, spec.local.fields)
    with conceal(secure, unreadable):
        records = reading.check()
    if not secure:
        _tell_notes(reading, tell)
    if not records:
        hint = f"; `dpicl data {data}` says more" if isinstance(data, Path) else ""
        raise DataError(f"{data} holds no record, so there is nothing to release from{hint}.")
    used = records
    if described.person_field:
        key = machine_key() if secure else _SEEDED_KEY
        used = keep_rows(records, reading.persons, described.rows_per_person, key)
    task = Task.from_records(config, used, sizes, known, keep_repeated=bool(described.person_field))
    return LoadedRecords(task, records, frozenset(reading.persons))


def _refuse_undecided(reading: FileRecords, known: Sequence[str]) -> None:
    """Raises UsageError where nobody said whom the guarantee is for, and a column looks like a person, or no row may
    decide which columns there are. known: columns of the text and the label."""
    if known and reading.columns_by_row and (reading.records or reading.faults):
        raise UsageError(
            f"The columns of {reading.path} have no names, or each row has its own, so whether one says whose a row is"
            " cannot be told without looking at the rows; give --person-field NAME, which protects a person by"
            " using one row of each, or --per-record, which protects single rows and nobody who has many."
        )
    columns = personal_columns(reading.columns, known)
    if columns:
        raise UsageError(
            f"The column '{columns[0]}' looks as if it says whose a row is; give --person-field"
            f" {shlex.quote(columns[0])}, which protects a person by using one row of each (--rows-per-person K: at"
            " most K), or --per-record, which protects single rows and nobody who has many. `dpicl data FILE` says"
            " how many rows people have."
        )


def _explain_unreadable(data: Table) -> str:
    """What is said with secure noise of records that cannot be read; nothing in it comes from a record."""
    way = "--noise seeded names the row"
    if isinstance(data, Path):
        way = f"`{shlex.join(['dpicl', 'data', str(data)])}` with the same labels and fields names the line"
    return (
        "The private records cannot be read: one of them has no text, has a label that is none of those given, names no"
        " person where one is to be named, or is neither UTF-8 nor what the file should hold. With secure noise nothing"
        f" more is said, since it may tell about one of them; {way}, where nobody else reads the screen."
    )


def read_public(
    data: Table, described: OwnRecords, tell: Callable[[str], None] = lambda text: None
) -> list[Record]:
    """Records that everybody may know. Raises DataError, with the line, for one that cannot be read."""
    reading = read_records(data, replace(described, person_field=None).spec(data))
    _tell_notes(reading, tell)
    return reading.check()


def _tell_notes(reading: FileRecords, tell: Callable[[str], None]) -> None:
    """How the rows of a file were read; for files whose rows may be counted aloud."""
    for note in (reading.joined_note, reading.skipped_note):
        if note:
            tell(note)


def require_different(tables: Mapping[str, Table | None]) -> None:
    """Raises UsageError where two inputs are one: by path, link, or content as a whole, in
    whatever format and order. tables: flag -> input.

    A set of private records and a public one that differ anywhere pass: whether some records are in both may not be
    told with secure noise. What is told, that all of a file is public by the user's own word, tells of nobody else.
    """
    inputs = [(flag, table) for flag, table in tables.items() if table is not None]
    for (first, one), (second, other) in combinations(inputs, 2):
        if _are_same(one, other):
            private = "private records would be used as public ones"
            twice = "the utility would be measured on records that the mechanism has seen"
            reason = private if first == "--data" else twice
            raise UsageError(
                f"{first} and {second} are the same records, so {reason}; give others with {second}."
            )


def _are_same(one: Table, other: Table) -> bool:
    try:
        if isinstance(one, Path) and isinstance(other, Path):
            if one.samefile(other) or filecmp.cmp(one, other, shallow=False):
                return True
            is_packed = any(path.suffix.lower() in PACKED for path in (one, other))
            if is_packed and unpack(one) == unpack(other):
                return True
        rows = _count_rows(one)
        return bool(rows) and rows == _count_rows(other)
    except (OSError, ValueError, DataError):
        return False  # why it cannot be read is said where it is


def _count_rows(table: Table) -> Counter[frozenset[tuple[str, str]]]:
    """How often a table has each row, whatever format, order and names of types it is written in."""
    rows = [row.values for row in open_table(table).rows]
    return Counter(
        frozenset((name, str(value)) for name, value in row.items() if value is not None)
        for row in rows
    )


def queries_of(
    data: Table, described: OwnRecords, tell: Callable[[str], None] = lambda text: None
) -> list[Query]:
    """The queries of a file, in order: a text file with one a line, or a table with the field of texts (and `id`, if it
    has one that is neither null nor empty). A blank line is a query without text. Raises DataError."""
    of_task = "" if described.task is None else described.config().data.local.text
    name = described.text_field or of_task or "text"
    unit, joined = "line", 0
    if isinstance(data, Path) and data.suffix.lower() == ".txt":
        lines = enumerate(_lines(data, described.format), start=1)
        rows: Iterable[FileRow] = (FileRow(at, {name: line}) for at, line in lines)
    else:
        open_table(data, (name,), described.format)
        table = open_table(data, (), described.format)
        unit, rows = table.unit, table.rows
    queries: list[Query] = []
    for row in rows:
        blank = row.fault == BLANK
        text = "" if blank else row.values.get(name, ...)
        text = "" if text is None else text
        key = row.values.get("id")
        if key is None or key == "" or key != key:
            key = len(queries) + 1
        elif isinstance(key, float) and key.is_integer():
            key = int(key)
        if row.fault and not blank:
            raise DataError(f"{data} {unit} {row.number} {row.fault}; repair it.")
        if not isinstance(text, str) or isinstance(key, bool) or not isinstance(key, str | int):
            raise DataError(
                f"{data} {unit} {row.number} has no text in the field '{name}', or an `id` that is neither text nor"
                " number; repair it, or name the field with --text-field."
            )
        joined += row.joined
        queries.append(query_of(str(key), text))
    if not any(query.text for query in queries):
        raise DataError(f"{data} holds no query; write one a line.")
    if len({query.id for query in queries}) < len(queries):
        raise DataError(f"Two queries of {data} have one `id`; give each its own, or none.")
    if joined:
        tell(f"{data}: {joined} of the queries have line ends in quotation marks; {NO_QUOTING}.")
    return queries


def query_of(name: str, text: str) -> Query:
    """A query in one line, of characters that every tokenizer accepts."""
    return Query(_one_line(name), _one_line(text))


def _one_line(text: str) -> str:
    readable = text.encode("utf-8", "replace").decode()
    return " ".join(readable.split())


def make_config(labels: Sequence[str], text_is: str) -> TaskFile:
    """The task file of a classification with these labels. Raises UsageError for words that no prompt can hold."""
    for label in labels:
        is_line = label and label == " ".join(label.split())
        if not is_line or len(label) > 200 or Reader.NON_PRINTABLE.search(label):
            raise UsageError(
                f"The label '{label[:60]}' must be words in one line, with single spaces."
            )
    different = {normalize("NFC", label) for label in labels}
    if not 2 <= len(labels) <= 1000 or len(different) < len(labels):
        raise UsageError(
            "A classification needs at least two labels, at most 1,000, each of them once."
        )
    listed = f"{', '.join(labels[:-1])} or {labels[-1]}"
    if len(listed) > _LONGEST_LIST:
        raise UsageError(
            f"The labels have {len(listed):,} characters together, and an instruction lists them; give at most"
            f" {_LONGEST_LIST:,}."
        )
    written = _fill("task.yaml.txt", text_is, listed)
    return TaskFile.model_validate({**written, "doc_to_choice": list(labels)})


def make_text_config(text_is: str, form: Form = "plain") -> TaskFile:
    """The task file of texts without labels. Raises UsageError for words that no prompt can hold."""
    return TaskFile.model_validate(_fill("texts.yaml.txt", text_is, "", form))


def _fill(name: str, text_is: str, listed: str, form: Form = "labelled") -> dict[str, Any]:
    """A task file with these words; form: of texts, which a prompt without records shows by a public example."""
    if not re.fullmatch(r"[^\W_](?:[\w '-]{0,58}\w)?", text_is):
        raise UsageError(
            f"--text-is '{text_is[:60]}' must be a word or a few, such as 'support ticket'."
        )
    title = text_is[0].upper() + text_is[1:]
    form_words, example = _FORMS.get(form, ("", ""))
    shown = f"{title}: {example} END\n" if example else ""
    words = {
        "listed": listed,
        "text_is": text_is,
        "title": title,
        "form": form_words,
        "example": shown,
    }
    # as in YAML's quotes
    quoted = {key: json.dumps(word, ensure_ascii=False)[1:-1] for key, word in words.items()}
    template = Path(__file__).with_name(name)
    filled = Template(template.read_text("utf-8")).substitute(quoted)
    return dict(parse(filled, template, functions=True).data)


def _lines(path: Path, format: FileFormat) -> list[str]:
    try:
        require_file(path, "queries")
        text = read_text(path, format)
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror}); give a file with queries."
        ) from None
    lines = io.StringIO(text, newline=None).read().split("\n")  # every line end becomes one
    for number, line in enumerate(lines, start=1):
        if is_escaped(line):
            raise DataError(f"{path} line {number} {describe_escaped(text)}.")
    return lines[:-1] if lines[-1] == "" else lines
