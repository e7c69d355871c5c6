"""Texts with an output that follows from them: a rule of the grammar writes both, divided by ' => '."""

from __future__ import annotations

from collections.abc import Iterator

from dpicl.tasks.synthetic.grammar import Grammar, coins


def pairs(grammar: Grammar, symbol: str, task: str, split: str, seed: int) -> Iterator[tuple[str, str]]:
    """Endless (text, output) pairs; a tag that both sides use stands for the same words on both."""
    for generator in coins(seed, task, split):
        text, output = grammar.expand(symbol, generator).split(" => ")
        yield text, output
