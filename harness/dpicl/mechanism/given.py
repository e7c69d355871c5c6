"""Resolves the mechanism that a caller gives: a name, a class, an instance with its options, or a plug-in file."""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpicl.core.errors import UsageError
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.options import option_types, share_out
from dpicl.mechanism.registry import HERE, Registered, find_mechanism, load_mechanisms, load_plugin, register

#: What a caller may give as one mechanism.
GivenMechanism = str | Path | type[Mechanism] | Mechanism


@dataclass(frozen=True)
class Given:
    """A mechanism that the registry knows now. here: the program that calls defines it, in no file of its own."""

    registered: Registered
    options: Mapping[str, Any] = field(default_factory=dict)
    plugin: Path | None = None
    here: bool = False

    @property
    def cls(self) -> type[Mechanism]:
        return self.registered.cls

    @property
    def name(self) -> str:
        return self.registered.cls.name


def given_mechanism(given: GivenMechanism, plugins: Sequence[Path] = ()) -> Given:
    """Makes the mechanism known; plugins: files with more. Raises UsageError or PluginError for what is none."""
    if isinstance(given, Mechanism):
        options = {each.name: getattr(given, each.name) for each in dataclasses.fields(given) if each.init}  # type: ignore[arg-type]
        return dataclasses.replace(given_mechanism(type(given), plugins), options=options)
    if inspect.isclass(given) and issubclass(given, Mechanism):
        found = load_mechanisms(plugins).get(getattr(given, "name", ""))
        if found is not None and found.cls is given and found.origin != HERE:
            return Given(found)
        return Given(register(given), here=True)
    if not isinstance(given, str | Path):
        raise UsageError(f"A mechanism is a name, a class, an instance or the path of a file, not {given!r:.60}.")
    path = Path(given)
    if path.suffix != ".py" and not os.path.isfile(path):  # False where no file may have such a name
        known = load_mechanisms(plugins)
        find_mechanism(str(given), known)
        return Given(known[str(given)])
    own = load_plugin(path)
    if len(own) != 1:
        names = ", ".join(item.cls.name for item in own) or "none"
        raise UsageError(f"{path} must define one mechanism, and defines {names}; give the class instead.")
    return Given(own[0], plugin=path)


def entries_of(given: Sequence[Given], options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The mechanisms as entries of a suite; those of one name are told apart by their own options.

    Raises UsageError for an option that none of them has, and for two that do not differ.
    """
    types = {each.name: option_types(each.cls) for each in given}
    chosen = share_out(types, [(None, *item) for item in options.items()])
    entries: list[dict[str, Any]] = [
        {"name": each.name, "options": {**each.options, **chosen[each.name]}} for each in given
    ]
    for entry in entries:
        same = [other["options"] for other in entries if other["name"] == entry["name"]]
        differ = [name for name in sorted(entry["options"]) if any(own.get(name) != same[0].get(name) for own in same)]
        if len(same) > 1:
            said = "+".join([entry["name"], *(f"{name}={entry['options'][name]}" for name in differ)])
            entry["label"] = re.sub(r"[^A-Za-z0-9_.+=-]", "_", said)[:200]
    labels = Counter(entry.get("label", entry["name"]) for entry in entries)
    if twice := [label for label, number in labels.items() if number > 1]:
        raise UsageError(f"'{twice[0]}' is given twice; leave one out, or give instances that differ in their options.")
    return entries
