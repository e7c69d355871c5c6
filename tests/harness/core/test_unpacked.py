"""Packed tables that stand for gigabytes are refused in one sentence, and little of them is ever in memory."""

import io
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pandas
import pyarrow as pa
import pytest
from pyarrow import parquet

from dpicl.core import unpacked
from dpicl.core.errors import DataError
from dpicl.data.tables import open_table

LONG = "x" * 1_000_000


def write_parquet(path: Path, batch: pa.RecordBatch, times: int) -> Path:
    """A file that has the same rows again and again."""
    with parquet.ParquetWriter(path, batch.schema, compression="zstd") as writer:
        for _ in range(times):
            writer.write_batch(batch)
    return path


def repeat(value: Any, times: int, kind: pa.DataType) -> pa.Array:
    """The value again and again, in the memory of one."""
    return pa.DictionaryArray.from_arrays(
        pa.array([0] * times, pa.int32()), pa.array([value], kind)
    )


COLUMNS = {
    "one text": (lambda: repeat(LONG, 300, pa.string()), 1),
    "lists": (lambda: pa.array([[LONG]] * 4), 30),
    "nothing, often": (lambda: pa.nulls(2_500_000, pa.int32()), 1),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_parquet_file_that_unpacks_to_gigabytes_is_refused(name, tmp_path):
    column, times = COLUMNS[name]
    path = write_parquet(tmp_path / "a.parquet", pa.record_batch({"text": column()}), times)
    assert path.stat().st_size < 300_000
    pool = pa.system_memory_pool()
    before = pa.default_memory_pool()
    pa.set_memory_pool(watched := pa.proxy_memory_pool(pool))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="when it is unpacked"):
            open_table(path)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
        assert watched.max_memory() < 100_000_000
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)


def pack_sheet(path: Path, row: str, times: int) -> Path:
    """A workbook whose sheet has such a row again and again; `N` becomes their number."""
    pandas.DataFrame({"text": ["a"]}).to_excel(plain := io.BytesIO(), index=False)
    with (
        zipfile.ZipFile(plain) as old,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new,
    ):
        for name in old.namelist():
            if name == "xl/worksheets/sheet1.xml":
                with new.open(name, "w") as part:
                    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
                    part.write(f'<worksheet xmlns="{space}"><sheetData>'.encode())
                    for number in range(1, times + 1):
                        part.write(row.replace("N", str(number)).encode())
                    part.write(b"</sheetData></worksheet>")
            else:
                new.writestr(name, old.read(name))
    return path


WORKBOOKS = {
    "spaces": ('<row r="N">' + " " * 10_000_000 + "</row>", 4),
    "wide rows": ('<row r="N"><c r="XFDN"><v>1</v></c></row>', 50),
    "one text": (f'<row r="N"><c r="AN" t="inlineStr"><is><t>{LONG}</t></is></c></row>', 12),
}


@pytest.mark.parametrize("name", WORKBOOKS)
def test_a_workbook_that_unpacks_to_gigabytes_is_refused(name, tmp_path, monkeypatch):
    """With a tenth of the limits, so that the test is quick."""
    monkeypatch.setattr(unpacked, "_ALWAYS", unpacked._ALWAYS // 10)
    monkeypatch.setattr(unpacked, "_WORKBOOK", unpacked._WORKBOOK // 10)
    path = pack_sheet(tmp_path / "a.xlsx", *WORKBOOKS[name])
    assert path.stat().st_size < 300_000
    tracemalloc.start()
    with pytest.raises(DataError, match="when it is unpacked"):
        open_table(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50_000_000


def test_tables_of_usual_sizes_are_read(tmp_path):
    rows = pandas.DataFrame(
        {
            "text": [f"a text {n}" for n in range(300)],
            "label": 1,
        }
    )
    rows.to_parquet(tmp_path / "a.parquet")
    rows.to_excel(tmp_path / "a.xlsx", index=False)
    for name in ("a.parquet", "a.xlsx"):
        assert [dict(row.values) for row in open_table(tmp_path / name).rows] == rows.to_dict(
            "records"
        )
