"""Invented encyclopaedia entries in the style of DBPedia-14; the rules are in dbpedia.txt."""

from __future__ import annotations

from collections.abc import Iterator

from dpicl.tasks.synthetic.grammar import Grammar, coins

GRAMMAR = Grammar.read("lexicon", "names", "dbpedia")


def records(label: str | None, split: str, seed: int) -> Iterator[tuple[str, str]]:
    """Endless (text, label) pairs of one class; the same texts may come again. A class starts at its name."""
    assert label is not None
    return ((GRAMMAR.expand(label.lower(), c), label) for c in coins(seed, "dbpedia", split, label))
