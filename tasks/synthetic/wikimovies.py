"""Invented films as lines of JSON; the rules are in wikimovies.txt."""

from __future__ import annotations

from collections.abc import Iterator

from dpicl.tasks.films import text_of
from dpicl.tasks.synthetic.grammar import Grammar, generators

GRAMMAR = Grammar.read("lexicon", "wikimovies")
LABEL = "movie"


def records(label: str | None, split: str, seed: int) -> Iterator[tuple[str, str]]:
    """Endless (line of JSON, 'movie') pairs; there are no classes, so `label` is None."""
    for generator in generators(seed, "wikimovies", split):
        title, year, genres, cast = GRAMMAR.expand("film", generator).split(" => ")
        row = {
            "title": title,
            "year": int(year),
            "genres": genres.split("; "),
            "cast": cast.split("; "),
        }
        yield text_of(row), LABEL
