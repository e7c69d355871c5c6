"""Invented chats of two people with summaries; the rules are in samsum.txt."""

from __future__ import annotations

from collections.abc import Iterator

from dpicl.tasks.synthetic.grammar import Grammar
from dpicl.tasks.synthetic.pairs import pairs

GRAMMAR = Grammar.read("samsum")


def records(label: str | None, split: str, seed: int) -> Iterator[tuple[str, str]]:
    """Endless (dialogue, summary) pairs; there are no classes, so `label` is None."""
    return pairs(GRAMMAR, "chat", "samsum", split, seed)
