"""`dpicl list`: what there is."""

from __future__ import annotations

import argparse
from typing import Any

from dpicl.api import lists
from dpicl.cli import output
from dpicl.cli.arguments import Subparsers, add_command

_KINDS = ("tasks", "mechanisms", "attacks", "models", "suites")

#: What a table leaves to JSON, so that its lines stay short.
_IN_JSON = {
    "mechanisms": ("knob", "options", "published", "origin"),
    "suites": ("mechanisms",),
    "tasks": ("lm_eval", "version"),
}


def add(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "list", "dpicl list mechanisms", _list)
    parser.choice("kind", _KINDS, "what to list", kind="list")
    parser.share("--plugin")


def _list(arguments: argparse.Namespace) -> int:
    plugins = arguments.plugin
    listed = getattr(lists, f"list_{arguments.kind}")
    rows: list[dict[str, Any]] = listed() if arguments.kind == "suites" else listed(plugins)
    columns = [each for each in (rows[0] if rows else ["name"]) if each not in _IN_JSON.get(arguments.kind, ())]
    table = [[_text(row[column]) for column in columns] for row in rows]
    return output.answer(arguments, rows, lambda: output.emit_table(columns, table))


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={item}" for name, item in value.items()) or "-"
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if value is None or isinstance(value, bool):
        return "-" if value is None else "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
