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

#: Options of the harness's own: the bench has no cell's seed to replace.
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
        values = (value for value in self.changes.values() if not isinstance(value, float) and type(value) is not int)
        return (self.scale.title, *self.changes, *values)

    def __str__(self) -> str:
        if self.scale.title:
            return f"with {self.scale.title}"
        return "with option " + ", ".join(f"{name}={value}" for name, value in self.changes.items())


def variants(cls: type[Mechanism], task: str, given: Mapping[str, Any]) -> list[Variant]:
    """Every flag flipped; every other choice that an option's type or the mechanism's code names; every option that is
    off (None) turned on; settings in which any two options have any two of their values; and every other scale.

    given: options that stay as they are.
    """
    hints = {name: hint for name, hint in option_types(cls).items() if name not in (*given, *_OF_HARNESS)}
    now: dict[str, Any] = dict.fromkeys(hints)
    now |= ORDINARY.options(cls, task, given)  # an option that is None may be left out there
    found: list[Variant] = []
    levels: dict[str, list[Any]] = {}
    for name, hint in hints.items():
        others = _other_values(now[name], hint)
        found += [Variant({name: value}) for value in others]
        if isinstance(now[name], str) and get_origin(hint) is not Literal and name not in SMALL:
            words = (word for word in constants(cls) if _WORD.fullmatch(word) and word not in (now[name], cls.name))
            found += [Variant({name: word}, sure=False) for word in words]
        numbers = () if name in SMALL else whole_numbers(cls)  # `scales` has larger sizes
        levels[name] = [now[name], *others, *_other_numbers(now[name], hint, numbers)]
    fixed = {name: value for name, value in now.items() if name not in levels}
    found += [Variant(changes, brief=True) for changes in cover_pairs(cls, levels, fixed)]
    doubled = {name: 2 * value for name, value in now.items() if name in hints and type(value) is float}
    if doubled and _takes(cls, {**now, **doubled}):
        found.append(Variant(doubled, brief=True))
    return [*found, *(Variant({}, scale=scale, brief=True) for scale in scales(cls, task, given))]


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
    cls: type[Mechanism], levels: Mapping[str, Sequence[Any]], fixed: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Changes of options so that any two options have any two of their values in some of them, where the class takes
    such a pair. levels: option -> its values, the ordinary one first. fixed: the other options."""
    varied = {name: values for name, values in levels.items() if len(values) > 1}
    usual = {name: values[0] for name, values in levels.items()}
    pairs = [
        frozenset({(a, at), (b, to)})
        for a, b in itertools.combinations(varied, 2)
        for at, to in itertools.product(range(len(varied[a])), range(len(varied[b])))
        if at or to
    ]
    if len(varied) == 1:
        pairs = [frozenset({(name, at)}) for name in varied for at in range(1, len(varied[name]))]
    left, rows = dict.fromkeys(pairs), []
    while left:
        row = dict(next(iter(left)))
        del left[frozenset(row.items())]
        if not _takes(cls, {**fixed, **usual, **_values(varied, row)}):
            continue
        for name in [each for each in varied if each not in row] if len(varied) > 2 else ():
            row[name] = _best_level(name, row, varied, left)
            if not _takes(cls, {**fixed, **usual, **_values(varied, row)}):
                row[name] = 0
        left = {pair: None for pair in left if not pair <= row.items()}
        rows.append({name: value for name, value in _values(varied, row).items() if value != usual[name]})
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


def _values(varied: Mapping[str, Sequence[Any]], row: Mapping[str, int]) -> dict[str, Any]:
    return {name: varied[name][level] for name, level in row.items()}


def _takes(cls: type[Mechanism], options: Mapping[str, Any]) -> bool:
    """Whether the class takes these options."""
    try:
        build(cls, dict(options))
    except UsageError:
        return False
    return True
