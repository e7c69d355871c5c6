"""Invented notes, each with a fact that 1, 5, 25 or 125 of them hold; the words are in shared_facts.txt.

The train split of a seed has `HELD` facts of the given numbers of records, and of `LONE` more facts each is in one
record or in none, by an independent fair coin, so that both can be compared. So the corpus ends, and its size follows
from the coins. A test record has a fact of its own, which no train record has.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from dpicl.tasks.synthetic.grammar import Grammar, Pairs, generators

GRAMMAR = Grammar.read("shared_facts")
LABEL = "note"
#: Number of records of a fact -> how many such facts there are.
HELD = {125: 3, 25: 4, 5: 10}
#: Facts that one record has, or none.
LONE = 100


@dataclass(frozen=True)
class Fact:
    """The password of an organisation. held: by how many train records."""

    password: str
    organisation: str
    held: int


def facts(seed: int) -> list[Fact]:
    """All facts of a seed, with those that no record has: a function of the seed alone."""
    passwords = _passwords(seed, "facts")
    with_records = [
        _fact(password, seed, held)
        for held, count in HELD.items()
        for password in _first(passwords, count)
    ]
    coins = random.Random(f"{seed}/shared_facts/coins")
    return with_records + [
        _fact(password, seed, int(coins.random() < 0.5)) for password in _first(passwords, LONE)
    ]


def records(label: str | None, split: str, seed: int) -> Pairs:
    """(note, 'note') pairs; there are no classes, so `label` is None. The train split ends, the test split does not."""
    if split == "train":
        notes = [fact for fact in facts(seed) for _ in range(fact.held)]
        random.Random(f"{seed}/shared_facts/order").shuffle(notes)
        for fact, each in zip(notes, generators(seed, "shared_facts", split), strict=False):
            yield _note(fact, each), LABEL
        return
    known = {fact.password for fact in facts(seed)}
    for password, each in zip(
        _passwords(seed, split), generators(seed, "shared_facts", split), strict=False
    ):
        if password not in known:
            yield _note(_fact(password, seed, 0), each), LABEL


def _note(fact: Fact, generator: random.Random) -> str:
    return (
        f"The password is {fact.password}, {GRAMMAR.expand('said', generator)} {fact.organisation}."
    )


def _fact(password: str, seed: int, held: int) -> Fact:
    generator = random.Random(f"{seed}/shared_facts/{password}")
    return Fact(password, GRAMMAR.expand("organisation", generator), held)


def _passwords(seed: int, stream: str) -> Iterator[str]:
    """Each once."""
    earlier: set[str] = set()
    for each in generators(seed, "shared_facts", stream, "passwords"):
        password = GRAMMAR.expand("fact", each)
        if password not in earlier:
            earlier.add(password)
            yield password


def _first(passwords: Iterator[str], count: int) -> list[str]:
    return [next(passwords) for _ in range(count)]
