"""What servers answer, read with distrust: every number has its type and its range, or the answer counts as damaged.

A ValueError says so; its text is ours, and never the server's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

#: What rounding may add to a log-probability, which is 0 at most, and to the sum of probabilities.
ROUNDING = 1e-2
MASS = 1.1
#: Lower ones are written as this: vLLM's for minus infinity, which JSON has not.
LOWEST = -9999.0


class LogProbs(NamedTuple):
    """Tokens int64[k], each once, and their natural-log probabilities float64[k]."""

    tokens: np.ndarray
    values: np.ndarray

    def of(self, token: int, vocab_size: int) -> float:
        """Of one token. One that is not listed has an even share of the mass that is left, and no more than any that
        is: a function of this answer alone."""
        found = np.flatnonzero(self.tokens == token)
        if len(found):
            return float(self.values[found[0]])
        left = max(1.0 - float(np.exp(self.values).sum()), math.exp(LOWEST / 100))
        share = math.log(left / max(1, vocab_size - len(self.tokens)))
        return min(share, float(self.values.min(initial=0.0)))

    def likeliest(self, count: int) -> LogProbs:
        """Of so many tokens at most."""
        order = np.argsort(-self.values, kind="stable")[:count]
        return LogProbs(self.tokens[order], self.values[order])

    @property
    def best(self) -> int:
        """The likeliest token; of equal ones the lowest."""
        return int(self.tokens[self.values == self.values.max()].min())


def part(answer: Any, *path: str | int) -> Any:
    """What stands in an answer at keys and list positions. Raises ValueError where it does not."""
    for step in path:
        found: Any = None
        if isinstance(step, str):
            found = answer.get(step) if type(answer) is dict else None
        elif type(answer) is list and step < len(answer):
            found = answer[step]
        if found is None:
            raise ValueError("a part is missing")
        answer = found
    return answer


def text(value: Any, most: int) -> str:
    """A text of at most so many characters, which UTF-8 can write."""
    if type(value) is not str or len(value) > most:
        raise ValueError("no text, or too long a one")
    value.encode()
    return value


def whole(value: Any, most: int) -> int:
    """A whole number from 0 to ``most``."""
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError("no whole number, or one out of range")
    return value


def tokens(value: Any, vocab_size: int, most: int) -> list[int]:
    """At most so many token ids."""
    if type(value) is not list or len(value) > most:
        raise ValueError("no list of tokens, or too long a one")
    return [whole(token, vocab_size - 1) for token in value]


def log_probs(ids: Sequence[Any], values: Sequence[Any], vocab_size: int, most: int) -> LogProbs:
    """Log-probabilities of at most so many tokens.

    Ids from ``vocab_size`` on (rows that pad the output layer) are left out. Raises ValueError for anything that is no
    token or no number, above 0, twice there, or together more than one.
    """
    if not 0 < len(ids) <= most or set(map(type, ids)) != {int} or not set(map(type, values)) <= {int, float}:
        raise ValueError("no tokens with their log-probabilities")
    if min(ids) < 0 or max(ids) >= 2**31 or not all(abs(value) < 1e300 for value in values):
        raise ValueError("a number is out of range")
    tokens, found = np.array(ids, dtype=np.int64), np.array(values, dtype=np.float64)
    if not np.isfinite(found).all() or found.max() > ROUNDING or len(np.unique(tokens)) < len(tokens):
        raise ValueError("a log-probability is above 0, or no number, or a token is there twice")
    found = found.clip(LOWEST, 0.0)
    if np.exp(found).sum() > MASS:
        raise ValueError("probabilities are more than one together")
    inside = tokens < vocab_size
    if not inside.any():
        raise ValueError("no token of the vocabulary")
    return LogProbs(tokens[inside], found[inside])


def require(found: LogProbs, wanted: Sequence[int]) -> LogProbs:
    """The same. Raises ValueError where a token that was listed is missing."""
    if not np.isin(wanted, found.tokens).all():
        raise ValueError("a token that was asked for is missing")
    return found


def joined(parts: Sequence[LogProbs | None]) -> LogProbs | None:
    """Several answers about one prompt as one; None where one is missing."""
    found = [part for part in parts if part is not None]
    if len(found) < len(parts):
        return None
    tokens = np.concatenate([part.tokens for part in found])
    _, first = np.unique(tokens, return_index=True)
    return LogProbs(tokens[first], np.concatenate([part.values for part in found])[first])


def before(text: str, ends: Sequence[str]) -> str:
    """The text before the first of these."""
    found = [at for at in map(text.find, ends) if at >= 0]
    return text[: min(found)] if found else text
