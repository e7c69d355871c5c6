"""Records and metrics of the task enron: e-mails as free texts.

Only released texts and public test records are measured here. How much private data a release holds is the business of
the attack `pii`, not of a metric.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from dpicl.data.config import load_config

#: A plausible text has at least so many different words that are not the prompt's.
FEWEST_WORDS = 5
#: Words that `word_distance` tells apart; all others count as one.
COMMON_WORDS = 100

_WORD = re.compile(r"\w+")


def text_of(row: Mapping[str, Any]) -> str:
    """The body of a data row; header fields and lists of addresses are left out. Raises ValueError without a body."""
    body = row.get("text")
    if not isinstance(body, str):
        raise ValueError("needs the body of an e-mail as the string field 'text'")
    return body


def is_plausible(text: str) -> bool:
    """At least `FEWEST_WORDS` different words besides those of the prompt, and no more repeats of words than words.

    It tells an e-mail from an empty answer, a copy of the prompt and a loop, and nothing more.
    """
    words = list(_words(text))
    different = set(words)
    return len(different - _prompt_words()) >= FEWEST_WORDS and 2 * len(different) >= len(words)


def results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """lm-eval's process_results: is the text a plausible one?"""
    return {"plausible": float(is_plausible(results[0]))}


def word_distance(texts: Iterable[str], records: Iterable[str]) -> float:
    """Total variation distance between the words of the texts and of the (public) records; 1.0 without any word.

    Told apart are the `COMMON_WORDS` commonest words of the records; every other word counts as 'another one'. Over all
    words the distance of a few short texts would be near 1 whatever they say.
    """
    released, real = (
        Counter(word for text in side for word in _words(text)) for side in (texts, records)
    )
    if not released or not real:
        return 1.0
    common = sorted(real, key=lambda word: (-real[word], word))[:COMMON_WORDS]
    shares = [[side[word] / side.total() for word in common] for side in (released, real)]
    parts = [*zip(*shares, strict=True), (1 - sum(shares[0]), 1 - sum(shares[1]))]
    return min(1.0, sum(abs(left - right) for left, right in parts) / 2)


def repeats(texts: Sequence[str], records: Iterable[str]) -> float:
    """The share of texts that have the words of an earlier one; 0.0 without texts. The records are not looked at."""
    return 1 - len({tuple(_words(text)) for text in texts}) / len(texts) if texts else 0.0


def _words(text: str) -> Iterator[str]:
    """Runs of letters, digits and underscores, lower-cased."""
    return (match.group() for match in _WORD.finditer(text.lower()))


@cache
def _prompt_words() -> frozenset[str]:
    """The words that every prompt of the task has."""
    config = load_config("enron")
    return frozenset(_words(f"{config.description} {config.doc_to_text}"))
