"""my_model: a language model behind the seven methods that this project reads models with.

Everything is made of one function, `_log_probs`: the next token's distribution after a prompt. Here it counts which
letter follows which in a public text, so that the file runs as it is. Put a call of your own engine there, with its
tokenizer into `encode` and `decode`. Later, for speed, override `decoder`, `prefix` and `score` so that nothing is read
twice. A model that transformers can load needs no file: use `--model hf:PATH_OR_ID`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from dpicl.harness.core.errors import PromptTooLong, UsageError
from dpicl.harness.models.base import Broken, ChatPrompt, Decoder, LanguageModel, ModelIdentity, Prefix, Tokens, Usage
from dpicl.harness.models.decoding import Writer

PUBLIC_TEXT = "the quick brown fox jumps over the lazy dog while the band plays and the people of the town listen. " * 4


class MyModel(LanguageModel):
    """Tokens are the bytes of UTF-8 and, as number 256, the end of a text."""

    def __init__(self, smoothing: float) -> None:
        counts = np.full((257, 257), smoothing)
        text = [256, *PUBLIC_TEXT.encode(), 256]
        np.add.at(counts, (text[:-1], text[1:]), 1)
        self._table = np.log(counts / counts.sum(axis=1, keepdims=True))
        self.vocab_size, self.eos_token_id = self._table.shape[1], 256
        self.max_length = 4096
        self.usage = Usage()
        # Decide: what pins the weights down. Results of models with other fingerprints never share a row.
        weights = hashlib.sha256(self._table.tobytes()).hexdigest()
        self.identity = ModelIdentity("my_model", weights, None, "float32", "cpu", parameters=self._table.size)

    def encode(self, prompt: str | ChatPrompt) -> list[int]:
        if isinstance(prompt, ChatPrompt):  # Decide: the chat template.
            prompt = f"User: {prompt.user}\nAssistant: {prompt.assistant_prefix}"
        return list(prompt.encode("utf-8", errors="replace"))

    def decode(self, tokens: Tokens) -> str:
        return bytes(token for token in tokens if token != self.eos_token_id).decode("utf-8", errors="replace")

    def _log_probs(self, prompt: Tokens) -> np.ndarray:
        """float[V] after one prompt; an empty one is read as the beginning of a text."""
        self._check_length(len(prompt))
        self.usage.tokens_read += len(prompt)
        self.usage.forward_calls += 1
        return np.asarray(self._table[prompt[-1] if len(prompt) else self.eos_token_id])

    def next_token_log_probs(self, prompts: Sequence[Tokens]) -> torch.Tensor:
        rows = np.array([self._log_probs(prompt) for prompt in prompts])
        return torch.tensor(rows.reshape(len(prompts), self.vocab_size), dtype=torch.float32)

    def decoder(self, prompts: Sequence[Tokens]) -> Decoder:
        return _GrowingPrompts(self, prompts)

    def prefix(self, tokens: Tokens) -> Prefix:
        self._check_length(len(tokens))
        return Prefix(tuple(tokens))

    def score(self, prefix: Prefix, continuations: Sequence[tuple[Tokens, Sequence[Tokens]]]) -> list[list[float]]:
        return [
            [self._log_prob_of(ending, (*prefix.tokens, *query)) for ending in endings]
            for query, endings in continuations
        ]

    def _log_prob_of(self, ending: Tokens, prompt: Tokens) -> float:
        return sum(float(self._log_probs((*prompt, *ending[:at]))[token]) for at, token in enumerate(ending))

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
        writer = Writer(self, len(prompts), max_tokens, stop, temperature, seeds, broken)
        for row, prompt in enumerate(prompts):
            tokens = [*(prefix.tokens if prefix else ()), *prompt]
            self._check_length(len(tokens) + max_tokens)
            goes_on = max_tokens > 0
            while goes_on:
                going, written = writer.step(torch.from_numpy(self._log_probs(tokens))[None], [row])
                tokens += written.tolist()
                goes_on = bool(going)
        return writer.texts

    def _check_length(self, length: int) -> None:
        if length > self.max_length:
            raise PromptTooLong(f"A prompt of {length} tokens does not fit: {self.identity.name} reads 4096.")


class _GrowingPrompts(Decoder):
    def __init__(self, model: MyModel, prompts: Sequence[Tokens]) -> None:
        self._model, self._prompts = model, [list(prompt) for prompt in prompts]

    @property
    def log_probs(self) -> torch.Tensor:
        return self._model.next_token_log_probs(self._prompts)

    def append(self, token: int) -> None:
        for prompt in self._prompts:
            prompt.append(int(token))


def load(rest: str, device: str, dtype: Any) -> MyModel:
    """Which letter follows which in a public text; my_model:0.5 counts each pair half a time more."""
    # Decide: what may follow the colon of the model's name, and what becomes of device and dtype (None: your choice).
    try:
        smoothing = float(rest or 0.01)
    except ValueError:
        smoothing = 0.0
    if not 0 < smoothing < float("inf"):
        raise UsageError(f"my_model:{rest} is unknown; write my_model or my_model:NUMBER with a number above 0.")
    return MyModel(smoothing)


#: Read by `--plugin`: the model's name -> its loader.
MODELS = {"my_model": load}
