"""Invented questions in the style of TREC; the rules are in trec.txt."""

from __future__ import annotations

from collections.abc import Iterator

from dpicl.tasks.synthetic.grammar import Grammar, coins

GRAMMAR = Grammar.read("lexicon", "names", "trec")


def records(label: str | None, split: str, seed: int) -> Iterator[tuple[str, str]]:
    """Endless (text, label) pairs of one class; the same texts may come again."""
    assert label is not None
    return ((GRAMMAR.expand(f"{label.lower()}_question", c), label) for c in coins(seed, "trec", split, label))
