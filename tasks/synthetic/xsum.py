"""Invented local news with one-line summaries; the rules are in xsum.txt."""

from __future__ import annotations

from collections.abc import Iterator

from dpicl.tasks.synthetic.grammar import Grammar
from dpicl.tasks.synthetic.pairs import pairs

GRAMMAR = Grammar.read("lexicon", "names", "xsum")


def records(label: str | None, split: str, seed: int) -> Iterator[tuple[str, str]]:
    """Endless (report, summary) pairs; there are no classes, so `label` is None."""
    return pairs(GRAMMAR, "report", "xsum", split, seed)
