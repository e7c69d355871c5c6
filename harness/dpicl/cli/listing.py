"""`dpicl list`: lists mechanisms, tasks, attacks, models and suites."""

from __future__ import annotations

from typing import Any, Literal

from dpicl.api import lists
from dpicl.api.parameters import Plugins, verb
from dpicl.cli.output import Answer
from dpicl.tables.document import text_table

#: What a table leaves to JSON, so that its lines stay short.
_IN_JSON = {
    "attacks": ("source",),
    "mechanisms": ("knob", "options", "published", "source", "origin"),
    "suites": ("version", "mechanisms", "epsilons", "seeds"),
    "tasks": ("lm_eval", "version"),
}


@verb("dpicl list mechanisms")
def listing(
    kind: Literal["tasks", "mechanisms", "attacks", "models", "suites"],
    *,
    plugins: Plugins = (),
) -> Answer:
    """Everything of a kind that there is.

    kind: what to list.
    """
    listed = getattr(lists, f"list_{kind}")
    rows: list[dict[str, Any]] = listed() if kind == "suites" else listed(plugins)
    columns = [
        each for each in (rows[0] if rows else ["name"]) if each not in _IN_JSON.get(kind, ())
    ]
    return Answer(
        rows, [text_table(columns, ([_text(row[column]) for column in columns] for row in rows))]
    )


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={item}" for name, item in value.items()) or "-"
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if value is None or isinstance(value, bool):
        return "-" if value is None else "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
