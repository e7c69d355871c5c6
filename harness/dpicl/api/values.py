"""The arguments of the API's functions: what each may be, and one sentence about one that is something else."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

from pydantic import ConfigDict, PlainValidator, ValidationError, validate_call

from dpicl.core.errors import UsageError
from dpicl.core.json_text import WHOLE
from dpicl.mechanism.registry import forget

P = ParamSpec("P")
T = TypeVar("T")
#: Records, shots, queries, runs: no data set and no service has more.
_MOST = 10**9


def check_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """The function with its arguments checked by their annotations (those below).

    The call raises UsageError for an argument that does not fit. Classes that it was given are known while it runs.
    """
    validated = validate_call(config=ConfigDict(arbitrary_types_allowed=True, validate_default=True))(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return validated(*args, **kwargs)
        except ValidationError as error:
            if error.title != function.__name__:
                raise
            problem = error.errors()[0]
            name, said = problem["loc"][-1], problem["msg"].removeprefix("Value error, ")
            raise UsageError(f"{function.__name__}: '{name}': {said[0].lower()}{said[1:].rstrip('.')}.") from None
        finally:
            forget()

    return call


def as_list(value: Any) -> list[Any]:
    """The value as a list: a text, a number, a class and a mechanism are one."""
    return [value] if isinstance(value, str | bytes) or not isinstance(value, Iterable) else list(value)


def _whole(least: int, most: int = _MOST) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if not isinstance(value, Integral) or isinstance(value, bool) or not least <= int(value) <= most:
            raise ValueError(f"must be a whole number from {least:,} to {most:,}, not {value!r:.60}")
        return int(value)

    return read


def _epsilon(value: Any) -> float:
    if not isinstance(value, Real) or isinstance(value, bool) or not float(value) > 0:
        raise ValueError(f"epsilon must be above 0 (math.inf for no privacy), not {value!r:.60}")
    return float(value)


def _within(low: float, high: float, closed: bool = False) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        fits = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
        if not fits or not (low < value < high or (closed and value == low)):
            raise ValueError(f"must be a number between {low:g} and {high:g}, not {value!r:.60}")
        return float(value)

    return read


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be a text, not {value!r:.60}")
    return value


def _each(read: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    def read_all(value: Any) -> list[Any]:
        found = [read(one) for one in as_list(value)]
        if not found:
            raise ValueError("must be one or more, not an empty list")
        return found

    return read_all


def _seeds(value: Any) -> list[int]:
    if isinstance(value, Integral) and not isinstance(value, bool):
        return list(range(_whole(1, 1_000_000)(value)))
    return _each(_whole(0, WHOLE - 1))(value)


def _path(value: Any) -> Path:
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError(f"must be a path, not {value!r:.60}")
    return Path(value)


def _options(value: Any) -> dict[str, Any]:
    if value is not None and (not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value)):
        raise ValueError(f"must be a dictionary: the name of an option -> its value, not {value!r:.60}")
    return dict(value or {})


def _sizes(value: Any) -> list[tuple[str | None, int]]:
    if value is None:
        return []
    named = value.items() if isinstance(value, Mapping) else [(None, value)]
    return [(label if label is None else _text(label), _whole(1)(number)) for label, number in named]


def _maybe(read: Callable[[Any], T]) -> Callable[[Any], T | None]:
    return lambda value: None if value is None else read(value)


as_it_is = PlainValidator(lambda value: value)
as_text = PlainValidator(_text)
Text = Annotated[str, PlainValidator(_text)]
MaybeText = Annotated[str | None, PlainValidator(_maybe(_text))]
Names = Annotated[str | Sequence[str], PlainValidator(_each(_text))]
Epsilon = Annotated[float, PlainValidator(_epsilon)]
MaybeEpsilon = Annotated[float | None, PlainValidator(_maybe(_epsilon))]
Epsilons = Annotated[float | Sequence[float], PlainValidator(_each(_epsilon))]
Delta = Annotated[float, PlainValidator(_within(0, 1))]
Confidence = Annotated[float, PlainValidator(_within(0.5, 1, closed=True))]
Seeds = Annotated[int | Sequence[int], PlainValidator(_seeds)]
Seed = Annotated[int, PlainValidator(_whole(0, WHOLE - 1))]
Count = Annotated[int, PlainValidator(_whole(1))]
Shots = Annotated[int, PlainValidator(_whole(1, 10_000))]
MaybeCount = Annotated[int | None, PlainValidator(_maybe(_whole(1)))]
Options = Annotated[Mapping[str, Any] | None, PlainValidator(_options)]
Paths = Annotated[
    Path | str | Sequence[Path | str], PlainValidator(lambda value: [_path(one) for one in as_list(value)])
]
MaybePath = Annotated[Path | str | None, PlainValidator(_maybe(_path))]
#: Declared sizes: one for all classes, or by label; read as a list of (label or None, number).
DeclaredSizes = Annotated[int | Mapping[str, int] | None, PlainValidator(_sizes)]
