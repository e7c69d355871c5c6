"""Invented sentences about films that name a director."""

from __future__ import annotations

from collections.abc import Iterator

from dpicl.tasks.synthetic.movies import sentences


def records(label: str | None, split: str, seed: int) -> Iterator[tuple[str, str]]:
    """Endless (sentence, director) pairs; there are no classes, so `label` is None."""
    return sentences("mit_d", "director", split, seed)
