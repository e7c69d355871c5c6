"""GINC, a synthetic language whose ground truth is known: a uniform mixture of factorial hidden Markov models, the
concepts (Xie, Raghunathan, Liang, Ma, "An Explanation of In-context Learning as Implicit Bayesian Inference", ICLR
2022, appendix F).

A hidden state is a pair (entity, property), index entity * PROPERTIES + property. Both parts move on their own: the
transition matrix is the Kronecker product of theirs. A state has one symbol, by a table that all concepts share;
property 0 has the delimiter. Concepts differ in how properties follow each other and in where a text begins.

Written from the paper's description. What it leaves open is decided here: the table's symbols are drawn independently
and uniformly, and everything follows from one seed.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

ENTITIES = PROPERTIES = 10
#: Concepts, of which the first PRETRAINING are in the pretraining corpus.
CONCEPTS, PRETRAINING = 10, 5
VOCABULARY = 150
TRANSITION_TEMPERATURE, START_TEMPERATURE, ENTITY_IDENTITY = 0.1, 10.0, 0.9
#: Symbol 0.
DELIMITER = "/"
#: The language that the task `ginc` and its model share.
SEED = 0


def _log(values: np.ndarray) -> np.ndarray:
    """Natural logarithm, -inf for 0."""
    with np.errstate(divide="ignore"):
        return np.log(values)


def _log_sum(values: np.ndarray) -> np.ndarray:
    """log(sum(exp(values))) along the first axis; -inf where all are."""
    highest = values.max(axis=0, initial=-np.inf)
    highest = np.where(np.isfinite(highest), highest, 0.0)
    return _log(np.exp(values - highest).sum(axis=0)) + highest


@dataclass(frozen=True, eq=False)
class HMM:
    """A hidden Markov model with deterministic emissions.

    start: float64[S]. transition: float64[S, S], rows sum to 1. emission: int64[S], the symbol of each state.
    """

    start: np.ndarray = field(repr=False)
    transition: np.ndarray = field(repr=False)
    emission: np.ndarray = field(repr=False)

    def forward(self, symbols: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """(states, log p(symbols, last state)): int64[n], the states with the last symbol, and float64[n].

        All in log space. `symbols` has at least one. The forward algorithm.
        """
        states = np.flatnonzero(self.emission == symbols[0])
        alpha = _log(self.start[states])
        for symbol in symbols[1:]:
            after = np.flatnonzero(self.emission == symbol)
            alpha = _log_sum(alpha[:, None] + _log(self.transition[np.ix_(states, after)]))
            states = after
        return states, alpha

    def log_likelihood(self, symbols: Sequence[int]) -> float:
        """log p(symbols): natural logarithm, -inf for what the model never says, 0 for no symbol."""
        return float(_log_sum(self.forward(symbols)[1])) if len(symbols) else 0.0

    def next_symbol(self, symbols: Sequence[int], vocabulary: int) -> np.ndarray:
        """float64[vocabulary]: p(next symbol | symbols). Raises ValueError for what the model never says."""
        states, alpha = self.forward(symbols)
        total = _log_sum(alpha)
        if not np.isfinite(total):
            raise ValueError("the model never says these symbols")
        return np.bincount(
            self.emission,
            np.exp(alpha - total) @ self.transition[states],
            vocabulary,
        )

    def sample(
        self,
        length: int,
        generator: np.random.Generator,
        state: int | None = None,
    ) -> np.ndarray:
        """int64[length] symbols, from a start state (None: drawn from `start`)."""
        states = [
            int(_draw_each(np.cumsum(self.start)[None], generator)[0]) if state is None else state
        ]
        while len(states) < length:
            states.append(
                int(_draw_each(np.cumsum(self.transition[states[-1]])[None], generator)[0])
            )
        return self.emission[states]


def _draw_each(cumulative: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """int64[n]: one state for each of the n rows of cumulative probabilities, float64[n, S]."""
    uniform = generator.random(len(cumulative))[:, None] * cumulative[:, -1:]
    return np.minimum((cumulative <= uniform).sum(axis=1), cumulative.shape[1] - 1)


@dataclass(frozen=True, eq=False)
class Language:
    """The concepts and what they share. words: by symbol; the delimiter is symbol 0. properties: float64[P, P] of each
    concept, how its properties follow each other."""

    words: tuple[str, ...]
    concepts: tuple[HMM, ...] = field(repr=False)
    properties: tuple[np.ndarray, ...] = field(repr=False)

    def symbols(self, text: str) -> list[int]:
        """The symbols of a text of words; -1 for a word that is none."""
        places = {word: symbol for symbol, word in enumerate(self.words)}
        return [places.get(word, -1) for word in text.split()]

    @property
    def said(self) -> tuple[str, ...]:
        """The words that some state has, in order of symbols, without the delimiter."""
        return tuple(
            self.words[symbol] for symbol in np.unique(self.concepts[0].emission) if symbol
        )

    def documents(
        self,
        count: int,
        length: int,
        generator: np.random.Generator,
    ) -> np.ndarray:
        """int64[count, length] symbols: each document of one pretraining concept, which is drawn uniformly."""
        concepts = self.concepts[:PRETRAINING]
        which = generator.integers(len(concepts), size=count)
        start = np.cumsum([each.start for each in concepts], axis=1)
        moves = np.cumsum([each.transition for each in concepts], axis=2)
        states = _draw_each(start[which], generator)
        symbols = np.empty((count, length), dtype=np.int64)
        for place in range(length):
            symbols[:, place] = concepts[0].emission[states]
            states = _draw_each(moves[which, states], generator)
        return symbols

    def text(self, symbols: Sequence[int]) -> str:
        return " ".join(self.words[symbol] for symbol in symbols)


@cache
def language(seed: int = SEED) -> Language:
    """The language of a seed (section F.1 of the paper, with 150 symbols)."""
    generator = np.random.default_rng([seed, VOCABULARY, ENTITIES, PROPERTIES, CONCEPTS])
    letters = itertools.product(string.ascii_lowercase, repeat=2)
    words = (DELIMITER, *("".join(pair) for pair in itertools.islice(letters, VOCABULARY - 1)))
    table = generator.integers(1, VOCABULARY, size=(ENTITIES, PROPERTIES))
    table[:, 0] = 0
    entity = (1 - ENTITY_IDENTITY) * _permutations(ENTITIES, generator) + ENTITY_IDENTITY * np.eye(
        ENTITIES
    )
    moves, emissions = [], []
    for _ in range(CONCEPTS):
        moves.append(_permutations(PROPERTIES, generator))
        start = _softmax(generator.random(ENTITIES * PROPERTIES) - 0.5, START_TEMPERATURE)
        emissions.append(
            HMM(
                start,
                np.kron(entity, moves[-1]),
                table.ravel(),
            )
        )
    return Language(words, tuple(emissions), tuple(moves))


def _permutations(size: int, generator: np.random.Generator) -> np.ndarray:
    """float64[size, size]: a random mix of ``size`` random permutation matrices."""
    weights = _softmax(generator.random(size) - 0.5, TRANSITION_TEMPERATURE)
    return sum(weight * np.eye(size)[generator.permutation(size)] for weight in weights)


def _softmax(values: np.ndarray, temperature: float) -> np.ndarray:
    scaled = np.exp((values - values.max()) / temperature)
    return scaled / scaled.sum()
