"""Files as strangers, editors and failing disks leave them: seeded mutations of bytes and of parsed values."""

from __future__ import annotations

import copy
import random
from typing import Any

DEEP: Any = 1
for _ in range(100):
    DEEP = [DEEP]
_NUMBERS = (-1, 0, 1, 2, 0.5, 1.5, -0.0, 1e308, -1e308, 5e-324, 2**53, 2**63, 10**400, -(10**400))
_WORDS = r"""x NaN Infinity -Infinity 1e400 ../../x ../../../../etc/passwd /etc/passwd C:\nul con {text.__class__} 1/0
2024-13-45 yes ${jndi:ldap://x} --run-code <script>alert(1)</script> 0001-01-01T00:00:00+23:59
9999-12-31T23:59:59-23:59"""
_ODD_TEXTS = ("", " ", "\0", "\n\r\t", "\ud800", "a\udfffb", "\x1b[2J\u202e\u2066", "\N{FULLWIDTH DIGIT ONE}")
_LONG = ("x" * 100_000, "9" * 400 + "/3", "{{ 9 ** 9 ** 9 }}", "!function os.getcwd", list(range(20_000)), DEEP)
_REPEATED = {"event": "repeat", "count": 10**9, "of": {"event": "gaussian", "noise_multiplier": 1e-300}}
_HOLDERS = ([], {}, [None], [[]], {"a": 1}, {"": None}, {"\ud800": 1}, {"\x1b": "\x1b"}, _REPEATED)
#: Values that a careless reader stumbles over; `json.dumps` writes all of them.
VALUES: tuple[Any, ...] = (
    *(None, True, False, float("nan"), float("inf"), float("-inf")),
    *(*_NUMBERS, *_WORDS.split(), *_ODD_TEXTS, *_LONG, *_HOLDERS),
    {"event": "parallel", "of": {"a": {"event": "none"}}},
)
_PLAIN_YAML = r""""\ud800" "\x1b[31m" "\0" "\U00110000" "\UFFFFFFFF" *nowhere 2024-13-45 .nan -.inf 1e999 1:2:3 ~ | >"""
#: Pieces of YAML.
YAML: tuple[str, ...] = (
    *_PLAIN_YAML.split(),
    *("&a [*a, *a]", "<<: {a: 1}", "<<: *a", "? [a, b]\n: c", "- - - - a", "---\n---", "\t- a", "%YAML 9.9", "null"),
    *("!!python/object/apply:os.system [id]", "!<tag:yaml.org,2002:python/name:os.system> x", "!function os.getcwd"),
    *(f"!!{kind} x" for kind in ("binary", "int", "float", "bool", "merge", "null")),
    *("!!timestamp 9999-99-99", "2001-01-01 00:00:00 +99:99", "0x" + "f" * 5000, "[" * 2000, "{a: " * 300),
    *("'" + "y" * 50_000 + "'", "\ufeff", "\x85", '"\\ud800": 1'),
)
_RAW = "\0", "\\ud800", "[" * 5000, '{"a":' * 3000, "9" * 5000, *"\r\n\t:{]\"'", *YAML
TOKENS = (b"\xff\xfe", b"\xed\xa0\x80", *(text.encode("utf-8") for text in _RAW))


def bytes_mutated(content: bytes, rng: random.Random) -> bytes:
    """The content with one to three places flipped, cut out, doubled or filled with something hostile, or the text in
    another encoding, as editors write it."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(content) + 1)
        end = min(len(content), at + rng.choice((1, 1, 4, 40, 400)))
        match rng.randrange(7):
            case 0:
                content = content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :]
            case 1:
                content = content[:at] + content[end:]
            case 2:
                content = content[:end] + content[at:]
            case 3:
                content = content[:at]
            case 4:
                text = "é" + content.decode("utf-8", "replace")
                content = text.encode(rng.choice(("utf-16", "utf-32", "latin-1", "utf-8-sig", "cp037")), "replace")
            case _:
                content = content[:at] + rng.choice(TOKENS) + content[at:]
    return content


def value_mutated(value: Any, rng: random.Random) -> Any:
    """A parsed value with one to three nodes replaced, removed, renamed, doubled or exchanged."""
    value = copy.deepcopy(value)
    for _ in range(rng.randint(1, 3)):
        places = _places(value)
        if not places:
            return rng.choice(VALUES)
        holder, key = rng.choice(places)
        match rng.randrange(7):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[rng.choice(("", "x", "\ud800", "a.b", "__class__", "event"))] = holder.pop(key)
            case 2 if isinstance(holder, list):
                holder.insert(key, holder[key])
            case 3:
                other, place = rng.choice(places)
                holder[key] = copy.deepcopy(other[place])
            case _:
                like = [one for one in VALUES if type(one) is type(holder[key])]  # most schemas ask for the type first
                holder[key] = copy.deepcopy(rng.choice(like if like and rng.random() < 0.4 else VALUES))
    return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    """(object or list, key or index) of every node below a value."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        for key in list(holder) if isinstance(holder, dict) else range(min(len(holder), 50)):
            found.append((holder, key))
            if isinstance(holder[key], dict | list) and holder[key] is not DEEP:
                waiting.append(holder[key])
    return found


_CELL = {"cell_id": "0123456789abcdef", "task": "agnews", "epsilon": 1.0, "seed": 0, "reported": 0.5, "reproduced": 0.5}
#: A sound reproduced.json.
AGAIN = {
    "schema_version": 1,
    "cells": [{**_CELL, "identical": True, "by": "A. Author", "created": "2026-01-02", "commit": None}],
}
