"""Reads the rows of a user's table: JSON Lines, JSON, CSV, Excel or Parquet, or what a program holds.

Lines are numbered by `csv` and `json`, since pandas names no line. Rows may be private: no error holds a value of a
row, and names of columns are shown only where they look like names, since the first line of a file may be a record.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from dpicl.core import json_text
from dpicl.core.errors import DataError, UsageError
from dpicl.core.files import content_of
from dpicl.core.messages import count

_LINES, _TABLES = (".jsonl", ".ndjson"), (".csv", ".tsv")
#: Endings of the files that are read.
SUFFIXES = (*_LINES, ".json", *_TABLES, ".parquet", ".xlsx")
#: Characters of a row; bytes of a file, of Parquet when it is unpacked.
LONGEST_LINE, _LARGEST = 10_000_000, 2_000_000_000
#: Rows whose fields are looked at for those of text and label.
_FIRST_ROWS = 20
#: Usual names of the field with the text and of that with the label, the most usual first.
_TEXTS = "text sentence content body message question query document dialogue utterance input prompt review description"
_LABELS = "label labels category class intent topic target sentiment rating type tag queue department output answer"
_USUAL = (_TEXTS.split(), _LABELS.split())
#: The first line of a CSV file is taken for a line of names where it holds one of these.
_COMMON = {*_USUAL[0], *_USUAL[1], "id", "idx", "index", "name", "date", "title", "subject", "summary", "score"}


@dataclass(frozen=True, eq=False)
class Rows:
    """name: what messages call them. names: column -> the class names that its numbers stand for."""

    name: str
    rows: Sequence[Mapping[str, Any]] = field(repr=False)
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    suffix: str = ""
    stem: str = "records"

    def __str__(self) -> str:
        return self.name


#: A file, or rows in memory.
Table = Path | Rows


class UnreadableContent(DataError):
    """A file that cannot be read for what stands somewhere in it, which may be one record; the message says where."""


@dataclass(frozen=True)
class FileRow:
    """number: of its line, from 1 (its place where the file has no lines). fault: what is wrong with it, or ""."""

    number: int
    values: Mapping[str, Any]
    fault: str = ""


@dataclass(frozen=True)
class FileTable:
    """unit: what numbers count, 'line' or 'record'. names: column -> the class names that its numbers stand for."""

    unit: str
    rows: Iterator[FileRow]
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)


def open_table(path: Table, columns: Sequence[str] = ()) -> FileTable:
    """The rows of a file. columns: those that are read, which a table must have; (): all of them.

    Raises DataError, in one sentence, for what is no table.
    """
    if isinstance(path, Rows):
        return FileTable("row", (FileRow(number, row) for number, row in enumerate(path.rows, start=1)), path.names)
    require_file(path, "records")
    kind = path.suffix.lower()
    try:
        if path.stat().st_size > _LARGEST:
            raise DataError(f"{path} has more than {_LARGEST:,} bytes; divide it.")
        if kind not in SUFFIXES:
            raise DataError(f"{path} must end in {', '.join(SUFFIXES)}.")
        if kind == ".parquet":
            return _parquet(path, columns)
        if kind == ".xlsx":
            return _excel(path, columns)
        text = _text(path)
    except OSError as error:
        raise unreadable_error(path, error) from error
    if text.startswith(("version https://git-lfs", "<!DOCTYPE", "<html")):
        raise DataError(f"{path} is a Git LFS pointer or a web page and holds no record; fetch the file itself.")
    if text.strip() and (text.lstrip()[0] in "{[") is (kind in _TABLES):
        what, ending = ("JSON", ".jsonl") if kind in _TABLES else ("no JSON (CSV?)", ".csv")
        raise DataError(f"{path} holds {what}; give it the ending of what it is, for example {path.stem}{ending}.")
    return _csv(path, text, columns) if kind in _TABLES else _json(path, text)


def as_table(data: Any) -> Table:
    """A path as it is; of a DataFrame, a dataset, or a list of dictionaries or of (text, label) its rows.

    Raises UsageError for what is none of these; no message shows a row.
    """
    if isinstance(data, str | Path):
        return Path(data)
    if hasattr(data, "features") and hasattr(data, "to_list"):
        names = {name: each.names for name, each in data.features.items() if hasattr(each, "names")}
        return Rows("the dataset", data.to_list(), names)
    if hasattr(data, "to_dict") and hasattr(data, "columns"):
        return Rows("the DataFrame", data.to_dict("records"))
    if isinstance(data, Iterable) and not isinstance(data, Mapping):
        rows = [dict(zip(("text", "label"), row, strict=False)) if isinstance(row, tuple) else row for row in data]
        if all(isinstance(row, Mapping) for row in rows):
            return Rows("the list", rows)
    raise UsageError(
        "Records are a file, a DataFrame, a dataset of `datasets` with one split, or a list of {'text': …, 'label': …}"
        " or of (text, label)."
    )


def require_file(path: Path, what: str) -> None:
    """Raises DataError for what is not there, or no plain file (a device, a pipe: read without an end). what: the file
    should hold."""
    if not path.is_file():
        said = "is not a regular file" if path.exists() else "is a broken link" if path.is_symlink() else "is not there"
        raise DataError(f"{path} {said}; give a file with {what}.")


def fields_of(path: Table, text: str | None = None, label: str | None = None) -> tuple[str, str]:
    """The fields of text and label: as given, else those with a usual name. Raises DataError where there is none."""
    if text is not None and label is not None:
        return text, label
    sound = list(islice((row.values for row in open_table(path).rows if not row.fault), _FIRST_ROWS))
    names = list(dict.fromkeys(name for row in sound for name in row if name.strip()))
    if not names:  # what is wrong with its rows, or that it has none, is said where they are read
        return text or _USUAL[0][0], label or _USUAL[1][0]
    folded = {name.strip().lower(): name for name in names}
    found = [
        given or next((folded[word] for word in usual if word in folded), None)
        for given, usual in zip((text, label), _USUAL, strict=True)
    ]
    left = [name for name in names if name not in found]
    if len(names) == 2 and len(left) == 1:  # of two fields one is known
        found = [name or left[0] for name in found]
    if None in found or found[0] == found[1]:
        missing = "text" if found[0] is None else "label"
        columns = [name for name in names if name != missing and all(name in row for row in sound)]
        raise missing_column_error(path, [missing], columns)  # a key of some rows alone is part of these records
    return str(found[0]), str(found[1])


def unreadable_error(path: Table, error: OSError) -> DataError:
    """The error of a file that the system does not let us read."""
    return DataError(f"Cannot read {path}: {error.strerror or type(error).__name__}; fix that.")


def missing_column_error(path: Table, wanted: Sequence[str], found: Sequence[str]) -> DataError:
    """The error of a table without a column."""
    missing = next(name for name in wanted if name not in found)
    names = [name for name in found if len(name) <= 30 and name.isascii() and name.replace("-", "_").isidentifier()]
    if path.suffix.lower() in _TABLES and (len(names) < len(found) or not _COMMON & {*map(str.lower, names)}):
        names = []
    have = f"its first row has {count(len(found), 'field')}, and a table's first line names them"
    if names:
        have = f"it has {', '.join(names[:12])}{' …' if names[12:] else ''}"
    return DataError(
        f"{path} has no column '{missing}': {have}. Say which columns hold text and label, with --text-field and"
        " --label-field (a task: `local` in its task.yaml)."
    )


def _text(path: Path) -> str:
    content = content_of(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise UnreadableContent(
            f"{path} line {number} is not UTF-8; unpack it where it is compressed, else save it as UTF-8 (in Excel: CSV"
            " UTF-8; from Latin-1: `iconv -f WINDOWS-1252 -t UTF-8`)."
        ) from None
    if "\0" in text[:1000]:
        raise UnreadableContent(f"{path} is not UTF-8 (it holds NUL bytes, as UTF-16 does); save it as UTF-8.")
    return text


def _json(path: Path, text: str) -> FileTable:
    """One object a line, or a document that is a list of objects."""
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    by_line = path.suffix.lower() in _LINES or (len(lines) > 1 and not _json_row(*lines[0]).fault)
    if not lines or (by_line and not text.lstrip().startswith("[")):
        return FileTable("line", (_json_row(*line) for line in lines))
    try:
        value = json_text.loads(text, _LARGEST, plain=False)
    except ValueError as error:
        raise UnreadableContent(f"{path} is not JSON: {error}; repair it.") from None
    if not isinstance(value, list):
        raise DataError(f"{path} is not a list of records; write [{{…}}, {{…}}], or one object a line in a .jsonl.")
    return FileTable("record", (_object(number, each) for number, each in enumerate(value, start=1)))


def _json_row(number: int, line: str) -> FileRow:
    try:
        return _object(number, json_text.loads(line, LONGEST_LINE, plain=False))
    except ValueError as error:
        return FileRow(number, {}, f"is not a JSON object: {error}")


def _object(number: int, value: Any) -> FileRow:
    return FileRow(number, value) if isinstance(value, dict) else FileRow(number, {}, "is not a JSON object")


def _csv(path: Path, text: str, columns: Sequence[str]) -> FileTable:
    """Every value is a text, as it stands there. The mark between columns is the one with which the first line has the
    wanted names, or most fields."""
    csv.field_size_limit(LONGEST_LINE)
    head = re.split("[\r\n]", text, maxsplit=1)[0]
    marks = "\t" if path.suffix.lower() == ".tsv" else ",;\t|"
    try:
        heads = {mark: [name.strip() for name in next(csv.reader([head], delimiter=mark), [])] for mark in marks}
    except csv.Error as error:
        raise DataError(f"{path}: the first line does not name columns ({error}).") from None
    mark, names = max(heads.items(), key=lambda own: (sum(name in own[1] for name in columns), len(own[1])))
    if head and not set(columns) <= set(names):
        raise missing_column_error(path, columns, names)
    if twice := [name for name in columns if names.count(name) > 1]:
        raise DataError(f"{path} has two columns '{twice[0]}'; rename one of them.")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True)
    return FileTable("line", _csv_rows(reader, names))


def _csv_rows(reader: Any, names: Sequence[str]) -> Iterator[FileRow]:
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield FileRow(number, {}, f"is not a valid row ({error}; is every quotation mark closed?)")
            continue
        if number == 1 or not any(cells):
            continue
        fits = len(cells) == len(names)
        has = count(len(cells), "field")
        said = f"has {has}, and the first line names {len(names)} (put a text with the mark in quotes)"
        yield FileRow(number, dict(zip(names, cells, strict=True)) if fits else {}, "" if fits else said)


def _excel(path: Path, columns: Sequence[str]) -> FileTable:
    """The first sheet of a workbook; its first line names the columns."""
    import pandas

    try:
        frame = pandas.read_excel(path, engine="openpyxl", dtype=object, na_filter=False)
    except Exception as error:  # whatever two libraries raise for what is damaged
        raise DataError(f"{path} is not a sound Excel workbook ({type(error).__name__}); save it again.") from None
    names = [str(name).strip() for name in frame.columns]
    if not set(columns) <= set(names):
        raise missing_column_error(path, columns, names)
    cells = enumerate(frame.itertuples(index=False, name=None), start=2)
    return FileTable("line", (FileRow(number, dict(zip(names, row, strict=True))) for number, row in cells))


def _parquet(path: Path, columns: Sequence[str]) -> FileTable:
    import datasets
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
        names, features = file.schema_arrow.names, datasets.Features.from_arrow_schema(file.schema_arrow)
        size = sum(file.metadata.row_group(group).total_byte_size for group in range(file.num_row_groups))
        if not set(columns) <= set(names):
            raise missing_column_error(path, columns, names)
        if size > _LARGEST:
            raise DataError(f"{path} has {size:,} bytes when it is unpacked, {_LARGEST:,} is the most; divide it.")
        classes = {name: each.names for name, each in features.items() if isinstance(each, datasets.ClassLabel)}
        rows = file.read(list(columns) or names).to_pylist()
    except DataError:
        raise
    except Exception as error:  # whatever two libraries raise for what is damaged
        raise DataError(f"{path} is not a sound Parquet table ({type(error).__name__}); save it again.") from None
    return FileTable("record", (FileRow(number, row) for number, row in enumerate(rows, start=1)), classes)
