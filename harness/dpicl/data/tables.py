"""Reads the rows of a user's table: JSON Lines, JSON, CSV, Excel or Parquet, or what a program holds.

Lines are numbered by `csv` and `json`, since pandas names no line. Rows may be private: no error holds a value of a
row, and names of columns are shown only where they look like names, since the first line of a file may be a record.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dpicl.core import json_text
from dpicl.core.decoding import (
    PACKED,
    PLAIN,
    FileFormat,
    UnreadableContent,
    describe_escaped,
    is_escaped,
    kind_of,
    name_of,
    read_text,
)
from dpicl.core.errors import DataError, UsageError
from dpicl.core.messages import count, message
from dpicl.core.unpacked import LARGEST, check_parquet, check_workbook

_LINES, _TABLES = (".jsonl", ".ndjson"), (".csv", ".tsv")
#: Endings of the files that are read, and of those that may be packed in another.
_TEXT_FILES = (*_LINES, ".json", *_TABLES)
SUFFIXES = (*_TEXT_FILES, ".parquet", ".xlsx")
#: Characters of a row.
LONGEST_LINE = 10_000_000
#: Rows whose fields are looked at for those of text and label.
_FIRST_ROWS = 20
#: What looks like the name of a column, or its number.
_NAME = re.compile(r"[A-Za-z_][\w-]{0,29}|\d{1,3}", re.ASCII)
#: Usual names of the field with the text and of that with the label, the most usual first.
_TEXTS = "text sentence content body message question query document dialogue utterance input prompt review description"
_LABELS = "label labels category class intent topic target sentiment rating type tag queue department output answer"
_USUAL = (_TEXTS.split(), _LABELS.split())
#: The first line of a CSV file is taken for a line of names where it holds one of these.
_COMMON = {
    *_USUAL[0],
    *_USUAL[1],
    "id",
    "idx",
    "index",
    "name",
    "date",
    "title",
    "subject",
    "summary",
    "score",
}


@dataclass(frozen=True, eq=False)
class Rows:
    """name: what messages call them. names: column -> the class names that its numbers stand for. numbers: of the rows,
    ascending, as the program has them; None: from 0. columns: all that every row has; () where each row names its own.
    """

    name: str
    rows: Sequence[Mapping[str, Any]] = field(repr=False)
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    numbers: Sequence[int] | None = field(default=None, repr=False)
    columns: Sequence[str] = ()

    def __str__(self) -> str:
        return self.name


#: What to do about quotation marks that are none of CSV.
NO_QUOTING = "if quotation marks are part of the texts, give --no-quoting"
#: The fault of a row that holds others.
JOINS_ROWS = f"takes whole lines after it into a text, by a quotation mark ({NO_QUOTING})"
_LINE_END = re.compile("[\r\n]")

#: A file, or rows in memory.
Table = Path | Rows


#: The fault of a line with nothing in it, which is no record, and as a query an empty one.
BLANK = "is blank"


@dataclass(frozen=True)
class FileRow:
    """number: of its line, from 1 (its place where the file has no lines). fault: what is wrong with it, or "".
    joined: whether line ends in quotation marks are part of it. alone: whether the fault is of this row, whatever
    stands in others; a row that takes in lines after it is none."""

    number: int
    values: Mapping[str, Any]
    fault: str = ""
    joined: bool = False
    alone: bool = True


@dataclass(frozen=True)
class FileTable:
    """unit: what numbers count, 'line' or 'record'. names: column -> the class names that its numbers stand for. mark:
    between the columns of CSV. columns: all that the file names, read or not; () where each row names its own."""

    unit: str
    rows: Iterator[FileRow]
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    mark: str = ""
    columns: Sequence[str] = ()


def open_table(
    path: Table,
    columns: Sequence[str] = (),
    format: FileFormat = PLAIN,
) -> FileTable:
    """The rows of a file. columns: those that are read, which a table must have; (): all of them.

    Raises DataError, in one sentence, for what is no table.
    """
    if isinstance(path, Rows):
        numbers = range(len(path.rows)) if path.numbers is None else path.numbers
        rows_in_memory = map(_row_in_memory, numbers, path.rows)
        return FileTable("row", rows_in_memory, path.names, columns=path.columns)
    require_file(path, "records")
    is_packed = path.suffix.lower() in PACKED
    try:
        if path.stat().st_size > LARGEST:
            raise DataError(f"{path} has more than {LARGEST:,} bytes; divide it.")
        kind = kind_of(path)
        if kind not in (_TEXT_FILES if is_packed else SUFFIXES):
            if is_packed:
                raise DataError(
                    f"{path} holds '{kind or 'a file without an ending'}', and a packed file is read where it holds"
                    f" {', '.join(_TEXT_FILES)}; unpack it."
                )
            raise DataError(f"{path} must end in {', '.join(SUFFIXES)}.")
        if not format.header and kind not in (*_TABLES, ".xlsx"):
            raise DataError(
                f"{path} is no CSV, TSV or Excel file, so its fields have names; leave --no-header out."
            )
        if kind == ".parquet":
            return _parquet(path, columns)
        if kind == ".xlsx":
            return _excel(path, columns, format.header)
        text = read_text(path, format)
    except OSError as error:
        raise unreadable_error(path, error) from error
    if text.startswith(("version https://git-lfs", "<!DOCTYPE", "<html")):
        raise DataError(
            f"{path} is a Git LFS pointer or a web page and holds no record; fetch the file itself."
        )
    if text.strip() and (text.lstrip()[0] in "{[") is (kind in _TABLES):
        what, ending = ("JSON", ".jsonl") if kind in _TABLES else ("no JSON (CSV?)", ".csv")
        raise DataError(
            f"{path} holds {what}; give it the ending of what it is, for example {name_of(path)}{ending}."
        )
    if kind in _TABLES:
        return _csv(path, kind, text, columns, format)
    return _json(path, kind, text)


def as_table(data: Any) -> Table:
    """A path as it is; of a DataFrame, a dataset, or a list of dictionaries or of (text, label) its rows.

    Raises UsageError for what is none of these; no message shows a row.
    """
    if isinstance(data, str | Path):
        return Path(data)
    if hasattr(data, "features") and hasattr(data, "to_list"):
        names = {name: each.names for name, each in data.features.items() if hasattr(each, "names")}
        return Rows("the dataset", data.to_list(), names, columns=list(data.features))
    if hasattr(data, "itertuples") and hasattr(data, "columns"):
        return Rows(
            "the DataFrame",
            _rows_of_frame(data),
            numbers=_numbers_of_frame(data),
            columns=list(map(str, data.columns)),
        )
    if isinstance(data, Iterable) and not isinstance(data, Mapping):
        rows = [_row_of_tuple(row) if isinstance(row, tuple) else row for row in data]
        if all(isinstance(row, Mapping) for row in rows):
            return Rows("the list", rows)
    raise UsageError(
        "Records are a file, a DataFrame, a dataset of `datasets` with one split, or a list of {'text': …, 'label': …}"
        " or of (text, label)."
    )


def _rows_of_frame(frame: Any) -> list[dict[str, Any]]:
    """Raises UsageError for columns that no single name tells apart."""
    names = list(map(str, frame.columns))
    if any(isinstance(name, tuple) for name in frame.columns):
        raise UsageError(
            "The DataFrame has names of several levels for one column; give each column one name."
        )
    if len(set(names)) < len(names):
        raise UsageError("The DataFrame has two columns of one name; rename one of them.")
    return [dict(zip(names, row, strict=True)) for row in frame.itertuples(index=False, name=None)]


def _numbers_of_frame(frame: Any) -> list[int] | None:
    """Its index, where that is ascending whole numbers; else None."""
    numbers = frame.index.tolist()
    is_numbered = all(type(number) is int for number in numbers)
    is_ascending = is_numbered and all(low < high for low, high in pairwise(numbers))
    return numbers if is_ascending else None


def _row_of_tuple(row: tuple[Any, ...]) -> Mapping[str, Any]:
    """Raises UsageError for a tuple that is not a text and a label, and has no names either."""
    if hasattr(row, "_asdict"):
        names: Mapping[str, Any] = row._asdict()
        return names
    if len(row) != 2:
        raise UsageError(
            "A record is a tuple of (text, label), or a dictionary where there are more fields."
        )
    return {"text": row[0], "label": row[1]}


def _row_in_memory(number: int, row: Mapping[Any, Any]) -> FileRow:
    """A row whose names and values may be those of pandas, numpy and `csv.DictReader`."""
    if None in row:
        return FileRow(number, {}, "has more fields than there are names of columns")
    values = {str(name): _plain_value(value) for name, value in row.items()}
    fault = "" if len(values) == len(row) else "has two fields of one name"
    return FileRow(number, values, fault)


def _plain_value(value: Any) -> Any:
    """numpy's numbers and texts as Python's, and None for pandas' marks of what is missing."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    missing = type(value).__name__ in ("NAType", "NaTType") or (
        isinstance(value, float) and math.isnan(value)
    )
    return None if missing else value


def require_file(path: Path, what: str) -> None:
    """Raises DataError for what is not there, or no plain file (a device, a pipe: read without an end). what: the file
    should hold."""
    if path.is_file():
        return
    problem = "is a broken link" if path.is_symlink() else "is not there"
    if path.exists():
        problem = "is not a regular file"
    raise DataError(f"{path} {problem}; give a file with {what}.")


def fields_of(
    path: Table, text: str | None = None, label: str | None = None, format: FileFormat = PLAIN
) -> tuple[str, str]:
    """The fields of text and label: as given, else those with a usual name.

    Raises DataError where there is none.
    """
    if text is not None and label is not None:
        return text, label
    if not format.header:
        raise UsageError(
            "With --no-header columns are called 1, 2, …; say which hold text and label, --text-field 1 --label-field"
            " 2."
        )
    sound = _first_sound(path, format)
    names = list(dict.fromkeys(name for row in sound for name in row if name.strip()))
    if not names:  # what is wrong with its rows, or that it has none, is said where they are read
        return text or _USUAL[0][0], label or _USUAL[1][0]
    chosen = [
        named or _usual_name(names, usual)
        for named, usual in zip((text, label), _USUAL, strict=True)
    ]
    left = [name for name in names if name not in chosen]
    if len(names) == 2 and len(left) == 1:  # of two fields one is known
        chosen = [name or left[0] for name in chosen]
    if None in chosen or chosen[0] == chosen[1]:
        missing = "text" if chosen[0] is None else "label"
        columns = [name for name in names if name != missing and all(name in row for row in sound)]
        # a key of some rows alone is part of these records
        raise missing_column_error(path, [missing], columns)
    return str(chosen[0]), str(chosen[1])


def text_field_of(
    path: Table,
    text: str | None,
    format: FileFormat = PLAIN,
    dialogues: bool = False,
) -> str:
    """The field of texts, or of dialogues, in a file without labels: as given, else one with a usual name. Raises
    DataError where there is none."""
    if text is not None:
        return text
    if not format.header:
        raise UsageError(
            "With --no-header columns are called 1, 2, …; say which holds the text: --text-field 1."
        )
    sound = _first_sound(path, format)
    first = sound[0] if sound else {}
    names = [name for name in first if all(name in row for row in sound)]
    usual = ("messages", "conversation", "dialogue") if dialogues else _USUAL[0]
    known = _usual_name(names, usual)
    if known is None and names:
        raise missing_column_error(path, [usual[0]], names)
    return known or usual[0]


def _first_sound(path: Table, format: FileFormat) -> list[Mapping[str, Any]]:
    """The values of the first rows that can be read."""
    rows = open_table(path, (), format).rows
    return list(islice((row.values for row in rows if not row.fault), _FIRST_ROWS))


def _usual_name(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """The name that is one of the usual words, in whatever case; the first such word counts."""
    folded = {name.strip().lower(): name for name in names}
    return next((folded[word] for word in usual if word in folded), None)


def unreadable_error(path: Table, error: OSError) -> DataError:
    """The error of a file that the system does not let us read."""
    return DataError(f"Cannot read {path}: {error.strerror or type(error).__name__}; fix that.")


def missing_column_error(path: Table, required: Sequence[str], columns: Sequence[str]) -> DataError:
    """The error of a table without a column."""
    missing = next(name for name in required if name not in columns)
    names = [name for name in columns if _NAME.fullmatch(name)]
    if (
        isinstance(path, Path)
        and kind_of(path) in _TABLES
        and (len(names) < len(columns) or not _COMMON & {*map(str.lower, names)})
    ):
        names = []
    have = f"its first row has {count(len(columns), 'field')}, and a table's first line names them (else: --no-header)"
    if names:
        have = f"it has {', '.join(names[:12])}{' …' if names[12:] else ''}"
    return DataError(
        f"{path} has no column '{missing}': {have}. Say which columns hold text and label, with --text-field and"
        " --label-field, or whose a row is, with --person-field (a task: `local` in its task.yaml)."
    )


def _json(path: Path, kind: str, text: str) -> FileTable:
    """One object a line, or a document that is a list of objects."""
    lines = text.removesuffix("\n").split("\n")
    filled = [line for line in lines if line.strip()]
    by_line = kind in _LINES or (len(filled) > 1 and not _json_row(1, filled[0]).fault)
    if not filled or (by_line and not text.lstrip().startswith("[")):
        escaped = describe_escaped(text) if is_escaped(text) else ""
        return FileTable(
            "line",
            (_json_row(number, line, escaped) for number, line in enumerate(lines, start=1)),
        )
    for number, line in enumerate(lines, start=1):
        if is_escaped(line):
            raise UnreadableContent(f"{path} line {number} {describe_escaped(text)}.")
    try:
        value = json_text.loads(text, LARGEST, plain=False)
    except ValueError as error:
        raise UnreadableContent(f"{path} is not JSON: {error}; repair it.") from None
    if not isinstance(value, list):
        raise DataError(
            f"{path} is not a list of records; write [{{…}}, {{…}}], or one object a line in a .jsonl."
        )
    return FileTable(
        "record", (_object(number, each) for number, each in enumerate(value, start=1))
    )


def _json_row(number: int, line: str, escaped: str = "") -> FileRow:
    """escaped: the fault of a line that is not UTF-8; '' where all are."""
    if not line.strip():
        return FileRow(number, {}, BLANK)
    if escaped and is_escaped(line):
        return FileRow(number, {}, escaped)
    try:
        return _object(number, json_text.loads(line, LONGEST_LINE, plain=False))
    except ValueError as error:
        return FileRow(number, {}, f"is not a JSON object: {error}")


def _object(number: int, value: Any) -> FileRow:
    if isinstance(value, dict):
        return FileRow(number, value)
    return FileRow(number, {}, "is not a JSON object")


def _csv(
    path: Path,
    kind: str,
    text: str,
    columns: Sequence[str],
    format: FileFormat,
) -> FileTable:
    """Every value is a text, as it stands there. The mark between columns is the one with which the first line has the
    wanted names, or most fields; without such a line a public one, since a record may not decide how others are read.
    """
    csv.field_size_limit(LONGEST_LINE)
    escaped = describe_escaped(text) if is_escaped(text) else ""
    head = re.split("[\r\n]", text, maxsplit=1)[0]
    if format.header and is_escaped(head):
        raise UnreadableContent(f"{path} line 1 {escaped}.")
    usual = "\t" if kind == ".tsv" else ",;\t|" if format.header else ","
    style: Literal[0, 3] = csv.QUOTE_MINIMAL if format.quoting else csv.QUOTE_NONE

    def read(lines: Iterable[str], mark: str, strict: bool = False) -> Any:
        return csv.reader(lines, delimiter=mark, quoting=style, strict=strict)

    try:
        heads = {
            mark: [name.strip() for name in next(read([head], mark), [])]
            for mark in format.delimiter or usual
        }
    except csv.Error as error:
        raise DataError(f"{path}: the first line does not name columns ({error}).") from None
    mark, names = max(
        heads.items(), key=lambda entry: (sum(name in entry[1] for name in columns), len(entry[1]))
    )
    if not format.header:
        number = len(next(read(io.StringIO(text, newline=""), mark), []))
        names = list(map(str, range(1, number + 1)))
        _require_numbers(path, columns, names)
    elif head:
        _require_columns(path, columns, names)
    reader = read(io.StringIO(text, newline=""), mark, strict=True)
    rows = _csv_rows(reader, names, mark, format.header, escaped)
    return FileTable("line", rows, mark=mark, columns=names if format.header else ())


def _require_columns(path: Path, columns: Sequence[str], names: Sequence[str]) -> None:
    """Raises DataError where one of the columns is missing, or is there twice."""
    if not set(columns) <= set(names):
        raise missing_column_error(path, columns, names)
    if twice := [name for name in columns if names.count(name) > 1]:
        raise DataError(f"{path} has two columns '{twice[0]}'; rename one of them.")


def _require_numbers(path: Path, columns: Sequence[str], names: Sequence[str]) -> None:
    """Raises UnreadableContent where one of the columns is no number of a column of a table without names: how many
    there are is what a record says."""
    missing = [name for name in columns if name not in names]
    if missing and names:
        raise UnreadableContent(
            f"{path} has {count(len(names), 'column')}, and '{missing[0]}' is none: with --no-header columns are called"
            f" 1 to {len(names)}."
        )


def _csv_rows(
    reader: Any,
    names: Sequence[str],
    mark: str,
    header: bool,
    escaped: str,
) -> Iterator[FileRow]:
    """header: whether the first line holds names. escaped: the fault of a row that is not UTF-8; '' where all are."""
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            more = reader.line_num - number
            is_open = more > 0 or "unexpected end" in str(error)
            fault = _csv_fault(str(error), more)
            yield FileRow(number, {}, fault, is_open, alone=not is_open)
            continue
        if header and number == 1:
            continue
        fault = ""
        joined = any(map(_LINE_END.search, cells))
        alone = not joined
        if not any(cells):
            fault = BLANK
        elif escaped and any(map(is_escaped, cells)):
            fault = escaped
        elif len(cells) != len(names):
            has = count(len(cells), "field")
            first = "the first line names" if header else "the first line has"
            fault = f"has {has}, and {first} {len(names)} (put a text with the mark in quotes)"
            alone = alone and header
        elif mark == "\t" and joined and any(_holds_rows(cells, at) for at in range(len(cells))):
            fault = JOINS_ROWS
        values = {} if fault else dict(zip(names, cells, strict=True))
        yield FileRow(number, values, fault, joined, alone or not fault)


def _holds_rows(cells: Sequence[str], at: int) -> bool:
    """Whether a cell of TSV may hold the end of its row and the beginning of another one, or a whole row between: its
    lines have the tabs of these. Texts of several lines with fewer tabs, such as HTML, are texts."""
    lines = _LINE_END.split(cells[at].replace("\r\n", "\n"))
    if len(lines) == 1 or len(cells) == 1:
        return False
    tabs = [line.count("\t") for line in lines]
    after, before = len(cells) - 1 - at, at
    return (tabs[0] >= after and tabs[-1] >= before) or max(tabs[1:-1], default=0) >= len(cells) - 1


def _csv_fault(message: str, more: int) -> str:
    """What is said of a row that `csv` refuses. more: the lines that it has read for it beyond the first."""
    lost = f"; it takes in the {count(more, 'line')} after it" if more > 0 else ""
    return f"is not a valid row ({message}; is every quotation mark closed?{lost}; {NO_QUOTING})"


def _excel(path: Path, columns: Sequence[str], header: bool) -> FileTable:
    """The first sheet of a workbook. header: whether its first line names the columns."""
    import pandas

    try:
        sheets = check_workbook(path)
        frame = pandas.read_excel(
            path, engine="openpyxl", dtype=object, na_filter=False, header=None
        )
    except DataError:
        raise
    except Exception as error:  # whatever two libraries raise for what is damaged
        raise DataError(
            f"{path} is not a sound Excel workbook ({type(error).__name__}); save it again."
        ) from None
    if sheets > 1:
        _say_others_unread(path, sheets)
    cells = list(frame.itertuples(index=False, name=None))
    names = list(map(str, range(1, frame.shape[1] + 1)))
    if header and cells:
        names = [str(name).strip() for name in cells.pop(0)]
    require = _require_columns if header else _require_numbers
    require(path, columns, names)
    rows = (
        FileRow(number, dict(zip(names, row, strict=True)))
        for number, row in enumerate(cells, start=2 if header else 1)
    )
    return FileTable("line", rows, columns=names if header else ())


@cache  # a command reads a file more than once
def _say_others_unread(path: Path, sheets: int) -> None:
    message(
        f"{path} has {sheets} sheets, and the first alone is read; save another one as a file of its own to use it."
    )


def _parquet(path: Path, columns: Sequence[str]) -> FileTable:
    import datasets
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
        names = file.schema_arrow.names
        features = datasets.Features.from_arrow_schema(file.schema_arrow)
        _require_columns(path, columns, names)
        check_parquet(path, list(columns) or names)
        classes = {
            name: each.names
            for name, each in features.items()
            if isinstance(each, datasets.ClassLabel)
        }
        rows = file.read(list(columns) or names).to_pylist()
    except DataError:
        raise
    except Exception as error:  # whatever two libraries raise for what is damaged
        raise DataError(
            f"{path} is not a sound Parquet table ({type(error).__name__}); save it again."
        ) from None
    numbered = (FileRow(number, row) for number, row in enumerate(rows, start=1))
    return FileTable("record", numbered, classes, columns=names)
