"""Files as strangers, editors and failing disks leave them: seeded mutations of bytes, lines and parsed values."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

DEEP: Any = 1
for _ in range(60):
    DEEP = [DEEP]

VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    "",
    "x",
    "NaN",
    "Infinity",
    "-Infinity",
    -1,
    0,
    1,
    2,
    0.5,
    1.5,
    -0.0,
    1e308,
    -1e308,
    5e-324,
    2**53,
    2**63,
    10**400,
    [],
    {},
    [None],
    {"a": 1},
    DEEP,
    "\ud800",
    "\x1b[2J\u202e",
    "../../x",
    "/etc/passwd",
    "\0",
    "x" * 100_000,
    float("nan"),
    float("inf"),
    "{text.__class__}",
    "{{ 9 ** 9 ** 9 }}",
    "1/0",
    "9" * 400 + "/3",
    "2024-13-45",
    "yes",
    "!function os.getcwd",
)
TOKENS = (
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\\ud800",
    b"[" * 3000,
    b'{"a":' * 3000,
    b"&a *a",
    b"*a",
    b"<<: *a",
    b"!!python/name:os.x",
    b"!function os.getcwd",
    b"9" * 5000,
    b"1e999",
    b".nan",
    b".inf",
    b"NaN",
    b"\x1b[2J",
    b"\r",
    b"\n",
    b"\t",
    b"- ",
    b": ",
    b"{",
    b"]",
    b'"',
    b"'",
    b"null",
    b"? [a]",
    b"--- ",
    b"%YAML 9",
    b"|",
    b">",
    b"#",
)


def bytes_mutated(content: bytes, rng: random.Random) -> bytes:
    """The content with one to three places flipped, cut out, doubled, or filled with something hostile."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(content) + 1)
        end = min(len(content), at + rng.choice((1, 1, 4, 40, 400)))
        match rng.randrange(6):
            case 0:
                content = content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :]
            case 1:
                content = content[:at] + content[end:]
            case 2:
                content = content[:end] + content[at:]
            case 3:
                content = content[:at]
            case _:
                content = content[:at] + rng.choice(TOKENS) + content[at:]
    return content


def encoded_otherwise(content: bytes, rng: random.Random) -> bytes:
    """The same text in another encoding, as editors write it."""
    text = content.decode()
    kind = rng.choice(("utf-16", "utf-32", "latin-1", "utf-8-sig", "cp037"))
    return ("é" + text if kind == "latin-1" else text).encode(kind, "replace")


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
                holder[key] = rng.choice(VALUES)
    return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    """(object or list, key or index) of every node below a value."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
            found.append((holder, key))
            if isinstance(holder[key], dict | list) and holder[key] is not DEEP:
                waiting.append(holder[key])
    return found


def line_mutated(content: bytes, rng: random.Random) -> bytes:
    """A file of keys and values with one to three lines removed, doubled, moved in, or given another value."""
    lines = content.decode().split("\n")
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(lines))
        key, colon, _ = lines[at].partition(":")
        match rng.randrange(6):
            case 0:
                del lines[at : at + rng.choice((1, 1, 3))]
            case 1:
                lines.insert(at, lines[at])
            case 2:
                lines[at] = "  " + lines[at]
            case 3:
                lines[at] = key[:-1] + "x" + colon + lines[at].partition(":")[2]
            case _ if colon:
                new = rng.choice(VALUES)
                text = new if isinstance(new, str) and rng.random() < 0.5 else json.dumps(new)
                lines[at] = f"{key}: {text}"
        lines = lines or [""]
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def json_mutated(content: bytes, rng: random.Random) -> bytes:
    """A JSON file, mutated in one of these ways."""
    if rng.random() < 0.7:
        return json.dumps(value_mutated(json.loads(content), rng)).encode()
    return rng.choice((bytes_mutated, bytes_mutated, encoded_otherwise))(content, rng)


def yaml_mutated(content: bytes, rng: random.Random) -> bytes:
    """A YAML file, mutated in one of these ways."""
    if rng.random() < 0.7:
        return line_mutated(content, rng)
    return rng.choice((bytes_mutated, bytes_mutated, encoded_otherwise))(content, rng)


def jsonl_mutated(content: bytes, rng: random.Random) -> bytes:
    """A file of JSON lines with one line mutated, or its bytes."""
    if rng.random() < 0.6:
        lines = content.splitlines()
        at = rng.randrange(len(lines))
        lines[at] = json_mutated(lines[at], rng)
        return b"\n".join(lines)
    return rng.choice((bytes_mutated, encoded_otherwise))(content, rng)


Mutator = Callable[[bytes, random.Random], bytes]
