"""Metrics of the task `ginc` besides accuracy: released texts that distinguish the records' concept from the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpicl.models.ginc_corpus import PRETRAINING, language


def measure_distinguishable(released: Sequence[str], test: Sequence[str]) -> float:
    """The share of released texts O with log p(O | c*) - log p(O | c) above `delimiter_cost(c*, c)` for every other
    pretraining concept c (Yamasaki et al. 2025, whose thresholds are those of their own corpus).

    c*: the concept that most likely said the test records. A text that c* never says is not distinguishable.
    """
    true_concept = int(
        np.argmax([sum(row) for row in np.transpose([log_likelihoods(text) for text in test])])
    )
    others = [concept for concept in range(PRETRAINING) if concept != true_concept]
    costs = [delimiter_cost(true_concept, concept) for concept in others]
    distinguishable = []
    for text in released:
        likelihoods = log_likelihoods(text)
        gains = (
            [likelihoods[true_concept] - likelihoods[concept] for concept in others]
            if np.isfinite(likelihoods[true_concept])
            else []
        )
        distinguishable.append(
            bool(gains) and all(gain > cost for gain, cost in zip(gains, costs, strict=True))
        )
    return float(np.mean(distinguishable))


def log_likelihoods(text: str) -> list[float]:
    """log p(text | concept) for each pretraining concept, in nats; -inf also where a word is no symbol."""
    symbols = language().symbols(text)
    return [concept.log_likelihood(symbols) for concept in language().concepts[:PRETRAINING]]


def delimiter_cost(first: int, other: int) -> float:
    """How much delimiters between texts may speak for the other concept, in nats: the term
    2 (log c2 - log c1) + log c4 - log c3 of condition 1 of Xie et al. 2022.

    c1, c2: the least and greatest probability, of both concepts, to go from a property to the delimiter's; c3, c4: from
    the delimiter's to another one. Moves that never happen are left out: with them there is no finite bound.
    """
    moves = [language().properties[concept] for concept in (first, other)]
    to, away = (
        np.concatenate(each)
        for each in ([move[1:, 0] for move in moves], [move[0, 1:] for move in moves])
    )
    spread = [float(np.ptp(np.log(each[each > 0]))) for each in (to, away)]
    return 2 * spread[0] + spread[1]
