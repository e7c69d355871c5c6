"""Random damage to a submission, as a stranger with an editor and bad intentions would do it."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dpicl.harness.core.cell import Cell
from dpicl.harness.run.store import Store

DEEP: Any = []
for _ in range(300):
    DEEP = [DEEP]

#: Values that a careless reader stumbles over; `json.dumps` writes all of them.
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1e308,
    -1e308,
    5e-324,
    2**53,
    2**63,
    10**400,
    -(10**400),
    float("inf"),
    float("-inf"),
    float("nan"),
    "NaN",
    "Infinity",
    "1e400",
    "",
    " ",
    "\ud800",
    "a\udfffb",
    "\x00",
    "\x1b[2J\x1b[31m",
    "\u202e\u2066",
    "\n\r\t",
    "../../../../etc/passwd",
    "/etc/passwd",
    "C:\\nul",
    "con",
    "x" * 100_000,
    "{{ 7 * 7 }}",
    "<script>alert(1)</script>",
    "${jndi:ldap://x}",
    "--run-code",
    [],
    {},
    [[]],
    {"": None},
    {"\ud800": 1},
    {"\x1b": "\x1b"},
    {"event": "repeat", "count": 10**9, "of": {"event": "gaussian", "noise_multiplier": 1e-300}},
    {"event": "parallel", "of": {"a": {"event": "none"}}},
    DEEP,
    list(range(20_000)),
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59",
    "\N{FULLWIDTH DIGIT ONE}",
]
NAMES = ["\x1b[31m.json", "a\nb.json", "\udcff.json", "x" * 250, "con.json", "a:b.json", "..json", "é.json", "A" * 60]
YAML = [
    '"\\ud800"',
    '"\\ud800": 1',
    '"\\x1b[31m"',
    '"\\0"',
    "0x" + "f" * 5000,
    "[" * 2000,
    "{a: " * 300,
    "&a [*a, *a]",
    "*nowhere",
    "!!python/object/apply:os.system [id]",
    "!!binary x",
    "2024-13-45",
    ".nan",
    "-.inf",
    "1e999",
    "? [a, b]\n: c",
    "<<: {a: 1}",
    "1:2:3",
    "~",
    "|",
    "- - - - a",
    "'" + "y" * 50_000 + "'",
    "\ufeff",
    "\x85",
    "%YAML 9.9",
    '"\\U00110000"',
    '"\\UFFFFFFFF"',
    "!!int x",
    "!!float x",
    "!!bool maybe",
    "!!merge x",
    "!!null x",
    "!!timestamp 9999-99-99",
    "!<tag:yaml.org,2002:python/name:os.system> x",
    "2001-01-01 00:00:00 +99:99",
    "---\n---",
    "\t- a",
]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a JSON value, but of a long list the first few items only."""
    found = [path]
    if isinstance(value, dict):
        for key, item in value.items():
            found += places(item, (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value[:3]):
            found += places(item, (*path, i))
    return found


def damage_json(data: Any, chance: random.Random) -> Any:
    """The value with one place replaced, removed, added to or renamed."""
    path = chance.choice(places(data))
    if not path:
        return deepcopy(chance.choice(VALUES))
    holder = data
    for step in path[:-1]:
        holder = holder[step]
    like = [one for one in VALUES if type(one) is type(holder[path[-1]])]
    value = deepcopy(
        chance.choice(like if like and chance.random() < 0.6 else VALUES)
    )  # most schemas ask for the type first
    match chance.randrange(6):
        case 0:
            del holder[path[-1]]
        case 1 if isinstance(holder, dict):
            holder[str(value)[:50]] = holder.pop(path[-1])
        case 2 if isinstance(holder[path[-1]], dict):
            holder[path[-1]][str(value)[:50]] = value
        case 3 if isinstance(holder[path[-1]], list):
            holder[path[-1]].append(value)
        case _:
            holder[path[-1]] = value
    return data


def a_result(folder: Path, chance: random.Random) -> None:
    """A result file whose JSON is damaged; half of the time it is named as its content then says."""
    path = chance.choice(sorted(folder.glob("results/*/*/*/*/*.json")))
    data = json.loads(path.read_text())
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        data = damage_json(data, chance)
    if chance.random() < 0.6 and isinstance(data, dict):
        path = _renamed(folder, path, data)
    path.write_text(json.dumps(data))


def _renamed(folder: Path, path: Path, data: dict[str, Any]) -> Path:
    """Where the damaged result belongs, with the id that it then has; its old place where it is no cell at all."""
    try:
        cell = Cell.model_validate_json(json.dumps(data.get("cell")))
        data["cell_id"] = cell.id
        data["suite"].update(name=cell.suite, version=cell.suite_version)
        target = Store(folder / "results", cell.suite).path(cell)
        target.resolve().relative_to(folder.resolve())
        target.parent.mkdir(parents=True, exist_ok=True)
        path.unlink()
        return target
    except (ValidationError, ValueError, OSError, KeyError, TypeError, AttributeError, RecursionError):
        return path


def a_record_of_a_rerun(folder: Path, chance: random.Random) -> None:
    good = {"cell_id": "0" * 16, "task": "agnews", "epsilon": 2, "seed": 0, "reported": 0.5, "reproduced": 0.5}
    data = {"schema_version": 1, "cells": [{**good, "identical": True, "by": "me", "created": "now", "commit": None}]}
    (folder / "reproduced.json").write_text(json.dumps(damage_json(data, chance)))


def a_card(folder: Path, chance: random.Random) -> None:
    path = folder / "submission.yaml"
    lines = path.read_text().splitlines()
    i = chance.randrange(len(lines))
    new = chance.choice(YAML)
    key = lines[i].partition(":")[0]
    lines[i] = chance.choice((f"{key}: {new}", new, f"{new}: 1", f"{lines[i]}\nreported: [{{task: {new}}}]"))
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))


def some_bytes(folder: Path, chance: random.Random) -> None:
    path = chance.choice([one for one in sorted(folder.rglob("*")) if one.is_file()])
    content = bytearray(path.read_bytes())
    for _ in range(chance.choice((1, 1, 4, 40))):
        place = chance.randrange(len(content) + 1)
        match chance.randrange(4):
            case 0:
                content[place:] = b""
            case 1:
                content[place : place + 1] = bytes([chance.randrange(256)])
            case 2:
                content[place:place] = chance.choice((b"\xed\xa0\x80", b"\x00", b"\x1b[2J", b"\\ud800", b"[" * 5000))
            case _:
                content[place:place] = content[: chance.randrange(200)]
    path.write_bytes(content)


def a_name(folder: Path, chance: random.Random) -> None:
    path = chance.choice(sorted(folder.rglob("*")))
    target = path.with_name(chance.choice(NAMES))
    try:
        path.rename(target)
    except OSError:
        target.with_name("x" * 80).write_text("x")


def an_entry(folder: Path, chance: random.Random) -> None:
    holder = chance.choice([folder, *(one for one in sorted(folder.rglob("*")) if one.is_dir())])
    path = holder / chance.choice([*NAMES, ".git", "HEAD", "objects", "refs", "x.py", "x.json", "README.md", ".locks"])
    if len(os.fsencode(path.name)) > 255 or path.exists():
        return
    match chance.randrange(4):
        case 0:
            path.mkdir()
        case 1:
            path.symlink_to(chance.choice(("/", "..", "nothing", path.name)))
        case 2:
            os.mkfifo(path)
        case _:
            path.write_text("x")


KINDS: list[Callable[[Path, random.Random], None]] = [
    a_result,
    a_result,
    a_result,
    a_card,
    a_record_of_a_rerun,
    some_bytes,
    a_name,
    an_entry,
]


def damage(folder: Path, seed: int) -> str:
    """One random damage, with what is random fixed by the seed; returns its kind."""
    chance = random.Random(seed)
    kind = chance.choice(KINDS)
    kind(folder, chance)
    return kind.__name__
