"""Chooses other options and scales for the kit, since code behind an option, or for many, runs only there."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from dpicl.conformance.dictionary import constants, whole_numbers
from dpicl.conformance.scales import ORDINARY, SMALL, Scale, scales
from dpicl.core.errors import UsageError
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.options import build, option_types

#: Options that belong to the harness: the bench has no cell's seed to replace.
_OF_HARNESS = ("sampling_seed",)
#: Values for an option that is None, by its type.
_SOME: Mapping[type, Any] = {int: 3, float: 0.5}
_WORD = re.compile(r"[A-Za-z][\w-]*")
#: The largest whole number of the code beyond which an option is tried.
_LARGEST = 40


@dataclass(frozen=True)
class Variant:
    """A setting. sure: whether it is known to be one (a flag, a choice that the type names); a guess that runs like the
    ordinary setting does not count. brief: whether it needs little effort, since others try its parts."""

    changes: Mapping[str, Any]
    sure: bool = True
    scale: Scale = ORDINARY
    brief: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """The same for the same change on another task, where numbers start from other values."""
        values = (value for value in self.changes.values() if type(value) not in (int, float))
        return (self.scale.title, *self.changes, *values)

    def __str__(self) -> str:
        if self.scale.title:
            return f"with {self.scale.title}"
        return "with option " + ", ".join(f"{name}={value}" for name, value in self.changes.items())


def variants(
    cls: type[Mechanism],
    task: str,
    options: Mapping[str, Any],
) -> list[Variant]:
    """Every flag flipped; every other choice that an option's type or the mechanism's code names; every option that is
    off (None) turned on; settings in which any two options have any two of their values; and every other scale.

    options: those that stay as they are.
    """
    fixed_names = (*options, *_OF_HARNESS)
    hints = {name: hint for name, hint in option_types(cls).items() if name not in fixed_names}
    now: dict[str, Any] = dict.fromkeys(hints)
    now |= ORDINARY.options(cls, task, options)  # an option that is None may be left out there
    settings: list[Variant] = []
    levels: dict[str, list[Any]] = {}
    for name, hint in hints.items():
        value = now[name]
        others = _other_values(value, hint)
        settings += [Variant({name: other}) for other in others]
        if isinstance(value, str) and get_origin(hint) is not Literal and name not in SMALL:
            words = [word for word in constants(cls) if _WORD.fullmatch(word)]
            settings += [
                Variant({name: word}, sure=False) for word in words if word not in (value, cls.name)
            ]
        numbers = () if name in SMALL else whole_numbers(cls)  # `scales` has larger sizes
        levels[name] = [value, *others, *_other_numbers(value, hint, numbers)]
    fixed = {name: value for name, value in now.items() if name not in levels}
    settings += [Variant(changes, brief=True) for changes in cover_pairs(cls, levels, fixed)]
    floats = [name for name in hints if type(now[name]) is float]
    doubled = {name: 2 * now[name] for name in floats}
    if doubled and _takes(cls, {**now, **doubled}):
        settings.append(Variant(doubled, brief=True))
    settings += [Variant({}, scale=scale, brief=True) for scale in scales(cls, task, options)]
    return settings


def _other_values(value: Any, hint: Any) -> list[Any]:
    """What the type names besides the value."""
    if isinstance(value, bool):
        return [not value]
    choices = get_args(hint) if get_origin(hint) is Literal else ()
    turned_on = [_SOME[kind] for kind in get_args(hint) if kind in _SOME and value is None]
    return [*(choice for choice in choices if choice != value), *turned_on]


def _other_numbers(value: Any, hint: Any, numbers: Sequence[int]) -> list[Any]:
    """Numbers near the value, and beyond those that the code may compare it with; None where that is a value too."""
    off = [None] if type(None) in get_args(hint) and value is not None else []
    if type(value) is float:
        return [value / 2 or 0.5, *off]
    if type(value) is not int:
        return off
    beyond = [number + 1 for number in numbers if value < number < _LARGEST][-1:]
    return [max(value + 1, 4), *beyond, *off]


def cover_pairs(
    cls: type[Mechanism],
    levels: Mapping[str, Sequence[Any]],
    fixed: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Changes of options so that any two options have any two of their values in some of them, where the class takes
    such a pair. levels: option -> its values, the ordinary one first. fixed: the other options."""
    varied = {name: values for name, values in levels.items() if len(values) > 1}
    usual = {name: values[0] for name, values in levels.items()}
    places = {
        name: [(name, level) for level in range(len(values))] for name, values in varied.items()
    }
    pairs: list[frozenset[tuple[str, int]]] = []
    for one, other in itertools.combinations(varied, 2):
        _, *others = itertools.product(places[one], places[other])
        pairs += map(frozenset, others)
    if len(varied) == 1:
        pairs = [frozenset({place}) for name in varied for place in places[name][1:]]
    left = dict.fromkeys(pairs)
    rows = []
    while left:
        row = dict(next(iter(left)))
        del left[frozenset(row.items())]
        if not _takes(cls, {**fixed, **usual, **_values(varied, row)}):
            continue
        for name in varied:
            if name not in row:
                row[name] = _best_level(name, row, varied, left)
                if not _takes(cls, {**fixed, **usual, **_values(varied, row)}):
                    row[name] = 0
        left = {pair: None for pair in left if not pair <= row.items()}
        changes = _values(varied, row)
        rows.append({name: value for name, value in changes.items() if value != usual[name]})
    return rows


def _best_level(
    name: str,
    row: Mapping[str, int],
    varied: Mapping[str, Sequence[Any]],
    left: Mapping[frozenset[tuple[str, int]], None],
) -> int:
    """Which value of an option makes most pairs with those of the row that are left."""

    def count_new(level: int) -> int:
        return sum(frozenset({(name, level), other}) in left for other in row.items())

    return max(range(len(varied[name])), key=count_new)


def _values(
    varied: Mapping[str, Sequence[Any]],
    row: Mapping[str, int],
) -> dict[str, Any]:
    return {name: varied[name][level] for name, level in row.items()}


def _takes(cls: type[Mechanism], options: Mapping[str, Any]) -> bool:
    """Whether the class takes these options."""
    try:
        build(cls, dict(options))
    except UsageError:
        return False
    return True
