"""Invented sentences about films that name a genre or a director, in the style of MIT Movies; rules in movies.txt."""

from __future__ import annotations

from collections.abc import Iterator

from dpicl.harness.data.task import keywords
from dpicl.tasks.synthetic.grammar import Grammar, coins

GRAMMAR = Grammar(Grammar.read("movies").rules | {"genre": keywords("mit_g"), "director": keywords("mit_d")})


def sentences(task: str, slot: str, split: str, seed: int) -> Iterator[tuple[str, str]]:
    """Endless (sentence, slot value) pairs, slot 'genre' or 'director'; the value is part of the sentence."""
    return (GRAMMAR.pair(f"{slot}_sentence", f"{slot}#k", c) for c in coins(seed, task, split))
