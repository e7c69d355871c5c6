"""Defines verbs: annotated functions that programs call, and that `dpicl.cli.commands` turns into commands."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import (
    Annotated,
    Any,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import ConfigDict, TypeAdapter, ValidationError

from dpicl.core.errors import DpiclError, UsageError, require_known, unknown_name
from dpicl.core.extras import require_extras
from dpicl.core.messages import COMMAND
from dpicl.core.plain_words import problem_words

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Flag:
    """How a parameter is written on the command line. In an annotation, an outer Flag replaces what an inner one says.

    name: of the flag; "": made from the parameter's name. A parameter that Python takes by position is an argument on
    the command line too, unless it is given a name here. check: turns a value, or the text that was written for it,
    into the value that the verb gets; it raises ValueError with the rest of a sentence that begins with the flag. None:
    as pydantic reads the type. several: whether it may be repeated; then it is checked as a list. complete: what a
    shell offers, or the KIND of `dpicl list KIND` that does. hidden: whether it is for programs alone.
    """

    help: str = ""
    name: str = ""
    metavar: str = ""
    check: Callable[[Any], Any] | None = None
    several: bool = False
    complete: Callable[[], Iterable[str]] | str | None = None
    hidden: bool = False

    def nest_in(self, outer: Flag) -> Flag:
        """This flag, with what the outer one sets in place of its own."""
        outer_values = {each.name: getattr(outer, each.name) for each in fields(outer)}
        return replace(self, **{name: value for name, value in outer_values.items() if value})


HIDDEN = Flag(hidden=True)


@dataclass(frozen=True)
class Parameter:
    """One parameter of a verb. default: `inspect.Parameter.empty` where it must be given. choices: of a Literal.
    switch: whether its flag takes no value."""

    name: str
    flag: Flag
    check: Callable[[Any], Any]
    default: Any = None
    positional: bool = False
    choices: tuple[str, ...] = ()
    switch: bool = False

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def placeholder(self) -> str:
        """What stands for the value in help texts."""
        return self.flag.metavar or "|".join(self.choices) or self.name.upper()

    @property
    def written(self) -> str:
        """The flag, or the placeholder of a positional argument."""
        if self.positional:
            return self.placeholder
        return self.flag.name or "--" + self.name.replace("_", "-")

    def validate(self, value: Any) -> Any:
        """Raises ValueError with the rest of a sentence, or UsageError with a whole one."""
        if value is None and self.default is None:
            return None
        if self.choices and isinstance(value, str):
            require_known(self.name.replace("_", " "), [value], self.choices)
        return self.check(value)


@functools.cache
def parameters(function: Callable[..., Any]) -> dict[str, Parameter]:
    """Those of a function by name, with the help of its docstring.

    A `**group: Unpack[TypedDict]` counts as its keys, which may all be left out.
    """
    function = inspect.unwrap(function)
    helps = _helps(inspect.getdoc(function) or "")
    hints, by_name = get_type_hints(function, include_extras=True), {}
    for name, each in inspect.signature(function).parameters.items():
        if each.kind is each.VAR_KEYWORD:
            (group,) = get_args(hints[name])
            for key, hint in get_type_hints(group, include_extras=True).items():
                by_name[key] = _parameter(key, hint, Flag())
        else:
            parameter = _parameter(name, hints[name], Flag(helps.get(name, "")))
            positional = each.kind is not each.KEYWORD_ONLY and not parameter.flag.name
            by_name[name] = replace(parameter, default=each.default, positional=positional)
    return by_name


def _helps(text: str) -> dict[str, str]:
    """Parameter -> what a docstring says of it in a line `name: text.`, which may go on in indented lines."""
    lines = re.findall(r"^(\w+): (.+(?:\n +.+)*)$", text, re.MULTILINE)
    return {name: " ".join(text_of_line.split()).removesuffix(".") for name, text_of_line in lines}


def _parameter(name: str, hint: Any, outer: Flag) -> Parameter:
    parts = list(_parts(hint))
    flag = functools.reduce(
        Flag.nest_in, [*(part for part in parts if isinstance(part, Flag)), outer], Flag()
    )
    choices = next((get_args(part) for part in parts if get_origin(part) is Literal), ())
    if choices and flag.complete is None:
        flag = replace(flag, complete=lambda: choices)
    return Parameter(
        name, flag, flag.check or make_validator(hint), choices=choices, switch=bool in parts
    )


def _parts(hint: Any) -> Iterator[Any]:
    """Types and flags of an annotation, from the innermost to the outermost."""
    if get_origin(hint) is Annotated:
        inner, *more = get_args(hint)
        yield from [*_parts(inner), *more]
    elif get_origin(hint) in (Union, types.UnionType):
        for each in get_args(hint):
            yield from _parts(each)
    else:
        yield hint


def make_validator(hint: Any) -> Callable[[Any], Any]:
    """A function that checks a value, and returns it as pydantic reads it for the type. It raises ValueError with the
    rest of a sentence."""

    @functools.cache
    def adapter() -> TypeAdapter[Any]:
        return TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True))

    def check(value: Any) -> Any:
        try:
            return adapter().validate_python(value)
        except ValidationError as error:
            raise ValueError(problem_words(error.errors()[0])) from None

    return check


def check_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """The function with its arguments checked by their annotations.

    The call raises UsageError for an argument that does not fit. Mechanism classes among its arguments are registered
    until it returns.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        known = parameters(function)
        try:
            if strange := [name for name in kwargs if name not in known]:
                raise UsageError(
                    f"{function.__name__}: {unknown_name('argument', strange[0], known)}"
                )
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            values = dict(bound.arguments)
            for each in signature.parameters.values():
                if each.kind is each.VAR_KEYWORD:
                    values |= values.pop(each.name)
            for name, value in values.items():
                try:
                    values[name] = known[name].validate(value)
                except ValueError as error:
                    raise UsageError(f"{function.__name__}: '{name}' {error}.") from None
            with require_extras():
                return function(**values)  # type: ignore[call-arg]
        except DpiclError as error:
            if not COMMAND.get() and error.args:
                error.args = (_name_parameters(str(error.args[0]), known), *error.args[1:])
            raise
        finally:
            # without this module no class can have been registered
            if registry := sys.modules.get("dpicl.mechanism.registry"):
                registry.forget()

    return call


def _name_parameters(message: str, known: Mapping[str, Parameter]) -> str:
    """A message for a program: flags are replaced by the names of parameters, except inside quoted commands."""
    names = {each.written: name for name, each in known.items()}
    return re.sub(
        r"`[^`]*`|--[a-z][a-z-]*", lambda match: names.get(match.group(), match.group()), message
    )


@dataclass(frozen=True)
class Verb:
    """What a command needs to know of a function besides its parameters.

    example: command lines for its help. answer: makes what a command shows (dpicl.cli.output.Answer) from what the
    function returned and its arguments by name; the default is for a function that returns an Answer. needs: parameters
    that must be given on the command line, though a program may leave them out. apart: for a verb that runs somebody
    else's code in a process of its own, its arguments -> seconds of silence after which that process is stopped; None
    for all others.
    """

    example: str
    answer: Callable[[Any, Mapping[str, Any]], Any] = lambda answer, arguments: answer
    needs: tuple[str, ...] = ()
    apart: Callable[[Mapping[str, Any]], float | None] | None = None


def verb(example: str, **about: Any) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Makes a function a verb of `dpicl`. about: fields of `Verb`."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        call = check_arguments(function)
        vars(call)["verb"] = Verb(example, **about)
        return call

    return decorate
