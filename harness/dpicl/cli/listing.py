"""`dpicl list`: what there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from dpicl.api import lists
from dpicl.api.parameters import Plugins, verb
from dpicl.cli import output

#: What a table leaves to JSON, so that its lines stay short.
_IN_JSON = {
    "mechanisms": ("knob", "options", "published", "origin"),
    "suites": ("mechanisms",),
    "tasks": ("lm_eval", "version"),
}


def _show(rows: Sequence[dict[str, Any]], given: Mapping[str, Any]) -> None:
    columns = [each for each in (rows[0] if rows else ["name"]) if each not in _IN_JSON.get(given["kind"], ())]
    output.emit_table(columns, [[_text(row[column]) for column in columns] for row in rows])


@verb("dpicl list mechanisms", show=_show)
def listing(
    kind: Literal["tasks", "mechanisms", "attacks", "models", "suites"],
    *,
    plugins: Plugins = (),
) -> list[dict[str, Any]]:
    """Everything of a kind that there is, a dictionary each.

    kind: what to list.
    """
    listed = getattr(lists, f"list_{kind}")
    rows: list[dict[str, Any]] = listed() if kind == "suites" else listed(plugins)
    return rows


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={item}" for name, item in value.items()) or "-"
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if value is None or isinstance(value, bool):
        return "-" if value is None else "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
