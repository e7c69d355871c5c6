"""Reads untrusted JSON safely.

What passes is plain: one value a key, a bounded depth and size, finite numbers, whole numbers that every program holds
exactly, and texts that UTF-8 can write. Everything else is a ValueError with the reason in a few words.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pydantic_core

from dpicl.core.files import NotRegular, content_of

#: Levels of objects and lists; no file of this project has more than 20.
DEEPEST = 40
#: Bytes of one document. The largest result in the results of record has 200 KB.
LARGEST = 50_000_000
#: Whole numbers of this size and above are not exact in every program that reads JSON.
WHOLE = 2**53
_WITHOUT_NUMBERS = frozenset({str, bool, type(None)})
_SPACED_COLON = re.compile(r'"[ \t\n\r]+:')


def loads(text: str | bytes, largest: int = LARGEST, plain: bool = True) -> Any:
    """The value of a JSON text (bytes: in UTF-8). Raises ValueError with the reason in a few words, never the text.

    plain: whether numbers and texts are looked at as well; without it only the form is, for files with more in them
    than is read.
    """
    if len(text) > largest:
        raise ValueError(f"it has {len(text):,} bytes, {largest:,} is the most")
    if isinstance(text, bytes):
        text = _decode(text)
    if plain and (parsed := _parse_fast(text)) is not None:
        return parsed
    try:
        value = json.loads(
            text,
            object_pairs_hook=refuse_repeated_keys,
            parse_constant=refuse_constant if plain else None,
        )
        _count_keys(value, plain)
    except _Refused as error:
        raise ValueError(str(error)) from None
    except RecursionError:
        raise ValueError(f"it is nested too deeply, over {DEEPEST} levels") from None
    except json.JSONDecodeError as error:  # whose own message may carry the text
        raise ValueError(f"it is not complete JSON ({error.msg}, line {error.lineno})") from None
    except ValueError:  # Python's limit of digits
        raise ValueError("it holds a number with too many digits") from None
    if plain and ("\\u" in text or not text.isascii()):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("it contains an unpaired surrogate") from None
    return value


def read(path: Path, largest: int = LARGEST) -> Any:
    """The value of a JSON file. Raises ValueError with the reason, and OSError where the file cannot be read."""
    return loads(text_of(path, largest), largest)


def text_of(path: Path, largest: int = LARGEST) -> str:
    """The text of a file that should hold JSON; no more of it than `largest` bytes is read, and nothing is waited for.

    Raises ValueError, with the reason, for what is no plain file, too large or no text, and OSError.
    """
    try:
        content = content_of(path, largest + 1)
    except NotRegular as error:
        raise ValueError(error.strerror) from None
    if len(content) > largest:
        raise ValueError(f"it has more than {largest:,} bytes")
    return _decode(content)


def sha256_of(value: Any) -> str:
    """sha256, in hexadecimal digits, of a value that JSON can hold; the order of keys makes no difference."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _decode(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None


def to_plain(value: Any) -> Any:
    """The value as JSON can hold it: infinity and NaN as texts, since JSON has no numbers for them, whatever else JSON
    does not know as its text, and halves of surrogate pairs (of names of files that are not UTF-8) written out."""
    if isinstance(value, Mapping):
        return {_to_text(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value if isinstance(value, int | float | None) else _to_text(value)


def _to_text(value: object) -> str:
    text = str(value)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _parse_fast(text: str) -> Any:
    """The value of a text that is plain for certain; None where the slow parser must decide, and says why it refuses.

    A key ends in a quotation mark before a colon, and so may other places in texts: where there are as many such places
    as there are keys in the value, no key came twice. The parser itself refuses halves of surrogate pairs.
    """
    try:
        value = pydantic_core.from_json(text, allow_inf_nan=False)
        is_plain = not _SPACED_COLON.search(text) and text.count('":') == _count_keys(value)
    except (ValueError, RecursionError):
        return None
    return value if is_plain else None


def _count_keys(value: Any, numbers: bool = True) -> int:
    """How many keys the objects in a value have. Raises _Refused for what is nested too deeply, and for numbers that
    not every program can hold."""
    keys = 0
    level: list[Any] = [[value]]
    for _ in range(DEEPEST + 2):
        inside: list[Any] = []
        for container in level:
            items = container
            if type(container) is dict:
                keys += len(container)
                items = container.values()
            kinds = set(map(type, items))
            if kinds <= _WITHOUT_NUMBERS or (kinds == {float} and math.isfinite(sum(items))):
                continue
            for item in items:
                kind = type(item)
                if kind is list or kind is dict:
                    inside.append(item)
                elif numbers and kind is float and not math.isfinite(item):
                    raise _Refused("it holds a number that is too large, or none")
                elif numbers and kind is int and abs(item) >= WHOLE:
                    raise _Refused("it holds a whole number of 2^53 or more")
        if not inside:
            return keys
        level = inside
    raise _Refused(f"it is nested too deeply, over {DEEPEST} levels")


class _Refused(ValueError):
    """Raised while a text is read; the parser turns no exception of its own into this one."""


def refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; readers differ in which of two equal keys they take."""
    values = dict(pairs)
    if len(values) < len(pairs):
        raise _Refused("an object has one key twice")
    return values


def refuse_constant(name: str) -> Any:
    """NaN and the infinite ones, which are no JSON."""
    raise _Refused(f"{name} is not JSON")
