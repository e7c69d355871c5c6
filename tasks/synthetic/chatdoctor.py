"""Invented patients' questions with answers; the rules are in chatdoctor.txt."""

from __future__ import annotations

from collections.abc import Iterator

from dpicl.tasks.synthetic.grammar import Grammar
from dpicl.tasks.synthetic.pairs import pairs

GRAMMAR = Grammar.read("chatdoctor")


def records(label: str | None, split: str, seed: int) -> Iterator[tuple[str, str]]:
    """Endless (question, answer) pairs; there are no classes, so `label` is None."""
    return pairs(GRAMMAR, "consultation", "chatdoctor", split, seed)
