"""Chooses other options of a mechanism for the kit, since code behind an option runs only where it is on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from dpicl.conformance.bench import LONG, SMALL, small_options
from dpicl.conformance.dictionary import constants
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.options import option_types

#: Options of the harness's own: the bench has no cell's seed to replace.
_OF_HARNESS = ("sampling_seed",)

#: Invented words of the large vocabulary: with four tokens each it is larger than that of GPT-2 (50,257).
MANY_WORDS = 12_600
#: Values for an option that is None, by its type.
_SOME: Mapping[type, Any] = {int: 3, float: 0.5}
_WORD = re.compile(r"[A-Za-z][\w-]*")


@dataclass(frozen=True)
class Variant:
    """A setting. sure: whether it is known to be one (a flag, a choice that the type names); a guess that runs like the
    ordinary setting does not count. long: with many queries, demonstrations and tokens. words: that the model has
    besides its own."""

    changes: Mapping[str, Any]
    sure: bool = True
    long: bool = False
    words: int = 0

    @property
    def key(self) -> tuple[object, ...]:
        """The same for the same change on another task, where numbers start from other values."""
        values = (value for value in self.changes.values() if not isinstance(value, float) and type(value) is not int)
        return (self.long, self.words, *self.changes, *values)

    def __str__(self) -> str:
        said = ", ".join(f"{name}={value}" for name, value in self.changes.items())
        if self.long:
            return "with many queries, demonstrations and tokens"
        return f"with {4 * self.words} tokens more in the vocabulary" if self.words else f"with option {said}"


def variants(cls: type[Mechanism], task: str, given: Mapping[str, Any]) -> list[Variant]:
    """Every flag flipped, and all of them; every other choice that an option's type or the mechanism's code names;
    every option that is off (None) turned on; all numbers changed at once; a long run; and a model with a large
    vocabulary, where the mechanism sees the model.

    given: options that stay as they are.
    """
    hints = {name: hint for name, hint in option_types(cls).items() if name not in (*given, *_OF_HARNESS)}
    now: dict[str, Any] = dict.fromkeys(hints)
    now |= small_options(cls, task, given)  # an option that is None may be left out there
    flags = {name: not now[name] for name in hints if isinstance(now[name], bool)}
    found = [Variant({name: value}) for name, value in flags.items()]
    if len(flags) > 1:
        found.append(Variant(flags))
    for name, hint in hints.items():
        choices = get_args(hint) if get_origin(hint) is Literal else ()
        found += [Variant({name: value}) for value in choices if value != now[name]]
        found += [Variant({name: _SOME[kind]}) for kind in get_args(hint) if kind in _SOME and now[name] is None]
        if isinstance(now[name], str) and get_origin(hint) is not Literal and name not in SMALL:
            words = (word for word in constants(cls) if _WORD.fullmatch(word) and word not in (now[name], cls.name))
            found += [Variant({name: word}, sure=False) for word in words]
    numbers = {name: _other_number(now[name]) for name in hints if type(now[name]) in (int, float)}
    off = {name: None for name, hint in hints.items() if type(None) in get_args(hint) and now[name] is not None}
    found += [Variant(changes) for changes in (numbers, off) if changes]
    found.append(Variant({"tokens": LONG["tokens"]} if "tokens" in hints else {}, long=True))
    if cls.releases_texts:
        found.append(Variant({}, words=MANY_WORDS))
    return found


def _other_number(value: float) -> float:
    return value + 1 if isinstance(value, int) else value / 2 or 0.5
