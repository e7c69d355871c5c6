"""Language models without a cache: every prompt is read again for every token."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import torch

from dpicl.models.base import Broken, Decoder, LanguageModel, Prefix, ScoredEnding, Tokens
from dpicl.models.decoding import Writer


class StatelessModel(LanguageModel):
    """A model without prefixes and decoders of its own."""

    def prefix(self, tokens: Tokens, prefix: Prefix | None = None) -> Prefix:
        """See LanguageModel; nothing is kept."""
        self._check_length(len(tokens))
        return Prefix(tuple(tokens))

    def decoder(self, prompts: Sequence[Tokens], prefix: Prefix | None = None) -> Decoder:
        """See LanguageModel."""
        return _GrowingPrompts(self, prompts)

    def likeliest_log_probs(self, prompts: Sequence[Tokens], count: int) -> torch.Tensor:
        """As `next_token_log_probs`, where the ``count`` likeliest tokens are enough."""
        return self.next_token_log_probs(prompts)


class RereadingModel(StatelessModel):
    """All ways to read a model, from `log_probs_after`. A subclass sets the attributes of LanguageModel, and brings the
    tokenizer: `encode` and `decode`."""

    @abstractmethod
    def log_probs_after(self, prompt: Tokens) -> np.ndarray:
        """float[V]: natural-log probabilities of the token after one prompt; an empty one begins a text."""

    def _log_probs(self, prompt: Tokens) -> np.ndarray:
        self._check_length(len(prompt))
        return self.log_probs_after(prompt)

    def next_token_log_probs(
        self,
        prompts: Sequence[Tokens],
        prefix: Prefix | None = None,
    ) -> torch.Tensor:
        """Tensor[B, V] float32; see LanguageModel."""
        rows = np.array([self._log_probs(prompt) for prompt in prompts])
        self._count(sum(map(len, prompts)))
        log_probs = torch.tensor(rows.reshape(len(prompts), self.vocab_size), dtype=torch.float32)
        self._count_broken(int(log_probs.isnan().any(dim=1).sum()))
        return log_probs

    def score_endings(
        self, queries: Sequence[tuple[Tokens, Sequence[Tokens]]], prefix: Prefix | None = None
    ) -> list[list[ScoredEnding]]:
        """See LanguageModel."""
        result = []
        for query, endings in queries:
            known: dict[tuple[int, ...], np.ndarray] = {}
            row = []
            for ending in endings:
                total, greedy = 0.0, True
                for at, token in enumerate(ending):
                    begin = tuple(ending[:at])
                    if begin not in known:
                        known[begin] = self._log_probs((*query, *begin))
                    total += float(known[begin][token])
                    greedy = greedy and int(known[begin].argmax()) == token
                row.append(ScoredEnding(total, greedy))
            self._count(len(query) + sum(map(len, endings)))
            self._count_broken(any(math.isnan(ending.log_prob) for ending in row))
            result.append(row)
        return result

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
        """See LanguageModel."""
        writer = Writer(self, len(prompts), max_tokens, stop, temperature, seeds, broken)
        tokens = [list(prompt) for prompt in prompts]
        for prompt in prompts:
            self._check_length(len(prompt) + max_tokens)
        going = list(range(len(prompts))) if max_tokens > 0 else []
        while going:
            log_probs = np.array([self._log_probs(tokens[row]) for row in going])
            places, chosen = writer.step(torch.from_numpy(log_probs), going)
            going = [going[place] for place in places]
            for row, token in zip(going, chosen.tolist(), strict=True):
                tokens[row].append(token)
        self._count(sum(map(len, tokens)))
        return writer.texts


class _GrowingPrompts(Decoder):
    def __init__(self, model: StatelessModel, prompts: Sequence[Tokens]) -> None:
        self._model, self._prompts = model, [list(prompt) for prompt in prompts]
        self._check(0)

    @property
    def log_probs(self) -> torch.Tensor:
        """Tensor[B, V] float32, as `next_token_log_probs` gives it."""
        return self._model.next_token_log_probs(self._prompts)

    def likeliest(self, count: int | None) -> torch.Tensor:
        """See Decoder."""
        return (
            self.log_probs
            if count is None
            else self._model.likeliest_log_probs(self._prompts, count)
        )

    def listed(self, tokens: Sequence[int]) -> torch.Tensor:
        """See Decoder."""
        return self._model.listed_log_probs(self._prompts, tokens)

    def append(self, token: int) -> None:
        """Appends one token to every prompt. Raises PromptTooLong when one no longer fits."""
        self._check(1)
        for prompt in self._prompts:
            prompt.append(int(token))

    def _check(self, more: int) -> None:
        self._model._check_length(
            more + self._model.answer_room + max(map(len, self._prompts), default=0)
        )
