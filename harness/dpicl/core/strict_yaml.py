"""Reads YAML with line numbers for errors, and with a limit on its expanded size.

Plain data alone: no aliases (nine lines of them can stand for gigabytes), no merged keys, no tags that stand for
objects, a bounded size and depth, and numbers that a program can hold.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dpicl.core.errors import UsageError
from dpicl.core.json_text import WHOLE, text_of

try:
    from yaml import CSafeLoader as SafeLoader  # libyaml's, five times as fast
except ImportError:  # PyYAML was built without it
    from yaml import SafeLoader  # type: ignore[assignment]

#: Keys and list positions from the top of a document to a value.
Place = tuple[str | int, ...]

#: Levels, and bytes, of one file.
_DEEPEST, _LARGEST = 20, 1_000_000
#: Tags of plain mappings and lists.
_COLLECTIONS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
#: Control characters and halves of surrogate pairs, which YAML's escapes can write.
_ODD = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
#: How YAML writes the infinite; any other number that is infinite was too large to be one.
_INFINITE = re.compile(r"[-+]?\.inf", re.IGNORECASE)


class _Loader(SafeLoader):
    """The safe loader, with `1e-5` read as a number (YAML 1.1 takes it for a text)."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


class Function(str):
    """What lm-eval's `!function module.name` names: the text 'module.name'. Nothing is imported."""


class _FunctionLoader(_Loader):
    """The loader that knows `!function` as well."""


_FunctionLoader.add_constructor("!function", lambda loader, node: Function(node.value))


@dataclass(frozen=True)
class Document:
    """A parsed file: plain data, and the line (from 1) of every key and list item."""

    path: Path
    data: Any
    lines: dict[Place, int]

    def error(self, place: Place, message: str) -> UsageError:
        """A UsageError that names file and line; a place that is not in the file falls back to what holds it."""
        while place and place not in self.lines:
            place = place[:-1]
        return UsageError(f"{self.path}, line {self.lines.get(place, 1)}: {message}")


def read(path: Path, functions: bool = False) -> Document:
    """Parses one YAML file. functions: whether `!function` is known, as in the files of tasks.

    Raises UsageError, with the line, when it is no YAML, names a key twice, or is more than plain data.
    """
    try:
        return parse(text_of(path, _LARGEST), path, functions)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"Cannot read {path}: {reason}.") from error


def parse(text: str, path: Path, functions: bool = False) -> Document:
    """As `read`, of a text; path: what messages call it."""
    lines: dict[Place, int] = {}
    kind = _FunctionLoader if functions else _Loader
    try:
        _require_plain(text, path, kind)
        loader = kind(text)
        node = loader.get_single_node()
        data = None if node is None else _to_plain(loader, node, path, (), lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}" if mark else ""
        raise UsageError(f"{path}{where}: this is not valid YAML ({error.problem}).") from error
    except yaml.YAMLError as error:
        raise UsageError(
            f"{path}: this is not valid YAML ({' '.join(str(error).split())})."
        ) from error
    # PyYAML's scanner on an escape of no character
    except (
        ValueError,
        IndexError,
        OverflowError,
    ) as error:
        raise UsageError(f"{path}: this is not valid YAML ({type(error).__name__}).") from error
    return Document(path, data, lines)


def _require_plain(text: str, path: Path, kind: type[SafeLoader]) -> None:
    """Raises UsageError for aliases and deep nesting, event by event, before anything is built."""
    depth = 0
    for event in yaml.parse(text, Loader=kind):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent):
            raise UsageError(
                f"{path}, line {line}: YAML aliases are not supported; write the value out."
            )
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(
            event, yaml.CollectionEndEvent
        )
        if depth > _DEEPEST:
            raise UsageError(f"{path}, line {line}: nested deeper than {_DEEPEST} levels.")


def _to_plain(
    loader: SafeLoader, node: yaml.Node, path: Path, place: Place, lines: dict[Place, int]
) -> Any:
    lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.CollectionNode) and node.tag not in _COLLECTIONS:
        raise UsageError(
            f"{path}, line {node.start_mark.line + 1}: YAML tags such as {node.tag[:60]} are not supported."
        )
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, Any] = {}
        for key, line, value_node in _items(loader, node, path):
            if key in mapping:
                raise UsageError(f"{path}, line {line}: the key '{key}' is given twice; keep one.")
            lines[(*place, key)] = line
            mapping[key] = _to_plain(loader, value_node, path, (*place, key), lines)
        return mapping
    if isinstance(node, yaml.SequenceNode):
        return [
            _to_plain(loader, item, path, (*place, i), lines) for i, item in enumerate(node.value)
        ]
    return _value(loader, node, path)


def _items(
    loader: SafeLoader, node: yaml.MappingNode, path: Path
) -> Iterator[tuple[str, int, yaml.Node]]:
    """(key, its line, value) of a mapping."""
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode) or key_node.tag.endswith((":merge", ":value")):
            raise UsageError(
                f"{path}, line {line}: a key is a plain word; merge keys are not supported."
            )
        # refuses what is no value; a key is the word that stands there
        value = _value(loader, key_node, path)
        yield value if isinstance(value, str) else key_node.value, line, value_node


def _value(loader: SafeLoader, node: yaml.Node, path: Path) -> Any:
    """A plain value. Raises UsageError for one that is not what its tag, or its look, says: the date 2024-13-45."""
    line, kind = node.start_mark.line + 1, str(node.tag).rpartition(":")[2]
    try:
        value = loader.construct_object(node)
    except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError):
        raise UsageError(
            f"{path}, line {line}: this is not a valid {kind}; correct it, or put it in quotes."
        ) from None
    if isinstance(value, int) and abs(value) >= WHOLE:
        raise UsageError(
            f"{path}, line {line}: this whole number is too large; 2^53 and above are not exact."
        )
    if isinstance(value, float) and math.isinf(value) and not _INFINITE.fullmatch(node.value):
        raise UsageError(
            f"{path}, line {line}: this is too large for a number; write .inf for infinity."
        )
    odd = _ODD.search(value) if isinstance(value, str) else None
    if odd is not None:
        raise UsageError(
            f"{path}, line {line}: this holds U+{ord(odd[0]):04X}, which no text has; remove it."
        )
    return value
