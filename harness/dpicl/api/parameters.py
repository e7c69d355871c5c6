"""The parameters of the verbs: what each may be, how its flag is read, and its help.

A verb is one annotated function. Programs call it with its arguments checked by the annotations below, and
`dpicl.program` makes its command of the same annotations.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, Literal, ParamSpec, TypedDict, TypeVar, Union, get_args, get_origin, get_type_hints

from dpicl.core.errors import UsageError, require_known, unknown
from dpicl.core.extras import required
from dpicl.core.json_text import WHOLE
from dpicl.core.paths import DEFAULT_RESULTS, shipped_suites

P = ParamSpec("P")
T = TypeVar("T")
#: Records, shots, queries, runs: no data set and no service has more.
_MOST = 10**9


@dataclass(frozen=True)
class Flag:
    """How a parameter is written on the command line, and what it may be.

    In an annotation, what an outer Flag says replaces what an inner one says.

    name: of the flag; "": made of the parameter's name; one with a flag's name is a flag, though Python takes it by
    position. check: a value -> the value that the verb gets; it raises ValueError with the rest of a sentence that
    begins with the flag. read: text -> value. gather: all texts of a flag that may be repeated -> value. complete: what
    a shell offers, or of what kind (`dpicl list KIND`). hidden: for programs alone.
    """

    help: str = ""
    name: str = ""
    metavar: str = ""
    check: Callable[[Any], Any] | None = None
    read: Callable[[str], Any] | None = None
    gather: Callable[[Sequence[str]], Any] | None = None
    choices: tuple[str, ...] = ()
    complete: Callable[[], Iterable[str]] | str | None = None
    switch: bool = False
    hidden: bool = False

    def under(self, outer: Flag) -> Flag:
        """This flag with what another one says instead."""
        said = {each.name: getattr(outer, each.name) for each in fields(outer)}
        return replace(self, **{name: value for name, value in said.items() if value != getattr(_PLAIN, name)})


_PLAIN = Flag()
HIDDEN = Flag(hidden=True)


@dataclass(frozen=True)
class Parameter:
    """One parameter of a verb. default: `inspect.Parameter.empty` where it must be given."""

    name: str
    flag: Flag
    default: Any
    positional: bool

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def placeholder(self) -> str:
        """What stands for the value in help texts."""
        return self.flag.metavar or self.name.upper()

    @property
    def written(self) -> str:
        """The flag, or the placeholder of a positional argument."""
        if self.positional:
            return self.placeholder
        return self.flag.name or "--" + self.name.replace("_", "-")

    def checked(self, value: Any) -> Any:
        """Raises ValueError with the rest of a sentence, or UsageError with a whole one."""
        if value is None and self.default is None:
            return None
        if self.flag.choices:
            require_known(self.name.replace("_", " "), [_text(value)], self.flag.choices)
        return value if self.flag.check is None else self.flag.check(value)

    def parsed(self, texts: Sequence[str]) -> Any:
        """The value of what was written on the command line. Raises as `checked`."""
        if self.flag.gather is not None:
            return self.checked(self.flag.gather(texts))
        return self.checked(texts[-1] if self.flag.read is None else self.flag.read(texts[-1]))


@functools.cache
def parameters(function: Callable[..., Any]) -> dict[str, Parameter]:
    """Those of a function by name, with the help of its docstring.

    A `**group: Unpack[TypedDict]` counts as its keys, which may all be left out.
    """
    function = inspect.unwrap(function)
    helps = _helps(inspect.getdoc(function) or "")
    hints, found = get_type_hints(function, include_extras=True), {}
    for name, each in inspect.signature(function).parameters.items():
        if each.kind is each.VAR_KEYWORD:
            (group,) = get_args(hints[name])
            for key, hint in get_type_hints(group, include_extras=True).items():
                found[key] = Parameter(key, _flag_of(hint), None, False)
        else:
            flag = _flag_of(hints[name]).under(Flag(helps.get(name, "")))
            positional = each.kind is not each.KEYWORD_ONLY and not flag.name
            found[name] = Parameter(name, flag, each.default, positional)
    return found


def _helps(text: str) -> dict[str, str]:
    """Parameter -> what a docstring says of it: a line `name: text.`, that may go on in indented lines."""
    found = re.findall(r"^(\w+): (.+(?:\n +.+)*)$", text, re.MULTILINE)
    return {name: " ".join(said.split()).removesuffix(".") for name, said in found}


def _flag_of(hint: Any) -> Flag:
    return functools.reduce(Flag.under, _flags_of(hint), _PLAIN)


def _flags_of(hint: Any) -> Iterator[Flag]:
    """From the innermost to the outermost."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        yield from _flags_of(arguments[0])
        yield from (each for each in arguments[1:] if isinstance(each, Flag))
    elif origin in (Union, types.UnionType):
        for each in arguments:
            yield from _flags_of(each)
    elif origin is Literal:
        yield Flag(choices=arguments, metavar="|".join(arguments), complete=lambda: arguments)
    elif hint is bool:
        yield Flag(switch=True)


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """The function with its arguments checked by their annotations.

    The call raises UsageError for an argument that does not fit. Classes that it was given are known while it runs.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        from dpicl.mechanism.registry import forget

        own = parameters(function)
        try:
            if strange := [name for name in kwargs if name not in own]:
                raise UsageError(f"{function.__name__}: unexpected keyword: {unknown('argument', strange[0], own)}")
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            given = dict(bound.arguments)
            for each in signature.parameters.values():
                if each.kind is each.VAR_KEYWORD:
                    given |= given.pop(each.name)
            for name, value in given.items():
                try:
                    given[name] = own[name].checked(value)
                except ValueError as error:
                    raise UsageError(f"{function.__name__}: '{name}' {error}.") from None
            with required():
                return function(**given)  # type: ignore[call-arg]
        finally:
            forget()

    return call


@dataclass(frozen=True)
class Verb:
    """What a command needs to know of a function besides its parameters.

    example: command lines for its help. show: writes what it returned for people, given the arguments by name.
    document: what --json prints of it. needs, defaults: of the command line, where a program has others. rest: words
    that are no flags of ours are passed on as the argument of that name. apart: seconds of silence after which it is
    stopped, for a verb that runs code of somebody else in a process of its own; None for all others.
    """

    example: str
    show: Callable[[Any, Mapping[str, Any]], None] | None = None
    document: Callable[[Any, Mapping[str, Any]], Any] | None = None
    needs: tuple[str, ...] = ()
    defaults: Mapping[str, Any] | None = None
    rest: str = ""
    apart: Callable[[Mapping[str, Any]], float | None] | None = None


def verb(example: str, **about: Any) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Makes a function a verb of `dpicl`. about: fields of `Verb`."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        call = checked(function)
        vars(call)["verb"] = Verb(example, **about)
        return call

    return decorate


# --- values


def as_list(value: Any) -> list[Any]:
    """The value as a list: a text, a number, a class and a mechanism are one."""
    return [value] if isinstance(value, str | bytes) or not isinstance(value, Iterable) else list(value)


def whole(least: int, most: int = _MOST) -> Flag:
    """A whole number in a range."""

    def check(value: Any) -> int:
        if not isinstance(value, Integral) or isinstance(value, bool) or not least <= int(value) <= most:
            raise ValueError(f"must be a whole number from {least:,} to {most:,}, not {value!r:.60}")
        return int(value)

    return Flag(check=check, read=_read_whole, metavar="N")


def _read_whole(text: str) -> Any:
    return int(text) if re.fullmatch("-?[0-9]{1,17}", text) else text


def within(low: float, high: float, ends: Literal["", "low", "high"] = "") -> Flag:
    """A finite number in a range. ends: the end that belongs to it."""

    def check(value: Any) -> float:
        fits = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
        at_end = {"": None, "low": low, "high": high}[ends]
        if not fits or not (low < value < high or value == at_end):
            limits = f"above {low:g}" if math.isinf(high) else f"between {low:g} and {high:g}"
            included = "" if at_end is None else f" ({at_end:g} included)"
            raise ValueError(f"must be a number {limits}{included}, not {value!r:.60}")
        return float(value)

    return Flag(check=check, read=read_number)


def read_number(text: str) -> float:
    """A decimal or a fraction such as 20/30000; 'inf' is infinity."""
    from dpicl.core.field_types import parse_number  # pydantic, which `dpicl --help` does without

    try:
        return parse_number(text)
    except ValueError:
        raise ValueError(
            f"must be a number (write a decimal, or a fraction such as 1/30000), not '{text[:60]}'"
        ) from None


def _epsilon(value: Any) -> float:
    if not isinstance(value, Real) or isinstance(value, bool) or not float(value) > 0:
        raise ValueError(f"must be an epsilon above 0 ('inf' or math.inf for no privacy), not {value!r:.60}")
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be a text, not {value!r:.60}")
    return value


def _path(value: Any) -> Path:
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError(f"must be a path, not {value!r:.60}")
    return Path(value)


def each(check: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    """The check of a value that is one or a list."""
    return lambda value: [check(one) for one in as_list(value)]


def _one_or_more(check: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    def check_all(value: Any) -> list[Any]:
        if not (found := each(check)(value)):
            raise ValueError("must be one or more, not an empty list")
        return found

    return check_all


def listed(read: Callable[[str], Any] = str) -> Callable[[Sequence[str]], list[Any]]:
    """Reads a flag that may be repeated, or have several values, divided by commas."""

    def gather(texts: Sequence[str]) -> list[Any]:
        parts = [[part.strip() for part in text.split(",") if part.strip()] or [text] for text in texts]
        return [read(part) for own in parts for part in own]

    return gather


def pairs(read: Callable[[str], T]) -> Callable[[Sequence[str]], list[T]]:
    """Reads a flag that may be repeated, one value each time."""
    return lambda texts: [read(text) for text in texts]


def _seeds(value: Any) -> list[int]:
    if isinstance(value, Integral) and not isinstance(value, bool):
        return list(range(_whole(value, 1, 1_000_000)))
    return _one_or_more(_seed)(value)


def _whole(value: Any, least: int, most: int) -> int:
    check = whole(least, most).check
    assert check is not None
    return int(check(value))


def _seed(value: Any) -> int:
    return _whole(value, 0, WHOLE - 1)


def _options(value: Any) -> dict[str, Any]:
    if value is not None and (not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value)):
        raise ValueError(f"must be a dictionary: the name of an option -> its value, not {value!r:.60}")
    return dict(value or {})


def _read_options(texts: Sequence[str]) -> dict[str, Any]:
    """'slots=5' or 'tang.slots=5', each value read as in a suite."""
    from dpicl.core import strict_yaml

    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.rpartition(".")[2]:
            raise ValueError(f"must be NAME=VALUE or MECHANISM.NAME=VALUE, not '{text}'")
        try:
            found[name] = strict_yaml.parse(value, Path("--option")).data
        except UsageError:
            found[name] = value
    return found


def option_changes(options: Mapping[str, Any] | None) -> list[tuple[str | None, str, Any]]:
    """(row or mechanism, option, value) of options by name or by MECHANISM.NAME."""
    named = [(*name.rpartition(".")[::2], value) for name, value in (options or {}).items()]
    return [(target or None, name, value) for target, name, value in named]


def options_of(mechanism: str, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options of one mechanism. Raises UsageError for one that names another mechanism."""
    changes = option_changes(options)
    require_known("mechanism", [target for target, _, _ in changes if target is not None], [mechanism])
    return {name: value for _, name, value in changes}


def _sizes(value: Any) -> list[tuple[str | None, int]]:
    if value is None:
        return []
    named = value.items() if isinstance(value, Mapping) else [(None, value)]
    return [(label if label is None else _text(label), _whole(number, 1, _MOST)) for label, number in named]


def _read_sizes(texts: Sequence[str]) -> Any:
    """'100', or 'billing=100' for each label."""
    found = [(label or None, _read_whole(number)) for label, _, number in (t.rpartition("=") for t in listed()(texts))]
    if len(found) > 1 and (len({label for label, _ in found}) < len(found) or None in dict(found)):
        raise UsageError("Give --size N once, for all classes, or --size LABEL=N once for each label.")
    return found[0][1] if found[0][0] is None else dict(found)


def as_labels(value: Any) -> dict[str, str]:
    """Label as a file has it -> label word."""
    labels = dict(value) if isinstance(value, Mapping) else {word: word for word in as_list(value)}
    if not all(isinstance(word, str) for pair in labels.items() for word in pair):
        raise ValueError("must be texts: a list of them, or a dictionary from those in the file to others")
    return labels


def _read_labels(text: str) -> dict[str, str]:
    """'billing,refund' or '0=billing,1=refund' -> label as a file has it -> label word, with single spaces."""
    found: dict[str, str] = {}
    for part in text.split(","):
        written, _, word = part.partition("=") if "=" in part else (part, "", part)
        written, word = written.strip(), " ".join(word.split())
        if not written or not word or written in found:
            said = f"'{written}' is given twice" if written in found else f"'{part}' lacks a label or its name"
            raise ValueError(f"must be like billing,refund or 0=billing,1=refund: {said}")
        found[written] = word
    return found


def _suites() -> Iterable[str]:
    return [*shipped_suites(), *map(str, Path().glob("*.yaml"))]


def one_path(metavar: str, help: str, name: str = "") -> Flag:
    """A file or folder."""
    return Flag(help, name, metavar, check=_path)


def several(what: str, metavar: str, name: str = "", complete: str | None = None) -> Flag:
    """A list of names."""
    help = f"{what}; may be repeated (or A,B)"
    return Flag(help, name, metavar, check=each(_text), gather=listed(), complete=complete)


Names = str | Sequence[str]
_SOURCES = "auto|hub|local|synthetic"
_PLUGINS = "Python file with a mechanism, attack or model, or folder with a task.yaml; may be repeated"
_OPTIONS = "option of the mechanisms that have it (or MECHANISM.K=V); may be repeated"

Text = Annotated[str, Flag(check=_text)]
Count = Annotated[int, whole(1)]
Shots = Annotated[int, whole(1, 10_000), Flag("demonstrations (default: 4)", metavar="K")]
Seed = Annotated[int, Flag("root seed (default: 0)", metavar="S", check=_seed, read=_read_whole)]
Seeds = Annotated[int | Sequence[int], Flag(check=_seeds, gather=listed(_read_whole))]
Epsilon = Annotated[float, Flag("target epsilon", metavar="E", check=_epsilon, read=read_number)]
Epsilons = Annotated[
    float | Sequence[float],
    Flag(
        "target epsilon ('inf' too); may be repeated (or 1,8)",
        "--epsilon",
        "E",
        check=_one_or_more(_epsilon),
        gather=listed(read_number),
    ),
]
SomeNames = Annotated[Names, Flag(check=_one_or_more(_text))]
#: Some of a board's or suite's; none: all.
SomeEpsilons = Annotated[Epsilons, Flag(check=each(_epsilon))]
Delta = Annotated[float, within(0, 1), Flag("delta (default: 1e-5)", metavar="D")]
Confidence = Annotated[float, within(0.5, 1, "low"), Flag(metavar="C")]
Model = Annotated[str, Flag("model as in a suite (default: embedded)", metavar="X", check=_text, complete="models")]
Models = Annotated[Names, several("model", "X", "--model", "models")]
Task = Annotated[str, Flag("see `dpicl list tasks`", metavar="T", check=_text, complete="tasks")]
Tasks = Annotated[Names, several("task", "T", "--task", "tasks")]
Rows = Annotated[Names, several("row or mechanism", "M", "--mechanism", "mechanisms")]
OneMechanism = Flag("see `dpicl list mechanisms`", metavar="MECHANISM", complete="mechanisms")
SourceName = Annotated[Literal["auto", "hub", "local", "synthetic"], Flag("where records come from", metavar=_SOURCES)]
SuiteName = Annotated[
    str | Path,
    Flag("a suite file, or the name of a shipped suite", metavar="SUITE", complete=_suites, read=str),
]
Limit = Annotated[int, whole(1), Flag("test records of each task", "--limit")]
Options = Annotated[Mapping[str, Any], Flag(_OPTIONS, "--option", "K=V", check=_options, gather=_read_options)]
Paths = Annotated[Path | str | Sequence[Path | str], Flag(metavar="PATH", check=each(_path), gather=pairs(str))]
Plugins = Annotated[Paths, Flag(_PLUGINS, "--plugin")]
OnePath = Annotated[Path | str, Flag(metavar="FILE", check=_path)]
Results = Annotated[OnePath, Flag("results folder (default: results)", metavar="DIR")]
Noise = Literal["seeded", "secure"]
Labels = Annotated[
    Sequence[str] | Mapping[str, str],
    Flag(
        "label words, as billing,refund or, where a file has other labels, 0=billing,1=refund",
        metavar="LIST",
        check=as_labels,
        read=_read_labels,
    ),
]
TextField = Annotated[Text, Flag("field of a file's text (default: text, or another usual name)", metavar="NAME")]
LabelField = Annotated[Text, Flag("field of a file's label (default: label, or another usual name)", metavar="NAME")]
#: Declared sizes: one for all classes, or by label; read as a list of (label or None, number).
DeclaredSizes = Annotated[
    int | Mapping[str, int],
    Flag(
        "declared private records of each class, or LABEL=N for one class; a public number; may be repeated (or A,B)",
        metavar="N",
        check=_sizes,
        gather=_read_sizes,
    ),
]


class OfResults(TypedDict, total=False):
    """Where results are, and which of them."""

    results: Results
    plugins: Plugins
    source: SourceName
    test_records: Limit
    model: Models


class Cells(OfResults, total=False):
    """Which cells of a suite; each stands in for the suite's own list. options: by NAME, or MECHANISM.NAME."""

    task: Tasks
    mechanism: Annotated[Rows, Flag("row of the suite, or any mechanism; may be repeated (or A,B)")]
    epsilon: SomeEpsilons
    seed: Annotated[
        int | Sequence[int],
        Flag("seed; may be repeated (or A,B)", "--seed", "S", each(_seed), gather=listed(_read_whole)),
    ]
    options: Options


def folder_of(given: OfResults | Cells) -> Path:
    """The results folder."""
    return Path(given.get("results") or DEFAULT_RESULTS)
