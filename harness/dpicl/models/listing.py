"""Reads a model that is asked for the log-probabilities of some tokens: of the likeliest ones, or of listed ones.

A model server and vLLM in this process are asked so. Each row is made of the answer to its own prompt alone.
"""

from __future__ import annotations

import math
import secrets
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np
import torch

from dpicl.core.errors import ModelError
from dpicl.models.base import NOT_FINITE, Broken, BrokenText, Prefix, ScoredEnding, Tokens
from dpicl.models.decoding import Writer
from dpicl.models.rereading import StatelessModel
from dpicl.models.tokenizers import TokenizedModel

#: What rounding may add to a log-probability, which is 0 at most, and to the sum of probabilities.
ROUNDING = 1e-2
MASS = 1.1
#: Lower ones are written as this: vLLM's for minus infinity, which JSON has not.
LOWEST = -9999.0
#: Seeds that every engine takes.
SEEDS = 2**31 - 1
#: Rows that pad an output layer behind the vocabulary, at most.
PADDING = 4096
#: The salt of one private set's prompts; "" outside of `ListingModel.isolated_cache`.
_SALT: ContextVar[str] = ContextVar("salt", default="")


class Unsound(ValueError):
    """An answer in good order that is not what was requested, for a reason in our words."""


class LogProbs(NamedTuple):
    """Tokens int64[k], each once, and their natural-log probabilities float64[k]."""

    tokens: np.ndarray
    values: np.ndarray

    @classmethod
    def from_answer(
        cls,
        tokens: Sequence[int],
        values: Sequence[float],
        vocab_size: int,
        least: int,
        listed: Sequence[int] = (),
    ) -> LogProbs:
        """Those of an answer. Ids of rows that pad the output layer (from ``vocab_size`` on) are left out.

        least: how many tokens there must be, the left-out ones included.
        Raises Unsound for fewer, tokens that are there twice or in no vocabulary, together more than likely, not finite
        or above 0, or not all that were ``listed``.
        """
        ids = np.array(tokens, dtype=np.int64)
        numbers = np.array(values, dtype=np.float64)
        inside = ids < vocab_size
        if len(ids) < least or not inside.any():
            raise Unsound("it lists fewer tokens than requested")
        if not np.isin(listed, ids).all():
            raise Unsound("it leaves out tokens that were requested by their ids")
        if len(np.unique(ids)) < len(ids) or ids.max() >= vocab_size + PADDING:
            raise Unsound("it lists a token twice, or one that its vocabulary does not have")
        if np.isnan(numbers).any():
            raise Unsound(NOT_FINITE)
        if numbers.max() > ROUNDING:
            raise Unsound("it gives a log-probability above 0")
        numbers = numbers.clip(LOWEST, 0.0)
        if np.exp(numbers).sum() > MASS:
            raise Unsound("its probabilities are more than one together")
        return cls(ids[inside], numbers[inside])

    def of(self, token: int, vocab_size: int) -> float:
        """Of one token. One that is not listed has an even share of the mass that is left, and no more than any that
        is: a function of this answer alone."""
        places = np.flatnonzero(self.tokens == token)
        if len(places):
            return float(self.values[places[0]])
        left = max(1.0 - float(np.exp(self.values).sum()), math.exp(LOWEST / 100))
        share = math.log(left / max(1, vocab_size - len(self.tokens)))
        return min(share, float(self.values.min(initial=0.0)))

    @property
    def best(self) -> int:
        """The likeliest token; of equal ones the lowest."""
        return int(self.tokens[self.values == self.values.max()].min())


def join(parts: Sequence[LogProbs | None]) -> LogProbs | None:
    """Several answers about one prompt as one; None where one is missing."""
    sound = [part for part in parts if part is not None]
    if len(sound) < len(parts):
        return None
    tokens = np.concatenate([part.tokens for part in sound])
    _, first = np.unique(tokens, return_index=True)
    return LogProbs(tokens[first], np.concatenate([part.values for part in sound])[first])


class Listing(NamedTuple):
    """Requests the ``top`` likeliest next tokens (-1: all); where some are ``listed``, these at least."""

    top: int
    listed: tuple[int, ...] = ()


class Writing(NamedTuple):
    """Requests a text of at most so many tokens, up to the first word to stop at. temperature: 0 is greedy."""

    max_tokens: int
    temperature: float
    stop: tuple[str, ...] = ()
    seed: int = 0


#: What may be requested of a prompt.
Wanted = Listing | Writing


class ListingModel(TokenizedModel, StatelessModel):
    """A model that answers `Listing` and `Writing`. A prefix is not read: the engine finds what prompts have in common,
    and keeps what it has read.

    most_listed: how many tokens a request lists at most; 0 where none are listed. most_top: how many of the likeliest
    tokens can be had (-1: all). names_best: whether an answer for listed tokens shows which token is the likeliest.
    """

    answer_room = 1
    most_listed: int
    most_top: int
    names_best: bool
    #: The salt of public prompts in a prefix cache.
    public_salt: str

    @abstractmethod
    def _answers(
        self,
        prompts: Sequence[list[int]],
        requests: Sequence[Wanted],
        rows: Sequence[int],
    ) -> list[Any]:
        """What the engine gives for each prompt (LogProbs or a text); None where it has no sound answer to it. rows:
        the row that each is of: a row fails once."""

    @abstractmethod
    def _silence_error(self) -> ModelError:
        """The error of a public prompt without an answer."""

    def _list(
        self, prompts: Sequence[list[int]], requests: Sequence[Listing], rows: Sequence[int]
    ) -> list[LogProbs | None]:
        """`_answers` of log-probabilities."""
        return self._answers(prompts, requests, rows)

    def generate(
        self,
        prompts: Sequence[Tokens],
        max_tokens: int,
        stop: Sequence[str] = (),
        prefix: Prefix | None = None,
        *,
        temperature: float = 0.0,
        seeds: Sequence[int] | None = None,
        broken: Broken = "raise",
    ) -> list[str]:
        """Texts that the engine writes; see LanguageModel. A sample is the engine's own, with the seed modulo 2^31 - 1:
        another engine, or version, may draw another one."""
        # refuses what makes no sense
        Writer(self, len(prompts), max_tokens, stop, temperature, seeds, broken)
        opened = [self._tokenize_opening(prompt, max_tokens) for prompt in prompts]
        if max_tokens < 1:
            return [""] * len(prompts)
        greedy = Writing(max_tokens, temperature, tuple(word for word in stop if word))
        requests = [greedy._replace(seed=seed % SEEDS) for seed in seeds or [0] * len(opened)]
        texts = self._answers(opened, requests, range(len(opened)))
        if broken == "raise" and None in texts:
            raise self._silence_error()
        return [BrokenText() if text is None else text for text in texts]

    def next_token_log_probs(
        self,
        prompts: Sequence[Tokens],
        prefix: Prefix | None = None,
    ) -> torch.Tensor:
        """Tensor[B, V] float32; -infinity for tokens that are not listed, NaN where a prompt has no answer."""
        return self.likeliest_log_probs(prompts, self.most_top)

    def likeliest_log_probs(self, prompts: Sequence[Tokens], count: int) -> torch.Tensor:
        """As `next_token_log_probs`, of the ``count`` likeliest tokens at least, where so many can be had."""
        top = (
            self.most_top
            if count < 0 or 0 <= self.most_top < count
            else min(count, self.vocab_size)
        )
        return self._rows(
            self._ask(
                [self._tokenize_opening(prompt) for prompt in prompts],
                [()] * len(prompts),
                top,
            )
        )

    def listed_log_probs(
        self, prompts: Sequence[Tokens], tokens: Sequence[int], prefix: Prefix | None = None
    ) -> torch.Tensor:
        """See LanguageModel."""
        listed = [int(token) for token in tokens]
        opened = [self._tokenize_opening(prompt) for prompt in prompts]
        return self._rows(
            self._ask(
                opened,
                [listed] * len(prompts),
                self.most_top,
            )
        )

    def score_endings(
        self, queries: Sequence[tuple[Tokens, Sequence[Tokens]]], prefix: Prefix | None = None
    ) -> list[list[ScoredEnding]]:
        """See LanguageModel; NaN for every ending of a prompt without an answer. Greedy is False where only listed
        tokens are shown. A token that is left out has an even share of the mass that is left.

        The endings of a query are a tree. All nodes of a level list the same tokens, where a request has room for them,
        so that they can be requested together.
        """
        nodes: dict[tuple[int, tuple[int, ...]], set[int]] = {}
        levels: dict[int, set[int]] = {}
        for at, (_, endings) in enumerate(queries):
            for ending in endings:
                for step, token in enumerate(ending):
                    nodes.setdefault((at, tuple(ending[:step])), set()).add(int(token))
                    levels.setdefault(step, set()).add(int(token))
        prompts, listed = [], []
        for (at, begin), children in nodes.items():
            level = levels[len(begin)]
            prompts.append(self._tokenize_opening([*queries[at][0], *begin]))
            listed.append(sorted(level if len(level) <= self.most_listed else children))
        answers = self._ask(prompts, listed, self.most_top, [at for at, _ in nodes])
        known = dict(zip(nodes, answers, strict=True))
        return [
            [
                self._score(
                    [(known[at, tuple(ending[:step])], token) for step, token in enumerate(ending)]
                )
                for ending in endings
            ]
            for at, (_, endings) in enumerate(queries)
        ]

    @contextmanager
    def isolated_cache(self) -> Iterator[None]:
        """See LanguageModel."""
        token = _SALT.set(secrets.token_urlsafe(32))
        try:
            yield
        finally:
            _SALT.reset(token)

    @property
    def _salt(self) -> str:
        """Keeps what the engine has read of this private set apart from others."""
        return _SALT.get() or self.public_salt

    def _ask(
        self,
        prompts: Sequence[list[int]],
        listed: Sequence[Sequence[int]],
        top: int,
        rows: Sequence[int] | None = None,
    ) -> list[LogProbs | None]:
        """What is said after each prompt: of its ``listed`` tokens at least, where any are; else of the ``top``
        likeliest. rows: which row each prompt is of; None: its own."""
        places, requests = [], []
        for at, tokens in enumerate(listed):
            for want in self._split(tokens, top):
                places.append(at)
                requests.append(want)
        owners = places if rows is None else [rows[at] for at in places]
        answers = self._list([prompts[at] for at in places], requests, owners)
        parts: list[list[LogProbs | None]] = [[] for _ in prompts]
        for at, answer in zip(places, answers, strict=True):
            parts[at].append(answer)
        return [join(each) for each in parts]

    def _split(self, listed: Sequence[int], top: int) -> list[Listing]:
        """The requests that list these tokens: several where they are many, and one for all tokens where they are most
        of them."""
        limit = self.most_listed
        if not listed or not limit or (self.most_top < 0 and len(listed) * 10 > self.vocab_size):
            return [Listing(top)]
        return [Listing(1, tuple(listed[at : at + limit])) for at in range(0, len(listed), limit)]

    def _rows(self, answers: Sequence[LogProbs | None]) -> torch.Tensor:
        rows = torch.full((len(answers), self.vocab_size), -torch.inf)
        for row, answer in zip(rows, answers, strict=True):
            if answer is None:
                row.fill_(torch.nan)
            else:
                row[torch.from_numpy(answer.tokens)] = torch.from_numpy(answer.values).float()
        return rows

    def _score(self, steps: Sequence[tuple[LogProbs | None, int]]) -> ScoredEnding:
        total, greedy = 0.0, self.names_best
        for answer, token in steps:
            if answer is None:
                return ScoredEnding(float("nan"), False)
            total += answer.of(int(token), self.vocab_size)
            greedy = greedy and answer.best == token
        return ScoredEnding(total, greedy)
