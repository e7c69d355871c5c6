"""Caches calibrations and slacks on disk.

The key holds everything that an answer depends on: the knob and the event in its middle, epsilon, delta, mode, the
accounting code and the versions of both accountants. A reader checks besides that the stored events are still those at
the stored knob, so that an edited mechanism is calibrated again. Files are those of `dpicl.core.output_cache`: damage
counts as absence, and a folder that cannot be used costs time alone.
"""

from __future__ import annotations

import dataclasses
import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dpicl.accounting import dp_event as dp
from dpicl.accounting.bounds import Bounds
from dpicl.accounting.events import from_json, to_json
from dpicl.core.errors import UnsupportedEvent
from dpicl.core.output_cache import OutputCache, key_of
from dpicl.core.paths import cache_folder
from dpicl.core.vocabulary import Knob

#: Stands for the folder `calibration` in the user's cache folder: see `dpicl.core.paths`.
DEFAULT = Path("default")
#: What stands where outputs have a model and a task.
_PLACE = ("accounting", "all")


def key(
    name: str,
    knob: Knob,
    middle: dp.DpEvent,
    epsilon: float,
    delta: float,
    mode: str,
) -> bytes:
    """Of everything that the answer depends on. middle: the event in the middle of the knob's range."""
    return key_of(
        name,
        dataclasses.asdict(knob),
        repr(middle),
        epsilon,
        delta,
        mode,
        accounting_code(),
    )


def slack_key(event: dp.DpEvent, delta: float, upper: float) -> bytes:
    """Of everything that the slack of an event depends on."""
    return key_of("slack", repr(event), delta, upper, accounting_code())


@cache
def accounting_code() -> str:
    """sha256 over the accounting's own source and the versions of the accountants."""
    digest = hashlib.sha256()
    for name in ("dp-accounting", "prv-accountant"):
        digest.update(f"{name}={version(name)}\n".encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def read(
    where: Path | None,
    key: bytes,
) -> tuple[float, Bounds, dp.DpEvent] | None:
    """The stored knob, its bounds and its event, or None when there are none that can be read."""
    try:
        (data,) = read_value(where, key) or ({},)
        bounds = Bounds(**{**data["bounds"], "notes": tuple(data["bounds"]["notes"])})
        return float(data["knob"]), bounds, from_json(data["event"])
    except (ValueError, OverflowError, LookupError, TypeError, AttributeError, UnsupportedEvent):
        return None


def write(
    where: Path | None,
    key: bytes,
    knob: float,
    bounds: Bounds,
    event: dp.DpEvent,
) -> None:
    """Stores an answer under its key."""
    write_value(
        where,
        key,
        {"knob": knob, "bounds": dataclasses.asdict(bounds), "event": to_json(event)},
    )


def read_value(where: Path | None, key: bytes) -> tuple[Any] | None:
    """The stored value, which may be None, as a tuple; or None where there is none."""
    values = {} if where is None else _find_cache(where).get(*_PLACE, [key])
    return (values[key],) if key in values else None


def write_value(where: Path | None, key: bytes, value: Any) -> None:
    if where is not None:
        _find_cache(where).put(*_PLACE, {key: value})


def _find_cache(where: Path) -> OutputCache:
    return _open(cache_folder() / "calibration" if where == DEFAULT else where)


@cache
def _open(folder: Path) -> OutputCache:
    return OutputCache(folder)
