"""Reads a `.wandb` run file, record by record.

The file is a 7-byte header (":W&B", magic number 0xBEE1 little-endian, version 0) and then a LevelDB log: blocks of
32 KiB, in them pieces with a 7-byte head (checksum of type and data, length, type: 1 full, 2 first, 3 middle, 4 last);
the last few bytes of a block that cannot hold a head are zero. A record is a protobuf `Record`. The checksum is the
plain CRC32 of zlib, where LevelDB itself has a masked CRC32-C.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_BLOCK = 32 * 1024
_HEAD = struct.Struct("<IHB")
_FILE_HEAD = b":W&B" + struct.pack("<HB", 0xBEE1, 0)
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


class DamagedRunFile(ValueError):
    """The file is no run file, or a piece of it fails its checksum."""


@dataclass
class RunFile:
    """What a run file says. run, artifacts: protobuf records. finished: it has an exit record with code 0."""

    run: Any = None
    config: dict[str, Any] = field(default_factory=dict)
    metrics: list[Any] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    artifacts: list[Any] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    finished: bool = False


def read(path: Path) -> RunFile:
    """Everything in the file. Raises DamagedRunFile."""
    found = RunFile()
    for record in records(path.read_bytes()):
        kind = record.WhichOneof("record_type")
        found.kinds.append(kind)
        if kind == "run":
            found.run = record.run
            found.config.update(_items(record.run.config.update))
        elif kind == "config":
            found.config.update(_items(record.config.update))
        elif kind == "metric":
            found.metrics.append(record.metric)
        elif kind == "history":
            found.history.append(_items(record.history.item))
        elif kind == "summary":
            found.summary.update(_items(record.summary.update))
        elif kind == "artifact":
            found.artifacts.append(record.artifact)
        elif kind == "exit":
            found.finished = record.exit.exit_code == 0
    return found


def records(content: bytes) -> Iterator[Any]:
    """Every record of a run file's content. Raises DamagedRunFile."""
    if content[: len(_FILE_HEAD)] != _FILE_HEAD:
        raise DamagedRunFile("it does not begin as a run file does")
    whole = b""
    for kind, data in _pieces(content):
        whole = data if kind in (_FULL, _FIRST) else whole + data
        if kind in (_FULL, _LAST):
            yield _record(whole)


def _record(content: bytes) -> Any:
    from google.protobuf.message import DecodeError
    from wandb.proto import wandb_internal_pb2

    record = vars(wandb_internal_pb2)["Record"]()
    try:
        record.ParseFromString(content)
    except DecodeError as error:
        raise DamagedRunFile(f"a record cannot be read: {error}") from error
    return record


def _pieces(content: bytes) -> Iterator[tuple[int, bytes]]:
    """(type, data). The file's own header lies in the first block."""
    at = len(_FILE_HEAD)
    while at + _HEAD.size <= len(content):
        left = _BLOCK - at % _BLOCK
        if left < _HEAD.size:
            at += left
            continue
        checksum, length, kind = _HEAD.unpack_from(content, at)
        data = content[at + _HEAD.size : at + _HEAD.size + length]
        if len(data) < length or zlib.crc32(bytes([kind]) + data) != checksum:
            raise DamagedRunFile(f"the piece at byte {at} fails its checksum")
        yield kind, data
        at += _HEAD.size + length


def _items(items: Any) -> dict[str, Any]:
    """Keys to values; a nested key as 'a.b'."""
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}
