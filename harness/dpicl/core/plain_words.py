"""Turns validation errors of a schema into plain sentences, without names of classes or paths like `mechanisms.0`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from dpicl.core.errors import unknown_name
from dpicl.core.strict_yaml import Place

#: What is taken from pydantic's sentences: the subject, which is the place, and names of classes.
_NOISE = re.compile(
    r"^(Value error|Assertion failed), |^\w+ (?=should |is not )|(, unable to parse| or instance of).*"
)
#: What a schema adds to a place where a value may be of several types.
_TYPES = ("int", "str", "float", "bool", "constrained-str", "constrained-int", "[key]")


def explanation(error: ValidationError, schema: type[BaseModel]) -> tuple[Place, str]:
    """(place, sentence) of the first thing that is wrong in a file; what is wrong with several values is said once.

    Unknown keys come first, since a misspelt key is missing as well.
    """
    problems = error.errors()
    problem = min(problems, key=lambda each: each["type"] != "extra_forbidden")
    kind, place = problem["type"], tuple(problem["loc"])
    if kind == "extra_forbidden":
        return place, str(unknown_name("key", str(place[-1]), _keys_at(schema, place[:-1])))
    alike = [
        tuple(each["loc"])
        for each in problems
        if (each["type"], each["msg"]) == (kind, problem["msg"])
    ]
    if kind == "missing":
        names = [f"'{each[-1]}'" for each in alike if each[:-1] == place[:-1]]
        inside = f" in {place_words(place[:-1])}" if place[:-1] else ""
        missing = (
            f"key {names[0]} is missing"
            if len(names) == 1
            else f"keys {', '.join(names)} are missing"
        )
        return place, f"the {missing}{inside}."
    if kind == "value_error" and len(alike) > 1:
        words = problem_words({**problem, "input": ...})
        return place, f"{', '.join(map(place_words, alike))}: each {words}."
    return (
        place,
        f"'{place_words(place)}' {problem_words(problem)}."
        if place
        else f"{problem_words(problem)}.",
    )


def _keys_at(schema: type[BaseModel], place: Place) -> Iterator[str]:
    """The keys that a schema knows at a place. Of several models, the one that pydantic names there, or all."""
    models = [schema]
    for part in place:
        named = [each for each in models if each.__name__ == part]
        hints = [each.model_fields[part].annotation for each in models if part in each.model_fields]
        models = named or [inner for hint in hints for inner in _models_in(hint)] or models
    for each in models:
        yield from each.model_fields


def _models_in(hint: Any) -> list[type[BaseModel]]:
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return [hint]
    return [inner for part in get_args(hint) for inner in _models_in(part)]


def place_words(place: Sequence[str | int]) -> str:
    """('mechanisms', 0, 'options') -> 'mechanisms, entry 1, options'."""
    while len(place) > 1 and place[-1] in _TYPES:
        place = place[:-1]
    return ", ".join(f"entry {part + 1}" if isinstance(part, int) else str(part) for part in place)[
        :100
    ]


def problem_words(problem: Mapping[str, Any]) -> str:
    """What is wrong with a value, as the end of a sentence that begins with its place; the value where it is short."""
    value = problem.get("input")
    message = _NOISE.sub("", problem["msg"])
    message = message[0].lower() + message[1:]
    if value is None:
        return f"is empty; it {message}, or leave the key out"
    if isinstance(value, bool) and problem["type"] == "string_type":
        return f"{message}, and YAML reads yes, no, on, off, true and false as truth values; put it in quotes"
    if isinstance(value, int | float) and problem["type"] == "string_type":
        return f"{message}, not {value!r}; put it in quotes"
    if isinstance(value, str | int | float) and "not " not in message:
        message += f", not {repr(value)[:60]}"
    return message
