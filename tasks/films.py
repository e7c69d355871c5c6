"""Records, format checks and histograms of the task wikimovies: films as lines of JSON.

A film is ``{"title": str, "year": int, "genres": [str, ...], "cast": [str, ...]}``, in this order, with at most two
names in the cast of a record. Only released texts and public test records are measured here.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from dpicl.core.json_text import refuse_constant, refuse_repeated_keys

FIELDS = ("title", "year", "genres", "cast")
FIRST_YEAR, LAST_YEAR = 1880, 2030
MOST_CAST = 2
#: A longer text is not looked at: no film needs more, and JSON of a million brackets would exhaust the parser.
MOST_CHARACTERS = 5000


def text_of(row: Mapping[str, Any]) -> str:
    """One line of JSON of a data row with the four fields. Raises ValueError for a missing field or a wrong type."""
    film: dict[str, Any] = {field: row.get(field) for field in FIELDS}
    if not has_schema(film):
        raise ValueError(
            "needs title (text), year (whole number), genres and cast (lists of texts)"
        )
    return json.dumps({**film, "cast": film["cast"][:MOST_CAST]}, ensure_ascii=False)


def parse(text: str) -> dict[str, Any] | None:
    """The JSON object that a text begins with, whatever follows it; None when there is none.

    A repeated key makes it None as well: which of the two values counts would be the reader's choice.
    """
    if len(text) > MOST_CHARACTERS:
        return None
    decoder = json.JSONDecoder(
        object_pairs_hook=refuse_repeated_keys, parse_constant=refuse_constant
    )
    try:
        value, _ = decoder.raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def has_schema(film: Mapping[str, Any]) -> bool:
    """Exactly the four fields, each of its type. A bool is no year."""
    return (
        set(film) == set(FIELDS)
        and isinstance(film["title"], str)
        and type(film["year"]) is int
        and all(_are_texts(film[field]) for field in ("genres", "cast"))
    )


def is_valid(film: Mapping[str, Any] | None) -> bool:
    """The schema, a title that is not blank, a year of cinema, and one or more genres, all from the public list."""
    return (
        film is not None
        and has_schema(film)
        and bool(film["title"].strip())
        and FIRST_YEAR <= film["year"] <= LAST_YEAR
        and bool(film["genres"])
        and set(film["genres"]) <= set(genres())
    )


@cache
def genres() -> tuple[str, ...]:
    """The public list of genres, tasks/wikimovies/genres.txt."""
    lines = (
        (Path(__file__).parent / "wikimovies" / "genres.txt")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    return tuple(line for line in lines if line and not line.startswith("#"))


def results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """lm-eval's process_results: does the text begin with a JSON object, and is that a valid film?"""
    film = parse(results[0])
    return {"parses": float(film is not None), "valid": float(is_valid(film))}


def genre_distance(texts: Iterable[str], records: Iterable[str]) -> float:
    """Total variation distance between the genres of the valid texts and of the (public) records; 1.0 without any.

    A film with several genres counts once for each of them.
    """
    return _distance(
        *(
            Counter(g for film in _parse_valid(side) for g in film["genres"])
            for side in (texts, records)
        )
    )


def year_distance(texts: Iterable[str], records: Iterable[str]) -> float:
    """As `genre_distance`, between histograms of decades."""
    return _distance(
        *(Counter(film["year"] // 10 for film in _parse_valid(side)) for side in (texts, records))
    )


def _parse_valid(texts: Iterable[str]) -> list[dict[str, Any]]:
    return [film for film in map(parse, texts) if film is not None and is_valid(film)]


def _distance(left: Counter[Any], right: Counter[Any]) -> float:
    """Half the L1 distance between two normalised histograms; 1.0 when one is empty."""
    if not left or not right:
        return 1.0
    total = math.fsum(
        abs(left[key] / left.total() - right[key] / right.total()) for key in {*left, *right}
    )
    return min(1.0, total / 2)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
