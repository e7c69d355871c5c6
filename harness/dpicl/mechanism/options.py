"""Reads, completes and checks the options of mechanisms and attacks, which are the fields of their dataclasses."""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from dpicl.accounting import dp_event as dp
from dpicl.core import json_text
from dpicl.core.cell import Options
from dpicl.core.errors import PluginError, UsageError, one_line, unknown_name
from dpicl.core.json_text import WHOLE
from dpicl.core.plain_words import problem_words
from dpicl.core.plugins import Pluggable
from dpicl.core.vocabulary import Sizes
from dpicl.mechanism.bases import Mechanism

#: In the metadata of a field: see `resolve_options`.
LATER_OPTION = "later"


def option_types(cls: type[Pluggable]) -> dict[str, Any]:
    """Option name -> annotated type of every option (dataclass field) of a mechanism or an attack."""
    return dict(_option_types(cls))


@lru_cache(maxsize=256)
def _option_types(cls: type[Pluggable]) -> Mapping[str, Any]:
    if not dataclasses.is_dataclass(cls):
        return {}
    try:
        hints = typing.get_type_hints(cls)
    except Exception as error:  # annotations are evaluated
        raise PluginError(
            f"'{cls.name}' annotates an option with a type that is not imported: {one_line(error, 500)}."
        ) from error
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}


def resolve_options(cls: type[Mechanism], task: str, options: Options) -> Options:
    """Every option's value: the class's defaults, then the published ones of the task, then the given ones.

    One that is younger than results of its mechanism (`LATER_OPTION` in its field's metadata) is left out where it is
    None, so that these stay results of the same cells.

    Raises UsageError for an unknown option and for a value of the wrong type.
    """
    types = option_types(cls)
    later = set()
    if types:
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]
        later = {each.name for each in fields if LATER_OPTION in each.metadata}
    values = validate(
        cls.name,
        types,
        {**cls.published.get(task, {}), **options},
    )
    instance = build(cls, values)
    try:
        resolved = {name: getattr(instance, name) for name in types}
        plain: Options = json_text.loads(
            json.dumps({k: v for k, v in resolved.items() if v is not None or k not in later})
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise PluginError(
            f"Mechanism '{cls.name}' has an option that JSON cannot hold: {error}."
        ) from error
    return plain


def sized_options(
    cls: type[Mechanism],
    task: str,
    demonstrations: Mapping[str, int],
    answers: Mapping[str, int],
    options: Options,
) -> Options:
    """As `resolve_options`, with sizes below the given ones, where the class has an option of that name that is a whole
    number (or None). demonstrations, answers: the sizes of a mechanism that releases these."""
    types, sizes = option_types(cls), demonstrations if cls.releases_texts else answers
    fitting = {name: value for name, value in sizes.items() if types.get(name) in (int, int | None)}
    return resolve_options(cls, task, {**fitting, **options})


def share_out(
    types: Mapping[str, Mapping[str, Any]], changes: Iterable[tuple[str | None, str, Any]]
) -> dict[str, Options]:
    """Mechanism -> what it gets of options (owner, name, value); without an owner they are for all that have them.

    types: mechanism -> its options. Raises UsageError for an owner that is none of these, and an option of nobody.
    """
    shared: dict[str, Options] = {mechanism: {} for mechanism in types}
    for owner, name, value in changes:
        if owner is not None and owner not in types:
            raise unknown_name("mechanism", owner, types)
        takers = [each for each in ([owner] if owner else types) if name in types[each]]
        if not takers:
            raise unknown_name(
                "option", name, {known for names in types.values() for known in names}
            )
        for each in takers:
            shared[each][name] = value
    return shared


def validate(
    owner: str,
    types: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Options:
    """The given options as their types have them. Raises UsageError for a name or value that does not fit."""
    values = {}
    for name, value in options.items():
        if name not in types:
            raise unknown_name(f"option of {owner}", name, types)
        try:
            values[name] = _adapter(types[name]).validate_python(value)
        except ValidationError as error:
            raise UsageError(
                f"Option {name} of {owner} {problem_words(error.errors()[0])}."
            ) from None
        except PydanticUserError as error:
            raise PluginError(
                f"Option {name} of {owner} has a type that no suite can write; fix it."
            ) from error
        if isinstance(values[name], float) and not math.isfinite(values[name]):
            raise UsageError(
                f"Option {name} of {owner} must be a finite number, not {values[name]}."
            )
        if isinstance(values[name], int) and abs(values[name]) >= WHOLE:
            raise UsageError(f"Option {name} of {owner} must be a whole number below 2^53 in size.")
    return values


@lru_cache(maxsize=64)
def _adapter(hint: Any) -> TypeAdapter[Any]:
    return TypeAdapter(hint)


def build(cls: type[Mechanism], options: Options) -> Mechanism:
    """The mechanism with these options. Raises UsageError where the class refuses them."""
    try:
        return cls(**options)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"Mechanism '{cls.name}' refuses its options {options}: {one_line(error, 500)}."
        ) from error


def fixed_epsilon(mechanism: Mechanism) -> float | None:
    """Epsilon of a mechanism without a knob (0 or infinity, by its events); None when there is a knob."""
    if mechanism.knob is not None:
        return None
    event = mechanism.events(0.0, Sizes(records={None: 1}, shots={None: 1}))
    if isinstance(event, dp.NoOpDpEvent):
        return 0.0
    if isinstance(event, dp.NonPrivateDpEvent):
        return math.inf
    raise PluginError(
        f"Mechanism '{mechanism.name}' has no knob, so its event must be NoOp or NonPrivate, not {event!r};"
        " give it a knob."
    )
