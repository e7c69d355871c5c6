"""Calibrated answers on disk, one small JSON file each, so that no search is done twice.

The key holds everything that the answer depends on: the knob and the event in its middle, epsilon, delta, mode, the
accounting code and the versions of both accountants. A reader checks besides that the stored events are still those at
the stored knob, so that an edited mechanism is calibrated again. Every file holds a checksum over its key and its
answer: a damaged one counts as absent and is written again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dp_accounting import dp_event as dp

from dpicl.core import json_text
from dpicl.core.errors import UnsupportedEvent
from dpicl.core.files import put_whole
from dpicl.core.paths import cache_folder
from dpicl.core.vocabulary import Knob
from dpicl.privacy.bounds import Bounds
from dpicl.privacy.events import from_json, to_json

logger = logging.getLogger(__name__)

#: Stands for the user's cache folder: see `dpicl.core.paths`.
DEFAULT = Path("default")


def folder(where: Path | None) -> Path | None:
    """The folder meant: DEFAULT is `calibration` in the user's cache folder; None stores nothing."""
    return cache_folder() / "calibration" if where == DEFAULT else where


def key(name: str, knob: Knob, middle: dp.DpEvent, epsilon: float, delta: float, mode: str) -> str:
    """sha256 over everything that the answer depends on. middle: the event in the middle of the knob's range."""
    parts = [name, dataclasses.asdict(knob), repr(middle), epsilon, delta, mode, accounting_code()]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@cache
def accounting_code() -> str:
    """sha256 over the accounting's own source and the versions of the accountants."""
    digest = hashlib.sha256()
    for name in ("dp-accounting", "prv-accountant"):
        digest.update(f"{name}={version(name)}\n".encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def number_key(what: str, event: dp.DpEvent, delta: float, upper: float) -> str:
    """sha256 over everything that a number about an event depends on."""
    parts = [what, repr(event), delta, upper, accounting_code()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def read(where: Path | None, name: str) -> tuple[float, Bounds, dp.DpEvent] | None:
    """The stored knob, its bounds and its event, or None when there are none that can be read."""
    if (data := _read(where, name)) is None:
        return None
    try:
        bounds = Bounds(**{**data["bounds"], "notes": tuple(data["bounds"]["notes"])})
        return float(data["knob"]), bounds, from_json(data["event"])
    except (ValueError, OverflowError, LookupError, TypeError, AttributeError, UnsupportedEvent):
        return None


def read_number(where: Path | None, name: str) -> tuple[float | None] | None:
    """The stored number, which may be None, as a tuple; or None when there is none that can be read."""
    data = _read(where, name)
    number = data.get("number", "") if data else ""
    return (number,) if number is None or isinstance(number, float) else None


def write(where: Path | None, name: str, knob: float, bounds: Bounds, event: dp.DpEvent) -> None:
    """Stores an answer under its key, whole or not at all; a folder that cannot be written is only logged."""
    _write(where, name, {"knob": knob, "bounds": dataclasses.asdict(bounds), "event": to_json(event)})


def write_number(where: Path | None, name: str, number: float | None) -> None:
    """Stores a number under its key, as `write` does."""
    _write(where, name, {"number": number})


def _read(where: Path | None, name: str) -> dict[str, Any] | None:
    """What was stored; None where there is nothing, or its checksum does not fit."""
    if (place := folder(where)) is None:
        return None
    path = place / f"{name}.json"
    try:
        data = json_text.loads(json_text.text_of(path), plain=False)
        if not isinstance(data, dict) or data.pop("checksum", None) != _checksum(name, data):
            raise ValueError("its checksum does not fit")
        return data
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        logger.warning("Calibrating again: the cache file %s cannot be read (%s).", path, error)
        return None


def _write(where: Path | None, name: str, data: dict[str, Any]) -> None:
    if (place := folder(where)) is None:
        return
    # Through JSON, as a reader will see it: tuples become lists.
    data["checksum"] = _checksum(name, json.loads(json.dumps(data)))
    try:
        put_whole(place / f"{name}.json", json.dumps(data), synced=False)
    except OSError as error:
        logger.warning("The calibration is not cached: %s", error)


def _checksum(name: str, data: Any) -> str:
    """blake2b over the key and the answer as it stands in the file."""
    return hashlib.blake2b(json.dumps([name, data], sort_keys=True).encode(), digest_size=16).hexdigest()
