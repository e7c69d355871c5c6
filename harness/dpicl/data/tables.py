"""Rows of a table that a user has: JSON Lines, a list in JSON, CSV, Parquet, or a folder that `datasets` saved.

A file is looked at before it is read: what it is not is one sentence with the way out. Rows may be private, so no
sentence holds a value of a row. Names of columns are shown where they look like names, since the first line of a file
may be a record.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from dpicl.core import json_text
from dpicl.core.errors import DataError

#: Bytes of one line of a file, characters of one row of a table.
LONGEST_LINE = 10_000_000
#: Bytes of a document that is read as a whole; of the columns of a Parquet file when they are unpacked.
_LARGEST_DOCUMENT, _LARGEST_TABLE = 500_000_000, 4_000_000_000
_ROWS_AT_ONCE = 1000
#: Rows whose fields are looked at for those of text and label.
_FIRST_ROWS = 20
_BOM = b"\xef\xbb\xbf"
#: How files begin that are none of ours, what they are, and what to do.
_OTHERS = (
    (b"\x1f\x8b", "compressed (gzip)", "unpack it with `gunzip {path}`"),
    (b"BZh", "compressed (bzip2)", "unpack it with `bunzip2 {path}`"),
    (b"\xfd7zXZ", "compressed (xz)", "unpack it with `unxz {path}`"),
    (b"\x28\xb5\x2f\xfd", "compressed (zstd)", "unpack it with `unzstd {path}`"),
    (b"PK\x03\x04", "a zip archive or an Excel workbook", "unpack it, or save the sheet as CSV"),
    (b"%PDF", "a PDF document", "save its records as CSV or JSON Lines"),
    (b"SQLite format 3", "a SQLite database", "save the table as CSV"),
    (b"ARROW1", "an Arrow file", "save it as Parquet, or give the folder that `datasets` saved"),
    (b"version https://git-lfs", "a Git LFS pointer without the records", "fetch them with `git lfs pull`"),
    (b"<!DOCTYPE", "a web page", "download the file itself"),
    (b"<html", "a web page", "download the file itself"),
    (b"\xff\xfe", "text in UTF-16", "save it as UTF-8, for example `iconv -f UTF-16 -t UTF-8 {path}`"),
    (b"\xfe\xff", "text in UTF-16", "save it as UTF-8, for example `iconv -f UTF-16 -t UTF-8 {path}`"),
    (b"PAR1", "a Parquet table", "name it {parquet}"),
)
#: Usual names of the field with the text and of that with the label, the most usual first.
_TEXTS = "text sentence content body message question query document dialogue utterance input prompt review description"
_LABELS = "label labels category class intent topic target sentiment rating type tag queue department output answer"
_USUAL = (_TEXTS.split(), _LABELS.split())
#: Words of which one is a column's name where the first line of a CSV file is a line of names.
_COMMON = frozenset(
    [*_USUAL[0], *_USUAL[1], "id", "idx", "index", "name", "date", "title", "subject", "summary", "score"]
)


@dataclass(frozen=True)
class FileRow:
    """number: of its line, from 1 (its place where the file has no lines). fault: what is wrong with it, or ""."""

    number: int
    values: Mapping[str, Any]
    fault: str = ""


@dataclass(frozen=True)
class FileTable:
    """unit: what numbers count, 'line' or 'record'. names: column -> the class names that its numbers stand for."""

    path: Path
    unit: str
    rows: Iterator[FileRow]
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)


def open_table(path: Path, columns: Sequence[str] = (), split: str = "train") -> FileTable:
    """The rows of a file or folder; they are read while they are asked for. columns: that every row must have.

    split: which part of a folder that holds several. Raises DataError, in one sentence, for what is no table.
    """
    if path.is_dir():
        return _saved(path, columns, split)
    try:
        require_file(path, "records")
        _look(path)
        return _READERS[path.suffix.lower()](path, columns, split)
    except OSError as error:
        raise unreadable(path, error) from error


def require_file(path: Path, what: str) -> None:
    """Raises DataError for what is not there, or no plain file (a device, a pipe: read without an end). what: the file
    should hold."""
    if path.is_symlink() and not path.exists():
        raise DataError(f"{path} is a link that leads to no file; correct it.")
    if not path.is_file():
        raise DataError(f"{path} is {'no plain file' if path.exists() else 'not there'}; give a file with {what}.")


def fields_of(path: Path, text: str | None = None, label: str | None = None) -> tuple[str, str]:
    """The fields of text and label: as given, else those with a usual name. Raises DataError where there is none."""
    if text is not None and label is not None:
        return text, label
    table = open_table(path)
    sound = (row.values for row in table.rows if not row.fault)  # a record of JSON may lack a field that others have
    names = list(dict.fromkeys(name for row in islice(sound, _FIRST_ROWS) for name in row))
    if not names:  # what is wrong with its rows, or that it has none, is said where they are read
        return text or _USUAL[0][0], label or _USUAL[1][0]
    folded = {name.strip().lower(): name for name in names}
    found = [text, label]
    for i, usual in enumerate(_USUAL):
        found[i] = found[i] or next((folded[word] for word in usual if word in folded), None)
    left = [name for name in names if name not in found]
    if len(names) == 2 and len(left) == 1:  # of two fields one is known
        found = [name or left[0] for name in found]
    if None in found or found[0] == found[1]:
        missing = "text" if found[0] is None else "label"
        raise lacks(path, [missing], [name for name in names if name != missing], shown=_are_names(path, names))
    return str(found[0]), str(found[1])


def unreadable(path: Path, error: OSError) -> DataError:
    """The error of a file that the system does not let us read."""
    return DataError(f"Cannot read {path}: {error.strerror or type(error).__name__}; fix that.")


def lacks(path: Path, wanted: Sequence[str], found: Sequence[str], shown: bool = True) -> DataError:
    """The error of a table without a column. shown: whether ``found`` are known to be names."""
    missing = next(name for name in wanted if name not in found)
    folded = {name.strip().casefold(): name for name in found}
    near = folded.get(missing.casefold()) or next(iter(get_close_matches(missing, found, 1, 0.8)), None)
    hint = f" Did you mean '{near}'?" if near is not None and len(near) < 2 * len(missing) + 3 else ""
    names = [name for name in found if _is_name(name)]
    if shown and names:
        have = f"it has {', '.join(names[:12])}{' …' if len(names) > 12 else ''}"
    else:
        have = f"its first line has {len(found)} fields and should name them"
    return DataError(
        f"{path} has no column '{missing}': {have}.{hint} Say which columns hold text and label, with --text-field and"
        " --label-field (a task: `local` in its task.yaml)."
    )


def _are_names(path: Path, names: Sequence[str]) -> bool:
    """Whether these may be shown: the first line of a CSV file is a record where somebody forgot the names."""
    if path.suffix.lower() not in (".csv", ".tsv"):
        return True
    return all(map(_is_name, names)) and bool(_COMMON & set(map(str.lower, names)))


def _is_name(name: str) -> bool:
    return len(name) <= 30 and name.isascii() and name.replace("-", "_").replace(".", "_").isidentifier()


def _look(path: Path) -> None:
    """Raises DataError for a file that is none of text, or is of another kind than its name says."""
    with path.open("rb") as file:
        head = file.read(1 << 16)
    kind, start = path.suffix.lower(), head.removeprefix(_BOM).lstrip()
    if kind == ".parquet" and head.startswith(b"PAR1"):
        return
    for sign, what, way in _OTHERS:
        if head.startswith(sign):
            raise DataError(f"{path} is {what}; {way.format(path=path, parquet=path.with_suffix('.parquet').name)}.")
    if kind == ".parquet":
        raise DataError(f"{path} is no Parquet table; give it the ending of what it is, or write it again.")
    if kind not in _READERS:
        raise DataError(f"{path} is of no kind that is read; give {', '.join(SUFFIXES)}, or a folder of `datasets`.")
    first = start.partition(b"\n")[0].strip()
    if b"\0" in first:
        raise DataError(f"{path} is not UTF-8 (it holds NUL bytes, as UTF-16 and programs' own files do); save"
                        " it as UTF-8.")  # fmt: skip
    found = _look_of(first, start)
    if kind in _LINES and found == "table":
        raise DataError(f"{path} is no JSON Lines file but looks like a table (CSV); name it {path.stem}.csv, and its"
                        " first line names the columns.")  # fmt: skip
    if kind in _LINES and found == "document":
        raise DataError(f"{path} is one JSON document and no JSON Lines file (one object a line); name it"
                        f" {path.stem}.json.")  # fmt: skip
    if kind in (".csv", ".tsv") and found in ("lines", "document"):
        other = "jsonl" if found == "lines" else "json"
        raise DataError(f"{path} holds JSON and no table; name it {path.stem}.{other}.")
    if kind == ".json" and found == "table":
        raise DataError(f"{path} is no JSON but looks like a table (CSV); name it {path.stem}.csv.")


def _look_of(first: bytes, start: bytes) -> str:
    """What a text looks like by its first line: 'lines' of JSON, a 'document', a 'table', or ''."""
    if first.startswith(b"[") and not _is_json(first):
        return "document"
    if first.startswith(b"["):
        return "document" if start.startswith((b"[{", b"[ {")) or first in (b"[]", b"[") else ""
    if first.startswith(b"{"):
        return "document" if first == b"{" else "lines"
    return "table" if any(mark in first for mark in (b",", b";", b"\t")) else ""


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


# --- lines of JSON, and one document ---------------------------------------------------------------------------------


def _json_lines(path: Path, columns: Sequence[str], split: str) -> FileTable:
    def rows() -> Iterator[FileRow]:
        with path.open("rb") as file:
            for number, line in enumerate(_lines(file), start=1):
                if line.strip():
                    yield _row_of(number, line)

    return FileTable(path, "line", rows())


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file, without the byte order mark that some editors write; a longer one than any record is cut."""
    first = True
    while line := file.readline(LONGEST_LINE + 1):
        yield line.removeprefix(_BOM) if first else line
        first = False


def _row_of(number: int, line: bytes) -> FileRow:
    try:
        value = json_text.loads(line, LONGEST_LINE, plain=False)
    except ValueError as error:
        hint = " (Latin-1? `iconv -f WINDOWS-1252 -t UTF-8` converts it)" if "UTF-8" in str(error) else ""
        return FileRow(number, {}, f"is not a JSON object: {error}{hint}")
    return _object(number, value)


def _object(number: int, value: Any) -> FileRow:
    return FileRow(number, value) if isinstance(value, dict) else FileRow(number, {}, "is not a JSON object")


def _json_document(path: Path, columns: Sequence[str], split: str) -> FileTable:
    """A list of objects, or an object that holds such a list under the split's name or alone; JSON Lines too, since
    many such files are named .json."""
    with path.open("rb") as file:
        first = next((line for line in _lines(file) if line.strip()), b"")
    if first.lstrip().startswith(b"{") and _is_json(first):
        with path.open("rb") as file:
            if sum(1 for line in _lines(file) if line.strip()) > 1:
                return _json_lines(path, columns, split)
    try:
        value = json_text.loads(path.read_bytes().removeprefix(_BOM) or b"[]", _LARGEST_DOCUMENT, plain=False)
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}; repair it.") from None
    lists = {key: each for key, each in value.items() if isinstance(each, list)} if isinstance(value, dict) else {}
    value = lists.get(split, next(iter(lists.values())) if len(lists) == 1 else None) if lists else value
    if not isinstance(value, list):
        raise DataError(f"{path} holds no list of records; write [{{…}}, {{…}}], or one object a line in a .jsonl.")
    return FileTable(path, "record", (_object(number, each) for number, each in enumerate(value, start=1)))


# --- tables ----------------------------------------------------------------------------------------------------------


def _csv(path: Path, columns: Sequence[str], split: str) -> FileTable:
    """Every value is a text, as it stands there. The mark between columns is the one with which the first line has the
    wanted names, or most fields."""
    csv.field_size_limit(LONGEST_LINE)
    with path.open(encoding="utf-8-sig", newline="", errors="surrogateescape") as file:
        head = file.readline(LONGEST_LINE)
    marks = "\t" if path.suffix.lower() == ".tsv" else ",;\t|"
    heads = {mark: [name.strip() for name in next(csv.reader([head], delimiter=mark), [])] for mark in marks}
    mark, names = max(heads.items(), key=lambda own: (sum(name in own[1] for name in columns), len(own[1])))
    if head and not set(columns) <= set(names):
        raise lacks(
            path, columns, names, shown=all(map(_is_name, names)) and bool(_COMMON & set(map(str.lower, names)))
        )
    if twice := [name for name in columns if names.count(name) > 1]:
        raise DataError(f"{path} has two columns '{twice[0]}'; rename one of them.")

    def rows() -> Iterator[FileRow]:
        with path.open(encoding="utf-8-sig", newline="", errors="surrogateescape") as file:
            yield from _csv_rows(csv.reader(_text_lines(file, path), delimiter=mark, strict=True), names, path)

    return FileTable(path, "line", rows())


def _csv_rows(reader: Any, names: Sequence[str], path: Path) -> Iterator[FileRow]:
    begins = 1
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            said = "is in a row whose quotation marks do not fit each other, up to the end of the file"
            said = said if "end of data" in str(error) else "has quotation marks that do not fit, or too long a field"
            yield FileRow(begins, {}, said)
            if "end of data" in str(error):
                return
            begins = reader.line_num + 1
            continue
        if cells is None:
            return
        number, begins = begins, reader.line_num + 1
        if number == 1 or not any(cells):
            continue
        if len(cells) != len(names):
            yield FileRow(number, {}, f"has {len(cells)} fields, and the first line names {len(names)} (a text with the"
                      " mark between columns in it stands in quotation marks)")  # fmt: skip
        else:
            yield FileRow(number, dict(zip(names, cells, strict=True)))


def _text_lines(file: TextIO, path: Path) -> Iterator[str]:
    """The lines of a file in UTF-8. Raises DataError with the first that is not."""
    number = 0
    while line := file.readline(LONGEST_LINE):  # a longer one is refused, so the rest of it is never a line
        number += 1
        if len(line) >= LONGEST_LINE:
            raise DataError(f"{path} line {number} has more than {LONGEST_LINE:,} characters; divide or remove it.")
        if not line.isascii() and any("\udc80" <= character <= "\udcff" for character in line):
            raise DataError(f"{path} line {number} is not UTF-8; save the file as UTF-8 (in Excel: CSV UTF-8),"
                            f" for example `iconv -f WINDOWS-1252 -t UTF-8 {path} > new{path.suffix}` where it is"
                            " Latin-1.")  # fmt: skip
        yield line


def _parquet(path: Path, columns: Sequence[str], split: str) -> FileTable:
    import pyarrow
    import pyarrow.parquet as parquet

    try:
        with parquet.ParquetFile(path) as file:
            names, about = list(file.schema_arrow.names), file.schema_arrow.metadata or {}
            groups = range(file.metadata.num_row_groups)
            size = sum(file.metadata.row_group(group).total_byte_size for group in groups)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path} is a damaged Parquet table ({type(error).__name__}); write it again.") from None
    if not set(columns) <= set(names):
        raise lacks(path, columns, names)
    if size > _LARGEST_TABLE:
        raise DataError(f"{path} has {size:,} bytes when it is unpacked, {_LARGEST_TABLE:,} is the most; divide it.")

    def rows() -> Iterator[FileRow]:
        number = 0
        try:
            with parquet.ParquetFile(path) as file:
                for batch in file.iter_batches(_ROWS_AT_ONCE, columns=list(columns) or None):
                    for values in batch.to_pylist():
                        number += 1
                        yield FileRow(number, values)
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise DataError(f"{path} is damaged after record {number} ({type(error).__name__}).") from None

    return FileTable(path, "record", rows(), _class_names(about.get(b"huggingface", b"{}")))


def _class_names(about: bytes) -> dict[str, Sequence[str]]:
    """Column -> names of its classes, as `datasets` writes them into a Parquet file."""
    try:
        features = json_text.loads(about, plain=False)["info"]["features"]
        return {name: kind["names"] for name, kind in features.items() if kind.get("_type") == "ClassLabel"}
    except (ValueError, LookupError, TypeError, AttributeError):  # a file that `datasets` has not written
        return {}


def _saved(path: Path, columns: Sequence[str], split: str) -> FileTable:
    """A folder of `Dataset.save_to_disk` or `DatasetDict.save_to_disk`."""
    import datasets

    if not any((path / name).is_file() for name in ("dataset_dict.json", "state.json")):
        raise DataError(f"{path} is a folder, and `datasets` has not saved it; give a file with records.")
    try:
        found = datasets.load_from_disk(str(path))
    except Exception as error:  # whatever three libraries raise for a folder that is damaged
        raise DataError(f"The data set in {path} cannot be loaded ({type(error).__name__}); save it again.") from None
    if isinstance(found, datasets.DatasetDict):
        if split not in found:
            known = ", ".join(map(str, found))
            raise DataError(f"The data set in {path} has no split '{split}', but {known}; save one of that name.")
        found = found[split]
    if not set(columns) <= set(found.column_names):
        raise lacks(path, columns, found.column_names)
    kept: Any = found.select_columns(list(columns)) if columns else found
    names = {name: kind.names for name, kind in found.features.items() if isinstance(kind, datasets.ClassLabel)}
    return FileTable(path, "record", (FileRow(number, row) for number, row in enumerate(kept, start=1)), names)


_LINES = (".jsonl", ".ndjson")
_READERS: Mapping[str, Callable[[Path, Sequence[str], str], FileTable]] = {
    **dict.fromkeys(_LINES, _json_lines),
    ".json": _json_document,
    ".csv": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
}
#: Endings of the files that are read.
SUFFIXES = tuple(_READERS)
