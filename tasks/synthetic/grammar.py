"""A small context-free grammar, and records drawn from it as a function of (seed, task, class, split, index).

A grammar file has two kinds of entries. ``[symbol]`` is followed by its alternatives, one a line, up to a blank line;
``symbol: one, two, three`` is a list of words (further lines of it are indented). Lines that start with ``#`` are
comments.

In an alternative, ``{name}`` is an expansion of the symbol `name` and ``{10-99}`` a whole number in that range. With a
tag, ``{name#1}`` stays the same wherever it is written again in the record. ``|cap`` (``{name#1|cap}``) capitalises the
first word, ``|title`` all of them.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

Pairs = Iterator[tuple[str, str]]
#: (label, split, seed) -> the endless records of a corpus, of which some may be equal; label: None without classes.
Records = Callable[[str | None, str, int], Pairs]

_FIELD = re.compile(
    r"\{(?:(?P<low>\d+)-(?P<high>\d+)|(?P<name>[a-z_]+))(?P<tag>#\w+)?(?:\|(?P<case>cap|title))?\}"
)
_ARTICLE = re.compile(r"\b([Aa]) (?!uni|use|usu|one|eur|ukr|uru|uga|u\.)(?=[aeiou])", re.IGNORECASE)
_SMALL_WORDS = {"a", "an", "and", "the", "of", "on", "to", "in", "for", "at", "with", "by"}


def parse(text: str) -> dict[str, tuple[str, ...]]:
    """The rules of a grammar file: symbol -> alternatives. Raises ValueError for a line that belongs to no rule."""
    rules: dict[str, list[str]] = {}
    for block in re.split(r"\n\s*\n", re.sub(r"(?m)^#.*\n?", "", text)):
        lines = block.strip("\n").splitlines()
        if not lines:
            continue
        head, colon, first = lines[0].partition(":")
        if re.fullmatch(r"\[[a-z_]+\]", lines[0]):
            rules[lines[0][1:-1]] = [line.strip() for line in lines[1:]]
        elif colon and re.fullmatch(r"[a-z_]+", head):
            rules[head] = [
                word.strip() for word in " ".join([first, *lines[1:]]).split(",") if word.strip()
            ]
        else:
            raise ValueError(f"not a rule: {lines[0]!r}")
    return {
        symbol: tuple(" ".join(line.split()) for line in lines) for symbol, lines in rules.items()
    }


class Grammar:
    """Rules in which every symbol that is used exists and none reaches itself (else KeyError or RecursionError)."""

    def __init__(self, rules: dict[str, tuple[str, ...]]) -> None:
        self.rules = rules

    @classmethod
    @cache
    def read(cls, *names: str) -> Grammar:
        """The grammar of one or more files of this folder, e.g. read('lexicon', 'agnews')."""
        rules: dict[str, tuple[str, ...]] = {}
        for name in names:
            rules |= parse((Path(__file__).parent / f"{name}.txt").read_text(encoding="utf-8"))
        return cls(rules)

    def expand(self, symbol: str, generator: random.Random) -> str:
        """One text derived from the symbol."""
        return _tidy(self._expand(symbol, generator, {}))

    def pair(self, symbol: str, part: str, generator: random.Random) -> tuple[str, str]:
        """A text and the expansion of the tagged symbol `part` (such as 'genre#g') in it."""
        memory: dict[str, str] = {}
        text = _tidy(self._expand(symbol, generator, memory))
        return text, memory[part]

    def _expand(self, symbol: str, generator: random.Random, memory: dict[str, str]) -> str:
        alternatives = self.rules[symbol]
        chosen = alternatives[int(generator.random() * len(alternatives))]
        return _FIELD.sub(
            lambda field: _change_case(self._field(field, generator, memory), field["case"]), chosen
        )

    def _field(self, field: re.Match[str], generator: random.Random, memory: dict[str, str]) -> str:
        key = (field["name"] or f"{field['low']}-{field['high']}") + (field["tag"] or "")
        if field["tag"] and key in memory:
            return memory[key]
        if field["name"]:
            text = self._expand(field["name"], generator, memory)
        else:
            text = str(generator.randint(int(field["low"]), int(field["high"])))
        if field["tag"]:
            memory[key] = text
        return text


def _tidy(text: str) -> str:
    """'a' before a vowel is 'an', and an abbreviation at the end of a sentence needs no second full stop."""
    return _ARTICLE.sub(r"\1n ", text).replace("..", ".")


def _change_case(text: str, case: str | None) -> str:
    if case == "title":
        words = text.split(" ")
        return " ".join(
            w if i and w in _SMALL_WORDS else w[:1].upper() + w[1:] for i, w in enumerate(words)
        )
    return text[:1].upper() + text[1:] if case == "cap" else text


def generators(*parts: object) -> Iterator[random.Random]:
    """Generators number 0, 1, 2, …, each a function of the parts and its number alone."""
    for index in itertools.count():
        yield random.Random("/".join(map(str, (*parts, index))))


def write_classes(grammar: Grammar, task: str, symbol: str = "{}") -> Records:
    """(text, label) pairs of one class; symbol: where its texts start, {} being the label in lower case."""

    def records(label: str | None, split: str, seed: int) -> Pairs:
        assert label is not None
        start = symbol.format(label.lower())
        return (
            (grammar.expand(start, each), label) for each in generators(seed, task, split, label)
        )

    return records


def pairs(grammar: Grammar, task: str, symbol: str) -> Records:
    """(text, output) pairs: a rule of the grammar writes both, divided by ' => '. A tag that both sides use stands for
    the same words on both."""

    def records(label: str | None, split: str, seed: int) -> Pairs:
        for generator in generators(seed, task, split):
            text, output = grammar.expand(symbol, generator).split(" => ")
            yield text, output

    return records
