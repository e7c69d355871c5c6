"""The reader of wandb's run files, against files that are made by hand."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from dpicl.leaderboards.publish.run_file import DamagedRunFile, read, records

HEAD = b":W&B\xe1\xbe\x00"


def piece(kind: int, data: bytes) -> bytes:
    return struct.pack("<IHB", zlib.crc32(bytes([kind]) + data), len(data), kind) + data


def history(text: str) -> bytes:
    from wandb.proto import wandb_internal_pb2 as internal

    record = internal.Record()
    item = record.history.item.add()
    item.key, item.value_json = "x", f'"{text}"'
    return bytes(record.SerializeToString())


def test_records_come_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "run.wandb"
    path.write_bytes(HEAD + piece(1, history("a")) + piece(1, history("b")))
    assert read(path).history == [{"x": "a"}, {"x": "b"}]


def test_a_record_may_go_on_over_blocks(tmp_path: Path) -> None:
    record = history("long " * 20_000)
    first = 32 * 1024 - len(HEAD) - 7
    second = 32 * 1024 - 7
    parts = record[:first], record[first : first + second], record[first + second : first + 2 * second]
    rest = record[first + 2 * second :]
    path = tmp_path / "run.wandb"
    path.write_bytes(HEAD + piece(2, parts[0]) + piece(3, parts[1]) + piece(3, parts[2]) + piece(4, rest))
    assert len(read(path).history[0]["x"]) == 100_000


def test_the_end_of_a_block_that_holds_no_head_is_skipped() -> None:
    room = 32 * 1024 - len(HEAD) - 7
    overhead = len(history("f" * 30_000)) - 30_000  # the same for every text of this size
    first = history("f" * (room - 5 - overhead))
    gap = room - len(first)
    assert 0 < gap < 7
    content = HEAD + piece(1, first) + b"\0" * gap + piece(1, history("b"))
    assert [record.history.item[0].value_json[:2] for record in records(content)] == ['"f', '"b']


def test_one_changed_byte_is_found() -> None:
    content = bytearray(HEAD + piece(1, history("a")))
    content[-2] ^= 1
    with pytest.raises(DamagedRunFile, match="checksum"):
        list(records(bytes(content)))


@pytest.mark.parametrize("content", [b"", b"{}", HEAD[:-1] + b"\x09"])
def test_other_files_are_refused(content: bytes) -> None:
    with pytest.raises(DamagedRunFile, match="begin"):
        list(records(content))
