"""Texts of the GINC language (`dpicl.models.ginc_corpus`): ten symbols of one concept, the first of which has
the same property in all of them (Xie et al. 2022, appendix F.2; Yamasaki et al. 2025).

A record is nine symbols and the one that most likely follows them; train and test records are alike. No record holds
the delimiter, which stands between them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dpicl.models.ginc_corpus import ENTITIES, PROPERTIES, VOCABULARY, language

#: The concept of all records, and the property of their first symbol. In this concept a text seldom comes back to the
#: delimiter before its eighth symbol; in the first one "x / x / x" is the likeliest text.
CONCEPT, START = 3, 7
#: Symbols of a record, the last of which is asked for.
LENGTH = 10


def records(label: str | None, split: str, seed: int) -> Iterator[tuple[str, str]]:
    """Endless (symbols, the next symbol) pairs; there are no classes, so `label` is None. split: train or test."""
    generator = np.random.default_rng([seed, ("train", "test").index(split), CONCEPT, START])
    concept, words = language().concepts[CONCEPT], language().words
    while True:
        entity = int(generator.integers(ENTITIES))
        symbols = concept.sample(LENGTH - 1, generator, entity * PROPERTIES + START)
        if not symbols.all():
            continue
        following = int(concept.next_symbol(symbols.tolist(), VOCABULARY).argmax())
        if following:
            yield language().text(symbols.tolist()), words[following]
