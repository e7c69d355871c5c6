"""Files as strangers, editors and failing disks leave them: seeded mutations of any text of values, JSON or YAML."""

import json
import random
import re
from typing import Any

_NUMBERS = (-1, 0, 1, 2, 0.5, 1.5, -0.0, 1e308, -1e308, 5e-324, 2**53, 2**63, 10**400, -(10**400))
_WORDS = r"""x NaN Infinity -Infinity 1e400 ../../x ../../../../etc/passwd /etc/passwd C:\nul con {text.__class__} 1/0
2024-13-45 yes ${jndi:ldap://x} --run-code <script>alert(1)</script> 0001-01-01T00:00:00+23:59
9999-12-31T23:59:59-23:59 a.b __class__ event"""
_ODD_TEXTS = (
    "",
    " ",
    "\0",
    "\n\r\t",
    "\ud800",
    "a\udfffb",
    "\x1b[2J\u202e\u2066",
    "\N{FULLWIDTH DIGIT ONE}",
)
_LONG = (
    "x" * 100_000,
    "9" * 400 + "/3",
    "{{ 9 ** 9 ** 9 }}",
    "!function os.getcwd",
    list(range(20_000)),
)
_REPEATED = {
    "event": "repeat",
    "count": 10**9,
    "of": {"event": "gaussian", "noise_multiplier": 1e-300},
}
_HOLDERS: tuple[Any, ...] = (
    [],
    {},
    [None],
    [[]],
    {"a": 1},
    {"": None},
    {"\ud800": 1},
    {"\x1b": "\x1b"},
    _REPEATED,
)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, float("nan"), float("inf"), float("-inf")),
    *(*_NUMBERS, *_WORDS.split(), *_ODD_TEXTS, *_LONG, *_HOLDERS),
    {"event": "parallel", "of": {"a": {"event": "none"}}},
)
#: What a careless reader stumbles over, as JSON, which is YAML too.
VALUES = (
    *(json.dumps(value).encode() for value in _VALUES),
    b"[" * 100 + b"1" + b"]" * 100,
)
_PLAIN_YAML = r""""\ud800" "\x1b[31m" "\0" "\U00110000" "\UFFFFFFFF" *nowhere 2024-13-45 .nan -.inf 1e999 1:2:3 ~ | >"""
#: Pieces of YAML.
YAML: tuple[str, ...] = (
    *_PLAIN_YAML.split(),
    *(
        "&a [*a, *a]",
        "<<: {a: 1}",
        "<<: *a",
        "? [a, b]\n: c",
        "- - - - a",
        "---\n---",
        "\t- a",
        "%YAML 9.9",
        "null",
    ),
    *(
        "!!python/object/apply:os.system [id]",
        "!<tag:yaml.org,2002:python/name:os.system> x",
        "!function os.getcwd",
    ),
    *(f"!!{kind} x" for kind in ("binary", "int", "float", "bool", "merge", "null")),
    *(
        "!!timestamp 9999-99-99",
        "2001-01-01 00:00:00 +99:99",
        "0x" + "f" * 5000,
        "[" * 2000,
        "{a: " * 300,
    ),
    *("'" + "y" * 50_000 + "'", "\ufeff", "\x85", '"\\ud800": 1'),
)
_RAW = "\0", "\\ud800", "[" * 5000, '{"a":' * 3000, "9" * 5000, *"\r\n\t:{]\"'", *YAML
TOKENS = (b"\xff\xfe", b"\xed\xa0\x80", *(text.encode("utf-8") for text in _RAW))
#: A text, an innermost list or object, a number or a word.
_NODE = re.compile(rb'"(?:[^"\\]|\\.)*"|\[[^][{}]*\]|\{[^][{}]*\}|[-+.\w]+')


def mutate(content: bytes, rng: random.Random) -> bytes:
    """The content with one to three values or places of its bytes damaged."""
    damage = _other_value if rng.random() < 0.7 else _other_bytes
    for _ in range(rng.randint(1, 3)):
        content = damage(content, rng)
    return content


def _other_value(content: bytes, rng: random.Random) -> bytes:
    """With one value, or the name of one, replaced by another of the file or by something hostile."""
    nodes = [*_NODE.finditer(content)]
    if not nodes:
        return content
    old = rng.choice(nodes)
    like = [
        one for one in VALUES if (one[:1] == b'"') == (old[0][:1] == b'"')
    ]  # most schemas ask for the type first
    new = rng.choice(
        (
            rng.choice(nodes)[0],
            rng.choice(like),
            rng.choice(VALUES),
            rng.choice(TOKENS),
        )
    )
    return content[: old.start()] + new + content[old.end() :]


def _other_bytes(content: bytes, rng: random.Random) -> bytes:
    """With one place flipped, cut out, doubled or filled with something hostile, or in another encoding, as editors
    write it."""
    at = rng.randrange(len(content) + 1)
    end = min(
        len(content),
        at + rng.choice((1, 1, 4, 40, 400)),
    )
    match rng.randrange(7):
        case 0:
            return content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :]
        case 1:
            return content[:at] + content[end:]
        case 2:
            return content[:end] + content[at:]
        case 3:
            return content[:at]
        case 4:
            text = "é" + content.decode("utf-8", "replace")
            return text.encode(
                rng.choice(("utf-16", "utf-32", "latin-1", "utf-8-sig", "cp037")), "replace"
            )
        case _:
            return content[:at] + rng.choice(TOKENS) + content[at:]
