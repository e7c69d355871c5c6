"""Invented sentences about films that name a genre."""

from __future__ import annotations

from collections.abc import Iterator

from dpicl.tasks.synthetic.movies import sentences


def records(label: str | None, split: str, seed: int) -> Iterator[tuple[str, str]]:
    """Endless (sentence, genre) pairs; there are no classes, so `label` is None."""
    return sentences("mit_g", "genre", split, seed)
