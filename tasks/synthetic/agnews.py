"""Invented news blurbs in the style of AG News; the rules are in agnews.txt."""

from __future__ import annotations

from collections.abc import Iterator

from dpicl.tasks.synthetic.grammar import Grammar, coins

GRAMMAR = Grammar.read("lexicon", "agnews")
START = {"World": "world", "Sports": "sports", "Business": "business", "Technology": "technology"}


def records(label: str | None, split: str, seed: int) -> Iterator[tuple[str, str]]:
    """Endless (text, label) pairs of one class; the same texts may come again."""
    assert label is not None
    return ((GRAMMAR.expand(START[label], c), label) for c in coins(seed, "agnews", split, label))
