"""Bounds what a packed table may unpack to, before it is read: 120 KB of Parquet or of Excel can stand for gigabytes.

What a file says of its own sizes is not believed. A first pass counts, a batch of rows at a time, and stops at the
limit; nothing of it stays in memory.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpicl.core.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

#: Bytes of a file, and of what it unpacks to.
LARGEST = 2_000_000_000
#: What any file may unpack to, and how many times its own size: real text packs ten times at most.
_ALWAYS, _TIMES = 100_000_000, 100
#: Bytes that a program needs for a value besides its text; of XML in a workbook.
_VALUE, _WORKBOOK = 50, 300_000_000
#: Bytes of a batch whose values have a fixed size; rows of one with texts in lists.
_BATCH, _FEW = 10_000_000, 16


def check_parquet(path: Path, columns: Sequence[str]) -> None:
    """Raises DataError where these columns of a Parquet file unpack to more than it may, and what pyarrow raises for a
    damaged one."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        leaves = [file.schema.column(i) for i in range(len(file.schema))]
    texts = [leaf for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
    flat = [leaf.path for leaf in texts if leaf.path == leaf.name]
    rows = _BATCH // max([1000, *(leaf.length for leaf in leaves)]) or 1
    if len(flat) < len(texts):  # pyarrow unpacks every text of a list
        rows = min(rows, _FEW)
    # else it unpacks a text once a row
    with parquet.ParquetFile(path, read_dictionary=flat) as file:
        batches = file.iter_batches(rows, columns=list(columns))
        _check(path, (sum(map(_size_of, batch.columns)) for batch in batches))


def check_workbook(path: Path) -> int:
    """The number of sheets of an Excel workbook.

    Raises DataError where it unpacks to more than it may, and whatever openpyxl raises for a damaged one.
    """
    import openpyxl

    with zipfile.ZipFile(path) as parts:  # it reads no more of a part than is said here
        if sum(part.file_size for part in parts.infolist()) > _WORKBOOK:
            raise _too_large(path, _WORKBOOK)
    workbook = openpyxl.load_workbook(path, read_only=True, data_only=True)
    try:
        sheet = workbook.worksheets[0]
        sheet.reset_dimensions()
        _check(path, _row_sizes(sheet.iter_rows(values_only=True)))
        return len(workbook.worksheets)
    finally:
        workbook.close()


def _row_sizes(rows: Iterable[Sequence[Any]]) -> Iterator[int]:
    for row in rows:
        yield _VALUE * len(row) + sum(len(value) for value in row if isinstance(value, str))


def size_limit(path: Path) -> int:
    """Bytes that a file may unpack to. Raises OSError."""
    return min(LARGEST, max(_ALWAYS, _TIMES * path.stat().st_size))


def require_size(path: Path, size: int, most: int) -> None:
    """Raises DataError where more than ``most`` bytes were unpacked from a file."""
    if size > most:
        raise _too_large(path, most)


def _check(path: Path, sizes: Iterable[int]) -> None:
    most = size_limit(path)
    total = 0
    for size in sizes:
        total += size
        require_size(path, total, most)


def _too_large(path: Path, most: int) -> DataError:
    return DataError(
        f"{path} has {path.stat().st_size:,} bytes, and more than {most:,}, which is the most, when it is unpacked;"
        " divide it, or save it as .jsonl."
    )


def _size_of(column: pa.Array) -> int:
    """Bytes of the values of a column as a program would hold them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind) and not pa.types.is_primitive(kind.value_type):
        lengths = pc.binary_length(column.dictionary)
        return _VALUE * len(column) + (pc.sum(lengths.take(column.indices)).as_py() or 0)
    if pa.types.is_struct(kind):
        return _VALUE * len(column) + sum(map(_size_of, column.flatten()))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        inner = [column.keys, column.items] if pa.types.is_map(kind) else [column.flatten()]
        return _VALUE * len(column) + sum(map(_size_of, inner))
    return _VALUE * len(column) + column.nbytes
