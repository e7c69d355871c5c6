"""What a schema says of a file, in the words of who wrote the file: no name of a class, no `mechanisms.0`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from dpicl.core.errors import unknown
from dpicl.core.strict_yaml import Place

#: Type of a problem (pydantic's) -> what the value must be.
_MUST = {
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "must be keys with values (`key: value`)"),
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list, as in [one, two]"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    "int_parsing_size": "must be a whole number with fewer digits",
    "string_type": "must be a text",
    "string_unicode": "must be a text in UTF-8",
    "path_type": "must be a path",
    "string_pattern_mismatch": "has characters that do not belong here; use letters, digits and . _ + = -",
}
#: Type of a problem -> the words of its limit, and what pydantic calls that.
_LIMITS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}
#: What a schema adds to a place where a value may be of several types.
_TYPES = ("int", "str", "float", "bool", "constrained-str", "constrained-int", "[key]")


def explanation(error: ValidationError, schema: type[BaseModel], more_keys: Sequence[str] = ()) -> tuple[Place, str]:
    """(place, sentence) of the first thing that is wrong in a file; what several keys lack is said once.

    Unknown keys come first, since a misspelt key is missing as well. more_keys: that the top of a file may have too.
    """
    problems = error.errors()
    problem = min(problems, key=lambda each: each["type"] != "extra_forbidden")
    kind, place = problem["type"], tuple(problem["loc"])
    if kind == "extra_forbidden":
        known = [*_keys_at(schema, place[:-1]), *(more_keys if len(place) == 1 else ())]
        return place, str(unknown("key", str(place[-1]), known))
    alike = [tuple(each["loc"]) for each in problems if (each["type"], each["msg"]) == (kind, problem["msg"])]
    if kind == "missing":
        names = [f"'{each[-1]}'" for each in alike if each[:-1] == place[:-1]]
        inside = f" in {place_words(place[:-1])}" if place[:-1] else ""
        missing = f"key {names[0]} is missing" if len(names) == 1 else f"keys {', '.join(names)} are missing"
        return place, f"the {missing}{inside}."
    if kind == "value_error" and len(alike) > 1:
        words = problem_words({**problem, "input": ...})
        return place, f"{', '.join(map(place_words, alike))}: each {words}."
    return place, f"'{place_words(place)}' {problem_words(problem)}." if place else f"{problem_words(problem)}."


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
    return ", ".join(f"entry {part + 1}" if isinstance(part, int) else str(part) for part in place)[:100]


def problem_words(problem: Mapping[str, Any]) -> str:
    """What is wrong with a value, as the end of a sentence that begins with its place; the value where it is short."""
    kind, given, limits = problem["type"], problem.get("input"), problem.get("ctx") or {}
    if kind in _MUST:
        said = _MUST[kind]
        if given is None:
            return f"is empty; it {said}, or leave the key out"
        if isinstance(given, list | tuple | Mapping) and kind.endswith("_type"):
            return f"{said}, not {'keys with values' if isinstance(given, Mapping) else 'a list'}"
    elif kind in _LIMITS:
        words, limit = _LIMITS[kind]
        said = f"must be {words} {limits[limit]:,}"
    elif kind == "literal_error":
        said = f"must be {limits.get('expected', 'another word')}"
    elif kind in ("too_short", "too_long"):
        least = f"at least {limits['min_length']}" if kind == "too_short" else f"at most {limits['max_length']}"
        plural = "" if least.endswith(" 1") else "s"
        return f"needs {least} item{plural}, not {limits.get('actual_length', 'these')}"
    elif kind.startswith("string_too_"):
        least = f"at least {limits['min_length']}" if kind == "string_too_short" else f"at most {limits['max_length']}"
        return f"needs {least} characters"
    else:
        message = problem["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
        said = (message[0].lower() + message[1:]).removeprefix("input should ")
    if isinstance(given, bool) and kind == "string_type":
        return f"{said}, and YAML reads yes, no, on, off, true and false as truth values; put it in quotes"
    if isinstance(given, int | float) and kind == "string_type":
        return f"{said}, not {given!r}; put it in quotes"
    if isinstance(given, str | int | float) and "not " not in said:
        said += f", not {repr(given)[:60]}"
    return said
