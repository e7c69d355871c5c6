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
from dpicl.mechanism.registry import (
    HERE,
    Registered,
    find_mechanism,
    load_mechanisms,
    load_plugin,
    register,
)

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


def given_mechanism(mechanism: GivenMechanism, plugins: Sequence[Path] = ()) -> Given:
    """Makes the mechanism known; plugins: files with more. Raises UsageError or PluginError for what is none."""
    if isinstance(mechanism, Mechanism):
        fields = dataclasses.fields(mechanism)  # type: ignore[arg-type]
        options = {each.name: getattr(mechanism, each.name) for each in fields if each.init}
        return dataclasses.replace(given_mechanism(type(mechanism), plugins), options=options)
    if inspect.isclass(mechanism) and issubclass(mechanism, Mechanism):
        registered = load_mechanisms(plugins).get(getattr(mechanism, "name", ""))
        if registered is not None and registered.cls is mechanism and registered.origin != HERE:
            return Given(registered)
        return Given(register(mechanism), here=True)
    if not isinstance(mechanism, str | Path):
        raise UsageError(
            f"A mechanism is a name, a class, an instance or the path of a file, not {mechanism!r:.60}."
        )
    path = Path(mechanism)
    # False where no file may have such a name
    if path.suffix != ".py" and not os.path.isfile(path):
        known = load_mechanisms(plugins)
        find_mechanism(str(mechanism), known)
        return Given(known[str(mechanism)])
    loaded = load_plugin(path)
    if len(loaded) != 1:
        names = ", ".join(item.cls.name for item in loaded) or "none"
        raise UsageError(
            f"{path} must define one mechanism, and defines {names}; give the class instead."
        )
    return Given(loaded[0], plugin=path)


def entries_of(
    mechanisms: Sequence[Given],
    options: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """The mechanisms as entries of a suite; those of one name are told apart by their own options.

    Raises UsageError for an option that none of them has, and for two that do not differ.
    """
    types = {each.name: option_types(each.cls) for each in mechanisms}
    chosen = share_out(types, [(None, *item) for item in options.items()])
    entries: list[dict[str, Any]] = [
        {"name": each.name, "options": {**each.options, **chosen[each.name]}} for each in mechanisms
    ]
    for entry in entries:
        same = [other["options"] for other in entries if other["name"] == entry["name"]]
        differ = [
            name
            for name in sorted(entry["options"])
            if any(options_of.get(name) != same[0].get(name) for options_of in same)
        ]
        if len(same) > 1:
            words = [f"{name}={entry['options'][name]}" for name in differ]
            entry["label"] = re.sub(
                r"[^A-Za-z0-9_.+=-]",
                "_",
                "+".join([entry["name"], *words]),
            )[:200]
    labels = Counter(entry.get("label", entry["name"]) for entry in entries)
    if twice := [label for label, number in labels.items() if number > 1]:
        raise UsageError(
            f"'{twice[0]}' is given twice; leave one out, or give instances that differ in their options."
        )
    return entries
