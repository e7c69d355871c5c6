"""The known attacks. Like mechanisms they are built in, or come from entry points or plugin files."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from dpicl.harness.attacks.base import Attack
from dpicl.harness.core.errors import PluginError, unknown
from dpicl.harness.core.plugins import Registered, classes_of, registered, theirs
from dpicl.harness.mechanism.options import validated
from dpicl.harness.mechanism.registry import open_plugin

ENTRY_POINTS = "dpicl.attacks"


def load_attacks(plugins: Iterable[Path] = ()) -> dict[str, Registered[Attack]]:
    """Every attack by name; see `plugins.registered` for what fails."""
    given = (item for path in plugins for item in _given(path))
    return registered("attack", Attack, "dpicl.harness.attacks", ENTRY_POINTS, attacks_of, given)  # type: ignore[type-abstract]


def find_attack(name: str, attacks: Mapping[str, Registered[Attack]]) -> Registered[Attack]:
    """The attack of a name. Raises UsageError with the closest known name."""
    if name not in attacks:
        raise unknown("attack", name, attacks)
    return attacks[name]


def attack_of(found: Registered[Attack], given: Mapping[str, Any]) -> Attack:
    """The attack with these options. Raises UsageError for an unknown option and for a value that does not fit."""
    cls: Any = found.cls  # a dataclass, as `attacks_of` has seen to
    hints = typing.get_type_hints(cls)
    attack: Attack = cls(
        **validated(cls.name, {each.name: hints[each.name] for each in dataclasses.fields(cls)}, given)
    )
    return attack


def attacks_of(module: ModuleType) -> list[type[Attack]]:
    """The complete attack classes that a module itself defines, with everything that a table shows of them."""
    own = classes_of(module, Attack)  # type: ignore[type-abstract]
    for cls in own:
        texts = (getattr(cls, each, 0) for each in ("name", "access", "source", "summary"))
        if not all(isinstance(each, str) for each in texts) or not dataclasses.is_dataclass(cls):
            raise PluginError(
                f"Attack class {cls.__name__} in {module.__name__} must be a dataclass with `name`, `access`, `source`"
                " and `summary`."
            )
    return own


def _given(path: Path) -> Iterator[Registered[Attack]]:
    opened = open_plugin(path)
    if opened is None:
        return
    with theirs(f"Plugin {path} cannot be used"):
        classes = attacks_of(opened[0])
    for cls in classes:
        yield Registered(cls, f"plugin {path}", opened[1])
