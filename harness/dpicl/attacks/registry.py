"""Finds attacks: built in, or from plugin files."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from dpicl.attacks.base import Attack
from dpicl.core.errors import PluginError
from dpicl.core.plugins import Registered, classes_of, registered
from dpicl.mechanism.options import option_types, validate
from dpicl.mechanism.registry import classes_in


def load_attacks(plugins: Iterable[Path] = ()) -> dict[str, Registered[Attack]]:
    """Every attack by name. Raises PluginError."""
    from_plugins = (item for path in plugins for item in classes_in(path, attacks_of))
    return registered("attack", "dpicl.attacks", attacks_of, from_plugins)


def attack_of(cls: type[Attack], options: Mapping[str, Any]) -> Attack:
    """The attack with these options. Raises UsageError for an unknown option and for a value that does not fit."""
    return cls(**validate(cls.name, option_types(cls), options))


def attacks_of(module: ModuleType) -> list[type[Attack]]:
    """The complete attack classes that a module itself defines, with everything that a table shows of them."""
    classes = classes_of(module, Attack)  # type: ignore[type-abstract]
    for cls in classes:
        texts = [getattr(cls, name, None) for name in ("name", "access", "source", "summary")]
        complete = all(isinstance(text, str) for text in texts)
        if not complete or not dataclasses.is_dataclass(cls):
            raise PluginError(
                f"Attack class {cls.__name__} in {module.__name__} must be a dataclass with `name`, `access`, `source`"
                " and `summary`."
            )
    return classes
