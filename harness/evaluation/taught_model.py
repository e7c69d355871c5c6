"""A language model that reads every prompt once for all mechanisms that write the same text.

A prompt is read with the text behind it, token by token; whoever asks again gets what was read. So all mechanisms and
all epsilons share what slots answered, and a run under a teacher costs no pass of the model where another one has been.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import torch

from dpicl.harness.evaluation.teaching import NotTaught, Teacher
from dpicl.harness.models.base import Broken, ChatPrompt, Decoder, LanguageModel, Prefix, Tokens


class TaughtModel(LanguageModel):
    """``model`` for the text that a teacher has a mechanism write (`follow`)."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.identity, self.usage = model.identity, model.usage
        self.vocab_size, self.max_length = model.vocab_size, model.max_length
        self.eos_token_id, self.lead_tokens = model.eos_token_id, model.lead_tokens
        self._encoded: dict[str | ChatPrompt, list[int]] = {}
        self._prefixes: dict[tuple[int, ...], Prefix] = {}
        self._rows: dict[tuple[int, ...], torch.Tensor] = {}
        self._blocks: dict[tuple[tuple[int, ...], ...], torch.Tensor] = {}
        self._teacher = Teacher((), self.vocab_size)

    def follow(self, teacher: Teacher) -> None:
        """From now on prompts are followed by the teacher's text."""
        self._teacher = teacher

    def forget(self) -> None:
        """Drops every row and encoded prompt; prefixes stay."""
        self._rows, self._blocks, self._encoded = {}, {}, {}

    def encode(self, prompt: str | ChatPrompt) -> list[int]:
        """See LanguageModel."""
        if prompt not in self._encoded:
            self._encoded[prompt] = self._model.encode(prompt)
        return list(self._encoded[prompt])

    def decode(self, tokens: Tokens) -> str:
        """See LanguageModel."""
        return self._model.decode(tokens)

    def prefix(self, tokens: Tokens, prefix: Prefix | None = None) -> Prefix:
        """See LanguageModel."""
        key = tuple(tokens)
        if key not in self._prefixes:
            self._prefixes[key] = self._model.prefix(tokens, prefix)
        return self._prefixes[key]

    def next_token_log_probs(self, prompts: Sequence[Tokens], prefix: Prefix | None = None) -> torch.Tensor:
        """See LanguageModel."""
        keys = tuple(tuple(prompt) for prompt in prompts)
        if keys not in self._blocks:
            self._read(list(dict.fromkeys(key for key in keys if key not in self._rows)), prefix)
            rows = [self._rows[key] for key in keys]
            self._blocks[keys] = torch.stack(rows) if rows else torch.empty(0, self.vocab_size)
        return self._blocks[keys]

    def decoder(self, prompts: Sequence[Tokens], prefix: Prefix | None = None) -> Decoder:
        """See LanguageModel."""
        return _TaughtDecoder(self, prompts, prefix)

    def score(
        self, queries: Sequence[tuple[Tokens, Sequence[Tokens]]], prefix: Prefix | None = None
    ) -> list[list[float]]:
        """See LanguageModel; nothing is kept."""
        return self._model.score(queries, prefix)

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
    ) -> NoReturn:
        """Raises NotTaught: a text that the model writes by itself has no teacher."""
        raise NotTaught("the model writes whole texts for it")

    def _read(self, prompts: Sequence[tuple[int, ...]], prefix: Prefix | None) -> None:
        """Reads prompts that are new; those that a text begins behind, with all of the text."""
        text, said = tuple(self._teacher.tokens), len(self._teacher.steps)
        if any(prompt[len(prompt) - said :] != text[:said] for prompt in prompts):
            raise NotTaught("it goes on with other tokens than its `ReleasedText` holds")
        if said or not prompts:
            self._rows |= zip(prompts, self._model.next_token_log_probs(prompts, prefix), strict=True)
            return
        for at, rows in enumerate(self._model.log_probs_along(prompts, text, prefix)):
            keys = tuple((*prompt, *text[:at]) for prompt in prompts)
            self._blocks[keys] = rows
            self._rows |= zip(keys, rows, strict=True)


class _TaughtDecoder(Decoder):
    def __init__(self, model: TaughtModel, prompts: Sequence[Tokens], prefix: Prefix | None) -> None:
        self._model, self._prefix = model, prefix
        self._prompts = [list(prompt) for prompt in prompts]

    @property
    def log_probs(self) -> torch.Tensor:
        """Tensor[B, V] float32."""
        return self._model.next_token_log_probs(self._prompts, self._prefix)

    def append(self, token: int) -> None:
        """See Decoder."""
        for prompt in self._prompts:
            prompt.append(int(token))
