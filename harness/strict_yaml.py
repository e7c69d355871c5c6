"""YAML that remembers its lines, so that an error can say where it is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.errors import UsageError

#: Keys and list positions from the top of a document to a value.
Place = tuple[str | int, ...]

_DEEPEST = 20


class _Loader(yaml.SafeLoader):
    """The safe loader, with `1e-5` read as a number (YAML 1.1 takes it for a text)."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


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


def read(path: Path) -> Document:
    """Parses one YAML file. Raises UsageError, with the line, when it is no YAML or names a key twice."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"Cannot read {path}: {error}.") from error
    lines: dict[Place, int] = {}
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        data = None if node is None else _plain(loader, node, path, (), lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}" if mark else ""
        raise UsageError(f"{path}{where}: this is not valid YAML ({error.problem}).") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: this is not valid YAML ({error}).") from error
    return Document(path, data, lines)


def _plain(loader: _Loader, node: yaml.Node, path: Path, place: Place, lines: dict[Place, int]) -> Any:
    if len(place) > _DEEPEST:
        raise UsageError(f"{path}, line {node.start_mark.line + 1}: nested deeper than {_DEEPEST} levels.")
    lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        loader.flatten_mapping(node)
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(_value(loader, key_node, path))
            line = key_node.start_mark.line + 1
            if key in mapping:
                raise UsageError(f"{path}, line {line}: the key '{key}' is given twice; keep one.")
            lines[(*place, key)] = line
            mapping[key] = _plain(loader, value_node, path, (*place, key), lines)
        return mapping
    if isinstance(node, yaml.SequenceNode):
        return [_plain(loader, item, path, (*place, i), lines) for i, item in enumerate(node.value)]
    return _value(loader, node, path)


def _value(loader: _Loader, node: yaml.Node, path: Path) -> Any:
    """A plain value. Raises UsageError for one that is not what its tag, or its look, says: the date 2024-13-45."""
    try:
        return loader.construct_object(node)
    except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError):
        kind = str(node.tag).rpartition(":")[2]
        raise UsageError(
            f"{path}, line {node.start_mark.line + 1}: this is no {kind}; correct it, or put it in quotes."
        ) from None
