"""What is asked of a server, and how its answer is read: what the kinds of servers share. A dialect knows no tokenizer
and no privacy.

Answers are read with distrust: every number has its type and its range, or the answer counts as damaged. A ValueError
says so; its text is ours, and never the server's.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dpicl.core.errors import ModelError
from dpicl.models.server_http import SMALL, Call
from dpicl.models.server_record import ServerKind

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


#: Bytes of one listed token, and characters of its text, at most.
_ENTRY, LETTERS = 400, 200

#: Sends a request and gives what its `read` makes of the answer.
Ask = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True)
class Prompt:
    """The tokens that are read. salt: of the prefix cache, where the server keeps prompts of different salts apart;
    None where nothing that was kept may be used."""

    tokens: Sequence[int]
    salt: str | None = ""


@dataclass(frozen=True)
class Writing:
    """How a text is written: greedily at temperature 0."""

    max_tokens: int
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    seed: int = 0


class Dialect(ABC):
    """How one kind of server is asked.

    model: the id of the model. vocab_size: tokens from this id on are left out.
    """

    kind: ClassVar[ServerKind]
    #: How many of the likeliest tokens to try to get, from the most on; -1 stands for all of them.
    tops: ClassVar[Sequence[int]]
    #: How many ids a request may list; 0 for none.
    lists: ClassVar[int] = 0
    #: Whether it can be told not to use what it kept of other prompts.
    can_forget: ClassVar[bool] = False

    def __init__(self, model: str, vocab_size: int) -> None:
        self.model, self.vocab_size = model, vocab_size
        self._said: str | None = None

    @abstractmethod
    async def log_probs(self, ask: Ask, prompt: Prompt, top: int, listed: Sequence[int] = ()) -> LogProbs:
        """Of the ``top`` likeliest next tokens (-1: all); where some are ``listed``, of these at least."""

    @abstractmethod
    async def text(self, ask: Ask, prompt: Prompt, how: Writing) -> str:
        """What the model writes."""

    def tokenize(self, content: str) -> Call | None:
        """Asks for the tokens of a text without any that are added; None where the server cannot be asked."""
        body = self._tokenizing(content)
        return None if body is None else tokenizing(body, content, self.vocab_size)

    def _tokenizing(self, content: str) -> Mapping[str, Any] | None:
        """What `/tokenize` is sent for that; None where there is none."""
        return None

    def _listing(self, top: int, listed: Sequence[int] = ()) -> tuple[int, int]:
        """(most tokens of an answer, most bytes): what was asked for, and the token that was drawn."""
        entries = (2 * self.vocab_size if top < 0 else top) + len(listed) + 2
        return entries, SMALL + _ENTRY * entries

    def _log_probs(self, ids: Sequence[Any], values: Sequence[Any], most: int, listed: Sequence[int] = ()) -> LogProbs:
        """`log_probs`. Raises ValueError where a token that was listed is missing."""
        found = log_probs(ids, values, self.vocab_size, most)
        if not np.isin(listed, found.tokens).all():
            raise ValueError("a token that was asked for is missing")
        return found

    def _same_model(self, answer: Any) -> None:
        """Raises ModelError where an answer says that it is from another model than the first one was."""
        said = answer.get("model") if type(answer) is dict else None
        if type(said) is str:
            self._said = self._said or said
            if said != self._said:
                raise ModelError("The model server answers for another model than before; start the run again.")


def tokenizing(body: Mapping[str, Any], content: str, vocab_size: int) -> Call:
    """Asks `/tokenize` for the tokens of a text."""
    most = len(content.encode()) + 8
    return Call("/tokenize", body, SMALL, lambda answer: tokens(part(answer, "tokens"), vocab_size, most))


def columns(entries: Any, *names: str | int) -> list[list[Any]]:
    """What every entry of a list has under each of the names. Raises ValueError."""
    if type(entries) is not list:
        raise ValueError("no list")
    try:
        return [[entry[name] for entry in entries] for name in names]
    except (TypeError, KeyError, IndexError):
        raise ValueError("an entry lacks a part") from None
