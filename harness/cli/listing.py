"""`dpicl list`: what there is."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from dpicl.harness.cli import output
from dpicl.harness.cli.arguments import Subparsers, add_command

Row = dict[str, Any]


def add(subparsers: Subparsers) -> None:
    """Adds the command."""
    parser = add_command(
        subparsers,
        "list",
        "show what there is: tasks, mechanisms, attacks, models or suites",
        "dpicl list mechanisms",
        _list,
    )
    parser.choice("kind", tuple(_KINDS), "what to list", kind="list")
    parser.share("--plugin")


def _list(arguments: argparse.Namespace) -> int:
    rows = _KINDS[arguments.kind](arguments)
    if arguments.json:
        output.emit_json(rows)
        return 0
    columns = list(rows[0]) if rows else ["name"]
    output.emit_table(columns, [[_text(row[column]) for column in columns] for row in rows])
    return 0


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={item}" for name, item in value.items()) or "-"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if value is None or isinstance(value, bool):
        return "-" if value is None else "yes" if value else "no"
    return str(value)


def _tasks(arguments: argparse.Namespace) -> list[Row]:
    from dpicl.harness.data.config import load_config, task_folders
    from dpicl.harness.mechanism.registry import load_mechanisms
    from dpicl.harness.run.selection import task_facts

    load_mechanisms(arguments.plugin)  # which also makes the tasks of plugin folders known
    rows, folders = [], task_folders()
    for name, facts in task_facts().items():
        config = load_config(name)
        found = facts("auto")
        metadata = config["metadata"]
        nowhere = found.source == "synthetic" and "missing" in metadata["data"]["synthetic"]
        rows.append(
            {
                "name": name,
                "kind": metadata["kind"],
                "metric": metadata["main_metric"],
                "labels": len(config.get("doc_to_choice", ())) or None,
                "version": found.version,
                "source": None if nowhere else found.source,
                "lm_eval": config["task"],
                "origin": folders[name].origin,
            }
        )
    return rows


def _mechanisms(arguments: argparse.Namespace) -> list[Row]:
    import dataclasses

    from dpicl.harness.mechanism.registry import load_mechanisms

    rows = []
    for name, item in sorted(load_mechanisms(arguments.plugin).items()):
        fields: tuple[dataclasses.Field[Any], ...] = ()
        if dataclasses.is_dataclass(item.cls):
            fields = dataclasses.fields(item.cls)
        rows.append(
            {
                "name": name,
                "knob": item.cls.knob.name if item.cls.knob else None,
                "options": {f.name: None if f.default is dataclasses.MISSING else f.default for f in fields},
                "published": sorted(item.cls.published),
                "source": item.cls.source,
                "origin": item.origin,
            }
        )
    return rows


def _attacks(arguments: argparse.Namespace) -> list[Row]:
    import dataclasses

    from dpicl.harness.mechanism.registry import load_attacks

    rows = []
    for name, item in sorted(load_attacks(arguments.plugin).items()):
        own: Any = item.cls
        rows.append(
            {
                "name": name,
                "does": item.cls.summary,
                "access": item.cls.access,
                "options": {
                    f.name: None if f.default is dataclasses.MISSING else f.default for f in dataclasses.fields(own)
                },
                "source": item.cls.source,
                "origin": item.origin,
            }
        )
    return rows


def _models(arguments: argparse.Namespace) -> list[Row]:
    from dpicl.harness import models
    from dpicl.harness.mechanism.registry import load_mechanisms

    load_mechanisms(arguments.plugin)  # which also makes the models of plugin files known
    return models.known()


def _suites(arguments: argparse.Namespace) -> list[Row]:
    from dpicl.harness.core.paths import shipped_suites
    from dpicl.harness.run.suite import load_suite

    rows = []
    for name, path in shipped_suites().items():
        suite = load_suite(path)
        rows.append(
            {
                "name": name,
                "version": suite.version,
                "tasks": list(suite.tasks),
                "mechanisms": [entry.row for entry in suite.mechanisms],
                "epsilons": list(suite.epsilons),
                "seeds": len(suite.seeds),
                "description": suite.description,
            }
        )
    return rows


_KINDS: dict[str, Callable[[argparse.Namespace], list[Row]]] = {
    "tasks": _tasks,
    "mechanisms": _mechanisms,
    "attacks": _attacks,
    "models": _models,
    "suites": _suites,
}
