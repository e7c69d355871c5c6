"""Turns the rows of a file into records: finds the fields of text and label, and maps the labels.

What is wrong with rows is collected, with the numbers of all their lines, and never with what stands there.
"""

from __future__ import annotations

import importlib
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID

from dpicl.core.errors import DataError
from dpicl.core.messages import count
from dpicl.core.vocabulary import Record
from dpicl.data.free_texts import write_dialogue, write_pair
from dpicl.data.splits import normalise
from dpicl.data.tables import (
    BLANK,
    JOINS_ROWS,
    NO_QUOTING,
    Table,
    missing_column_error,
    open_table,
    unreadable_error,
)
from dpicl.data.task_file import LocalKeys, SourceSpec


class RowFault(ValueError):
    """What is wrong with one row, as the end of a sentence that begins with its place. alone: whether that follows from
    this row alone, and not from one that takes in others."""

    alone = True


class JoinedRows(RowFault):
    alone = False


class OtherLabel(RowFault):
    pass


class NoPerson(RowFault):
    pass


@dataclass
class FileRecords:
    """The records of a file. unit: what numbers count. numbers: of the lines of the records.

    faults: what is wrong -> the numbers of all lines of which it is. skipped: the same of lines that are left out
    (`LocalKeys.skip_invalid`). nobody: those of both that name no person. joined: numbers of the records with line ends
    in quotation marks. persons: whose each record is, as `person_key` has it; empty where no field was named.
    columns: names of the fields that the file names, or that all of its rows have (columns_by_row).
    """

    path: Table
    unit: str
    records: list[Record] = field(repr=False)
    numbers: list[int] = field(repr=False)
    faults: dict[str, list[int]]
    skipped: dict[str, list[int]] = field(default_factory=dict)
    nobody: list[int] = field(default_factory=list)
    joined: list[int] = field(default_factory=list)
    persons: list[str] = field(default_factory=list, repr=False)
    columns: dict[str, None] = field(default_factory=dict, repr=False)
    columns_by_row: bool = False

    def check(self) -> list[Record]:
        """The records. Raises DataError, in one sentence with the first line and how many more, where one is wrong."""
        if not self.faults:
            return self.records
        fault, numbers = min(self.faults.items(), key=lambda each: each[1][0])
        wrong = sorted(number for each in self.faults.values() for number in each)
        more = f" {len(wrong)} {self.unit}s are wrong: {ranges(wrong)}." if len(wrong) > 1 else ""
        raise DataError(f"{self.path} {self.unit} {numbers[0]} {fault}; repair or remove it.{more}")

    def add_fault(self, number: int, fault: RowFault, skip: bool) -> None:
        """skip: whether the row may be left out."""
        message = str(fault)
        if skip and not fault.alone:
            message += "; it cannot be left out, since it may hold other rows"
        place = self.skipped if skip and fault.alone else self.faults
        place.setdefault(message, []).append(number)
        if isinstance(fault, NoPerson):
            self.nobody.append(number)

    @property
    def skipped_note(self) -> str:
        """A sentence where rows were left out; else ''."""
        if not self.skipped:
            return ""
        numbers = sorted(number for each in self.skipped.values() for number in each)
        return (
            f"{self.path}: {count(len(numbers), 'row')} left out ({self.unit} {ranges(numbers)})."
        )

    @property
    def joined_note(self) -> str:
        """A sentence where quotation marks join lines of the file; else ''."""
        if not self.joined:
            return ""
        texts = count(len(self.joined), "record")
        where = f"{self.unit} {ranges(self.joined)}"
        return f"{self.path}: {texts} with line ends in quotation marks ({where}); {NO_QUOTING}."


def ranges(numbers: Sequence[int], most: int | None = 8) -> str:
    """'1–4, 7, 9 and 12 more' of ascending numbers. most: parts that are shown; None: all."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    shown = [str(low) if low == high else f"{low}–{high}" for low, high in parts[:most]]
    left = sum(high - low + 1 for low, high in parts[len(shown) :])
    return ", ".join(shown) + (f" and {left} more" if left else "")


def read_records(path: Table, spec: SourceSpec) -> FileRecords:
    """The records of a file, as `spec.local` says which fields they have.

    Raises DataError, in one sentence without a word of a record, for what is
    no table or lacks a field in all of its rows.
    """
    local = spec.local
    fields, person = local.fields, local.person
    reader = function_of(local.reader, f"The reader of task {spec.name}") if not fields else None
    table = open_table(path, local.columns, local.format)
    words = _label_words(spec)
    reading = FileRecords(
        path,
        table.unit,
        [],
        [],
        {},
        columns=dict.fromkeys(table.columns),
        columns_by_row=not table.columns,
    )
    keys: list[str] = []
    try:
        for row in table.rows:
            if row.fault == BLANK:
                continue
            if not table.columns and row.values:
                shared = reading.columns if keys else row.values
                reading.columns = {name: None for name in shared if name in row.values}
            keys = keys or list(row.values)
            try:
                if row.fault:
                    raise RowFault(row.fault) if row.alone else JoinedRows(row.fault)
                if reader is not None:
                    text, label = _text_by(reader, dict(row.values)), local.label
                elif not local.labelled:
                    text, label = _free_text(row.values, local), local.label
                else:
                    text, label = _text_and_label(row.values, fields, words, table.names)
                    if row.joined and _joins_rows(row.values, fields, words, table.mark):
                        raise JoinedRows(JOINS_ROWS)
                record = normal_record(spec, text, label)
                if person:
                    reading.persons.append(person_key(row.values, person))
                reading.records.append(record)
                reading.numbers.append(row.number)
                if row.joined:
                    reading.joined.append(row.number)
            except RowFault as fault:
                skip = local.skip_invalid or (
                    local.skip_other_labels and isinstance(fault, OtherLabel)
                )
                reading.add_fault(row.number, fault, skip)
    except OSError as error:
        raise unreadable_error(path, error) from error
    columns = (*fields, person) if person else fields
    wrong = reading.faults.keys() | reading.skipped.keys()
    if keys and not reading.records and wrong <= {_name_missing(name) for name in columns}:
        for name in columns:
            if name not in keys:
                raise missing_column_error(path, [name], keys)
    return reading


def _name_missing(name: str) -> str:
    return f"lacks the field '{name}'"


def person_key(values: Mapping[str, Any], name: str) -> str:
    """Whose a row is: the letters and digits of the field, so that two spellings of a name are one person.

    Two people who differ in nothing else are one as well, which keeps fewer rows and protects both.
    Raises RowFault where nobody is named.
    """
    if name not in values:
        raise NoPerson(_name_missing(name))
    value = values[name]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int | Decimal | UUID) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not any(map(str.isalnum, value)):
        raise NoPerson(f"names nobody as its '{name}'")
    if len(value.splitlines()) > 1:
        raise JoinedRows(JOINS_ROWS)
    return normalise(re.sub(r"^(\d+)\.0+$", r"\1", value.strip()))


def _text_and_label(
    values: Mapping[str, Any],
    fields: Sequence[str],
    words: Mapping[str, str],
    names: Mapping[str, Sequence[str]],
) -> tuple[str, str]:
    """The text and the label word of a row. names: column -> the class names that numbers stand for in this file."""
    for name in fields:
        if name not in values:
            raise RowFault(_name_missing(name))
        if values[name] is None:
            raise RowFault(f"has nothing as its '{name}'")
    text, label = (values[name] for name in fields)
    if not isinstance(text, str):
        raise RowFault(f"has no text as its '{fields[0]}'")
    match label:
        case str():
            written = label
        case bool():
            written = str(label).lower()
        case int():
            written = str(label)
        case float() if label.is_integer():
            written = str(int(label))
        case _:
            raise RowFault(f"has neither a word nor a whole number as its '{fields[1]}'")
    classes = names.get(fields[1], ())
    if written not in words and isinstance(label, int) and 0 <= label < len(classes):
        written = classes[label]
    return text, words.get(written, words.get(_normalise(written), written))


def _free_text(values: Mapping[str, Any], local: LocalKeys) -> str:
    """The text of a row without a label."""
    for name in local.fields:
        if name not in values:
            raise RowFault(_name_missing(name))
    text = values[local.text]
    try:
        if local.form == "dialogues":
            return write_dialogue(text)
        if not isinstance(text, str):
            raise RowFault(f"has no text as its '{local.text}'")
        if local.form == "plain":
            return text
        if not isinstance(values[local.output], str):
            raise RowFault(f"has no text as its '{local.output}'")
        return write_pair(text, values[local.output])
    except RowFault:
        raise
    except ValueError as error:
        raise RowFault(str(error)) from None


def _joins_rows(
    values: Mapping[str, str],
    fields: Sequence[str],
    words: Mapping[str, str],
    mark: str,
) -> bool:
    """Whether a line of the text has a known label where a row has its own: the end of one that a quotation mark opens,
    or the beginning of one that it closes; or a line of another cell has one anywhere."""
    for name, value in values.items():
        if name in fields or not isinstance(value, str) or not value.splitlines()[1:]:
            continue
        joined = [line.split(mark) for line in value.splitlines()]
        if any(len(cells) > 1 and any(cell in words for cell in cells) for cells in joined):
            return True
    text, label = (list(values).index(name) for name in fields)
    place = label if label < text else label - len(values)
    lines = [line.split(mark) for line in values[fields[0]].splitlines()]
    reach = label + 1 if label < text else -place
    return any(len(cells) > reach and cells[place] in words for cells in lines)


def _label_words(spec: SourceSpec) -> dict[str, str]:
    """A label as written in the file -> label word."""
    words = {word: word for word in spec.labels} | spec.local.labels
    return {_normalise(key): word for key, word in words.items()} | words


def _text_by(
    reader: Callable[[dict[str, Any]], str],
    values: dict[str, Any],
) -> str:
    """The text of a row by the task's own reader, whose exceptions may quote the row unless it means them for us."""
    try:
        text = reader(values)
    except ValueError as error:
        raise RowFault(str(error)) from None
    except Exception as error:
        raise RowFault(f"ended the task's reader ({type(error).__name__})") from None
    if not isinstance(text, str):
        raise RowFault("gave no text in the task's reader")
    return text


def _normalise(label: str) -> str:
    """A label as texts of numbers and truth values are compared: '1.0' is 1, 'True' is true; an accent may be a
    character of its own."""
    number = re.sub(r"^(-?\d+)\.0+$", r"\1", unicodedata.normalize("NFC", label.strip()))
    return number.lower() if number.lower() in ("true", "false") else number


def normal_record(spec: SourceSpec, text: str, label: str) -> Record:
    """One line of text with single spaces, and of label: prompts and demonstrations are made of lines.

    Characters that no tokenizer accepts (halves of surrogate pairs) become '?', so that no text makes a run fail.
    Raises RowFault for an empty text or label, and for a label that is none of the task's.
    """
    lines = [" ".join(line.split()) for line in text.splitlines()]
    text = _first_words(
        spec.line_separator.join(line for line in lines if line), spec.max_words.get("text")
    )
    label = _first_words(label, spec.max_words.get("label"))
    text, label = (part.encode("utf-8", "replace").decode() for part in (text, label))
    if not text or not label:
        raise RowFault("has an empty text or label")
    if spec.labels and label not in spec.labels:
        known = list(dict.fromkeys([*spec.local.labels, *spec.labels]))
        shown = ", ".join(known[:20]) + (f" and {len(known) - 20} more" if len(known) > 20 else "")
        raise OtherLabel(f"has an unknown label (known: {shown}; `labels` maps others)")
    return Record(text, label)


def _first_words(text: str, most: int | None) -> str:
    """The first so many words (None: all), with single spaces between them."""
    return " ".join(text.split()[:most])


def function_of(name: str, what: str) -> Any:
    """The function of a dotted name. Raises DataError where there is none; what: the subject of that sentence."""
    module, _, function = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError, SyntaxError) as error:
        raise DataError(
            f"{what}, {name}, cannot be loaded ({type(error).__name__}: {error})."
        ) from error
