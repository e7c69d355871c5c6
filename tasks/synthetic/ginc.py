"""Texts of the GINC language (`dpicl.harness.models.ginc_corpus`): ten symbols of one concept, the first of which has
the same property in all of them (Xie et al. 2022, appendix F.2; Yamasaki et al. 2025).

A train record is LENGTH - 1 symbols and the one that most likely follows them. A test record is the beginning of such a
text, SHOWN symbols of it, and the most likely next one. No record holds the delimiter, which stands between them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dpicl.harness.models.ginc_corpus import ENTITIES, PROPERTIES, VOCABULARY, language

#: The concept of all records, and the property of their first symbol.
CONCEPT, START = 0, 1
#: Symbols of a train record, and of a query.
LENGTH, SHOWN = 10, 3


def records(label: str | None, split: str, seed: int) -> Iterator[tuple[str, str]]:
    """Endless (symbols, the next symbol) pairs; there are no classes, so `label` is None.

    split: train, test, or public (the demonstration in task.yaml)."""
    concept, size = language().concepts[CONCEPT], SHOWN if split == "test" else LENGTH - 1
    generator = np.random.default_rng([seed, ("train", "test", "public").index(split), CONCEPT, START])
    while True:
        entity = int(generator.integers(ENTITIES))
        symbols = concept.sample(size, generator, entity * PROPERTIES + START)
        if not symbols.all():
            continue
        following = int(concept.next_symbol(symbols.tolist(), VOCABULARY).argmax())
        if following:
            yield language().text(symbols.tolist()), language().words[following]
