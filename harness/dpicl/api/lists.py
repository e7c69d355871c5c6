"""Lists mechanisms, tasks, attacks, models and suites, one dictionary each."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from dpicl import models
from dpicl.api.parameters import Plugins, as_list, check_arguments
from dpicl.core.paths import shipped_suites
from dpicl.data.config import load_config, task_folders
from dpicl.data.sources import resolve
from dpicl.mechanism.registry import load_mechanisms
from dpicl.plan.suite_files import load_suite

Row = dict[str, Any]


@check_arguments
def list_tasks(plugins: Plugins = ()) -> list[Row]:
    """Every task: its kind, main metric, number of labels, version, and where its records come from here."""
    load_mechanisms(as_list(plugins))  # which also makes the tasks of plugin folders known
    rows = []
    for name, folder in task_folders().items():
        config = load_config(name)
        source = resolve("auto", config.source)
        nowhere = source == "synthetic" and config.data.synthetic.missing
        rows.append(
            {
                "name": name,
                "kind": config.metadata.kind,
                "metric": config.metadata.main_metric,
                "labels": len(config.doc_to_choice) or None,
                "version": config.metadata.version,
                "source": None if nowhere else source,
                "lm_eval": config.task,
                "origin": folder.origin,
            }
        )
    return rows


@check_arguments
def list_mechanisms(plugins: Plugins = ()) -> list[Row]:
    """Every mechanism: what it does, its kind, its knob, its options with their defaults, and where it comes from."""
    return [
        {
            "name": name,
            "does": item.cls.summary or (inspect.getdoc(item.cls) or "").partition("\n")[0],
            "kind": item.cls.kind,
            "knob": item.cls.knob.name if item.cls.knob else None,
            "options": _options(item.cls),
            "published": sorted(item.cls.published),
            "source": item.cls.source,
            "origin": item.origin,
        }
        for name, item in sorted(load_mechanisms(as_list(plugins)).items())
    ]


@check_arguments
def list_attacks(plugins: Plugins = ()) -> list[Row]:
    """Every attack: what it does, what it sees, its options with their defaults, and where it comes from."""
    from dpicl.attacks.registry import load_attacks  # loads the accountants

    return [
        {
            "name": name,
            "does": item.cls.summary,
            "access": item.cls.access,
            "options": _options(item.cls),
            "source": item.cls.source,
            "origin": item.origin,
        }
        for name, item in sorted(load_attacks(as_list(plugins)).items())
    ]


@check_arguments
def list_models(plugins: Plugins = ()) -> list[Row]:
    """Every kind of model, and whether it can be loaded here."""
    load_mechanisms(as_list(plugins))  # which also makes the models of plugin files known
    return models.list_known()


def list_suites() -> list[Row]:
    """The suites that ship with the package, and what each compares."""
    suites = {name: load_suite(path) for name, path in shipped_suites().items()}
    return [
        {
            "name": name,
            "version": suite.version,
            "tasks": list(suite.tasks),
            "mechanisms": [entry.row for entry in suite.mechanisms],
            "epsilons": list(suite.epsilons),
            "seeds": len(suite.seeds),
            "description": suite.description,
        }
        for name, suite in suites.items()
    ]


def _options(cls: type) -> Row:
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    return {
        each.name: None if each.default is dataclasses.MISSING else each.default for each in fields
    }
