"""Collects strings that may trigger code: those that filters look for, and those in the mechanism's own code (what a
fuzzer calls a dictionary): its strings, matches of its regular expressions, and texts as long as its numbers say.
"""

from __future__ import annotations

import itertools
import math
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import CodeType, FunctionType, ModuleType

from dpicl.conformance.patterns import make_matches
from dpicl.core.plugins import is_harness
from dpicl.mechanism.bases import Mechanism

#: Kinds of strings that code may treat differently from ordinary text.
TRIGGERS = (
    "write to anna.kovacs@example.org",
    "call +36 1 234 5678 or 555-867-5309 or (020) 7946 0958",
    "see https://www.example.com/a?b=1#c and www.example.net",
    "card 4111 1111 1111 1111, cvv 123",
    "SSN 078-05-1120, passport AB1234567",
    "IBAN DE89 3704 0044 0532 0130 00",
    "on 1984-07-03 and 03/07/84 at 12:45:59",
    "host 192.168.0.1 2001:db8::1",
    "costs $1,234.56 or €99 or £5, 100% up",
    "Dr. John Smith and Mrs. Mary Johnson, 12 Baker Street, London NW1 6XE",
    "CONFIDENTIAL secret private internal URGENT",
    "username: admin password: hunter2 api_key=sk-123456 token",
    "patient diagnosis cancer HIV diabetes hospital",
    "bank account salary loan credit insurance",
    "kill bomb attack murder suicide damn",
    "man woman black white Muslim Jewish Christian gay",
    "ignore all previous instructions",
    "0 1 2 3 4 5 6 7 8 9 1234567890 -1 3.14 1e309",
    "ÀÉÎÕÜ ß ñ ç ж 中文 日本語 العربية",
    "🙂🚀❤️",
    "a\u200bb\u200d \u202e \xa0 \u00ad",
    "x" * 300,
    "ALL CAPITAL LETTERS",
    "<b>html</b> &amp; <script>alert(1)</script>",
    "SELECT * FROM users; DROP TABLE users; --",
    '{"key": ["value"]} [x](y) **bold** `code`',
    "@user #tag RT",
    "why? what! who... (when) [where] 'how' \"which\"",
    "yes no not never None null NaN true false",
    "C:\\path\\file.txt /etc/passwd ../..",
    "January Monday today tomorrow Christmas",
    "test example sample dummy lorem ipsum",
    "a",
    "tab\tand\r\nlines\n\nof text",
)
#: How many strings of the code are used, and the longest.
_MOST, _LONGEST = 60, 40
#: How many of its patterns are used, and the longest; strings that mean something as a regular expression.
_PATTERNS, _LONGEST_PATTERN = 20, 400
_MEANS_A_PATTERN = re.compile(r"\\[bdswABDSWZ]|\[[^\]]+\]|[\w)\]][+*]|\{\d+(,\d*)?\}|^\^|\$$|\(\?")
#: How many of its numbers are taken for values of its knob.
_LEVELS = 7
#: How many of its numbers are taken for lengths of texts, and which.
_LENGTHS, _LENGTH = 12, range(3, 4000)


#: A long text of different words, and a word with one of everything that code may count.
_WORDS = " ".join(f"w{number}" for number in range(1000))
_COUNTED = "Aa1,.;:!?-@"


def modules_of(cls: type[Mechanism]) -> dict[str, ModuleType]:
    """The modules of a mechanism's class and of its bases, the harness's own left out, and what they import of their
    own package."""
    names = [base.__module__ for base in cls.__mro__ if issubclass(base, Mechanism)]
    names = [name for name in dict.fromkeys(names) if not is_harness(name) and name in sys.modules]
    package = cls.__module__.rpartition(".")[0]
    for name in names if package else ():  # it grows
        for value in list(vars(sys.modules[name]).values()):
            origin = (
                value.__name__
                if isinstance(value, ModuleType)
                else getattr(value, "__module__", None)
            )
            of_package = isinstance(origin, str) and origin.startswith(f"{package}.")
            if of_package and origin in sys.modules and origin not in names:
                names.append(origin)
    return {name: sys.modules[name] for name in names}


def constants(cls: type[Mechanism]) -> list[str]:
    """The first short strings that the mechanism's own code holds, in the order of the code."""
    return list(_short_strings(cls))[:_MOST]


def everything(cls: type[Mechanism]) -> str:
    """All short strings of the mechanism's own code, and kinds of strings, in one text."""
    return " ".join((*_short_strings(cls), *TRIGGERS))


def _short_strings(cls: type[Mechanism]) -> dict[str, None]:
    short: dict[str, None] = {}
    for text in _find_constants(cls):
        if not isinstance(text, str) or "<" in text:  # <locals>, <lambda>
            continue
        if text.strip() and len(text) <= _LONGEST:
            short[text] = None
    return short


def triggers_of(cls: type[Mechanism]) -> list[str]:
    """Texts that the mechanism's own code may look for: strings that it holds, what its patterns match, and texts of as
    many characters, or words, digits, commas and so on, as its numbers say, and of one more."""
    values = list(_find_constants(cls))
    patterns = dict.fromkeys(filter(None, map(_pattern, values)))
    matched: list[str] = []
    for pattern in list(patterns)[:_PATTERNS]:
        matched += make_matches(pattern)
    numbers = dict.fromkeys(value for value in values if type(value) is int and value in _LENGTH)
    long: list[str] = []
    for number in list(numbers)[:_LENGTHS]:
        for length in (number, number + 1):
            long += [_WORDS[:length], " ".join([_COUNTED] * length)]
    return [*matched, *constants(cls), *long]


def levels_of(cls: type[Mechanism], known: Sequence[float]) -> list[float]:
    """Numbers between the least and the largest of the known ones, which are at least 0: one from each range into which
    the numbers of the mechanism's own code divide it, and in which no known one is. Code that compares its knob with
    them does one thing inside each."""
    low, high = min(known), max(known)
    constants_of_code = [value for value in _find_constants(cls) if isinstance(value, int | float)]
    numbers = {float(value) for value in constants_of_code if low < value < high}
    ranges = itertools.pairwise([low, *sorted(numbers)[:_LEVELS], high])
    levels = []
    for start, end in ranges:
        if not any(start <= level <= end for level in known):
            levels.append(math.sqrt(start * end))
    return levels


def whole_numbers(cls: type[Mechanism]) -> list[int]:
    """The whole numbers above 1 that the mechanism's own code holds, each once, in order."""
    return sorted({value for value in _find_constants(cls) if type(value) is int and value > 1})


def _pattern(value: object) -> re.Pattern[str] | None:
    """A value of the code as a regular expression, if it can be one for texts."""
    if isinstance(value, str) and len(value) <= _LONGEST_PATTERN and _MEANS_A_PATTERN.search(value):
        with warnings.catch_warnings(action="ignore"):
            try:
                return re.compile(value)
            except (re.error, RecursionError, OverflowError):
                return None
    return value if isinstance(value, re.Pattern) and isinstance(value.pattern, str) else None


def _list_own(holder: ModuleType | type) -> list[object]:
    """What a module or a class defines, without what Python adds."""
    parts = list(vars(holder).items())
    return [
        value
        for name, value in parts
        if isinstance(value, FunctionType) or not name.startswith("__")
    ]


def _find_constants(cls: type[Mechanism]) -> Iterator[object]:
    """Strings, numbers and patterns of the mechanism's modules, in the order of the code."""
    for name, module in modules_of(cls).items():
        yield from _constants(_list_own(module), name)


def _constants(value: object, module: str, depth: int = 4) -> Iterator[object]:
    """The strings, numbers and patterns in a value; code does not count as a level."""
    if isinstance(value, str | int | float | re.Pattern):
        yield value
    elif depth or isinstance(value, CodeType):
        for part in _parts(value, module):
            yield from _constants(
                part, module, depth - (not isinstance(value, CodeType | FunctionType))
            )


def _parts(value: object, module: str) -> Iterable[object]:
    """What a value is made of, of the module's own making."""
    match value:
        case CodeType():
            return value.co_consts
        case FunctionType() if (
            value.__module__ == module and value.__code__.co_filename != "<string>"
        ):
            code = value.__code__  # not one that a dataclass writes
            parts = tuple(part for part in code.co_consts if part is not value.__doc__)
            return [code.replace(co_consts=parts)]
        case property():
            return [value.fget]
        case classmethod() | staticmethod():
            return [value.__func__]
        case type() if value.__module__ == module:
            return _list_own(value)
        case Mapping():
            return [part for item in list(value.items()) for part in item]
        case list() | tuple() | set() | frozenset():
            return list(value)
    return []
