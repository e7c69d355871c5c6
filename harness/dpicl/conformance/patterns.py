"""Generates strings that match a regular expression, since code may filter by one."""

from __future__ import annotations

import random
import re
from re import _compiler, _parser  # type: ignore[attr-defined]
from re import _constants as op  # type: ignore[attr-defined]
from typing import Any

#: Characters that negations and classes choose from besides those that they name, in this order.
_LETTERS = "aZ5 .-_\n" + "".join(map(chr, range(33, 127))) + "é中🙂"
#: The most repetitions beyond the required ones; the most repetitions of a string; tries for one string.
_MORE, _MOST, _TRIES = 3, 200, 6


def make_matches(pattern: re.Pattern[str]) -> list[str]:
    """Up to two different strings that hold a match, always the same ones; none for a pattern that only text around
    it decides, or that matches nothing but the empty string."""
    parsed = _parser.parse(pattern.pattern, pattern.flags)
    matches: dict[str, None] = {}
    for seed in range(_TRIES):
        writer = _Writer(random.Random(seed), parsed.state)
        written = writer.write(parsed)
        for text in (written, written + "".join(writer.ahead)):
            if text and pattern.search(text) and len(matches) < 2:
                matches.setdefault(text)
    return list(matches)


class _Writer:
    """Writes one string that a parsed pattern matches, if nothing looks around. ahead: what the text must also hold."""

    def __init__(self, randomness: random.Random, state: Any) -> None:
        self._random, self._state = randomness, state
        self._groups: dict[int, str] = {}
        self.ahead: list[str] = []

    def write(self, parsed: Any) -> str:
        """parsed: a sequence of (operation, argument) as `re` parses it."""
        return "".join(self._one(operation, argument) for operation, argument in parsed)

    def _one(self, operation: Any, argument: Any) -> str:
        match operation:
            case op.LITERAL:
                return chr(argument)
            case op.NOT_LITERAL | op.ANY | op.IN:
                return self._character(operation, argument)
            case op.BRANCH:
                return self.write(self._random.choice(argument[1]))
            case op.MAX_REPEAT | op.MIN_REPEAT | op.POSSESSIVE_REPEAT:
                least, most, repeated = argument
                times = self._random.randint(least, min(most, least + _MORE))
                return "".join(self.write(repeated) for _ in range(min(times, _MOST)))
            case op.SUBPATTERN:
                self._groups[argument[0]] = text = self.write(argument[-1])
                return text
            case op.ATOMIC_GROUP:
                return self.write(argument)
            case op.ASSERT if argument[0] < 0:  # it looks behind
                return self.write(argument[1])
            case op.ASSERT:
                self.ahead.append(self.write(argument[1]))
            case op.GROUPREF:
                return self._groups.get(argument, "")
            case op.GROUPREF_EXISTS:
                return self.write(argument[1 if argument[0] in self._groups else 2] or ())
        return ""  # AT and ASSERT_NOT: they match no character

    def _character(self, operation: Any, argument: Any) -> str:
        """One that the operation matches, of those that it names or else of letters that everybody knows."""
        named: list[str] = []
        for kind, each in argument if operation is op.IN else ():
            if kind in (op.LITERAL, op.RANGE):
                first, last = each if kind is op.RANGE else (each, each)
                named += map(chr, range(first, min(last, first + 100) + 1))
        pattern = _parser.SubPattern(self._state, [(operation, argument)])
        fits = _compiler.compile(pattern).fullmatch
        fitting = list(filter(fits, (*named, *_LETTERS)))
        return self._random.choice(fitting or [""])
