"""letters: a language model made of one function, `log_probs_after`: the next token's distribution after a prompt.

Here it counts which letter follows which in a public text, so that the file runs as it is. Put a call of your own
engine there, with its tokenizer into `encode` and `decode`. `RereadingModel` makes the rest of it and reads the whole
prompt again for every token; later, for speed, override `next_token_log_probs`, `decoder`, `prefix`, `score_endings`
and `generate`. A model that transformers can load needs no file: use `--model hf:PATH_OR_ID`.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from dpicl import ChatPrompt, ModelIdentity, RereadingModel, Tokens, Usage, UsageError

PUBLIC_TEXT = (
    "the quick brown fox jumps over the lazy dog while the band plays and the people of the town listen. "
    * 4
)


class Letters(RereadingModel):
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
        self.identity = ModelIdentity(
            "letters",
            weights,
            None,
            "float32",
            "cpu",
            parameters=self._table.size,
            batch_invariant=True,
        )

    def encode(self, prompt: str | ChatPrompt) -> list[int]:
        if isinstance(prompt, ChatPrompt):  # Decide: the chat template.
            prompt = f"User: {prompt.user}\nAssistant: {prompt.assistant_prefix}"
        return list(prompt.encode("utf-8", errors="replace"))

    def decode(self, tokens: Tokens) -> str:
        return bytes(token for token in tokens if token != self.eos_token_id).decode(
            "utf-8", errors="replace"
        )

    def log_probs_after(self, prompt: Tokens) -> np.ndarray:
        """float[V] after one prompt; an empty one is read as the beginning of a text."""
        return np.asarray(self._table[prompt[-1] if len(prompt) else self.eos_token_id])


def load(rest: str, device: str, dtype: Any) -> Letters:
    """Which letter follows which in a public text; letters:0.5 counts each pair half a time more."""
    # Decide: what may follow the colon of the model's name, and what becomes of device and dtype (None: your choice).
    try:
        smoothing = float(rest or 0.01)
    except ValueError:
        smoothing = 0.0
    if not 0 < smoothing < float("inf"):
        raise UsageError(
            f"letters:{rest} is unknown; write letters or letters:NUMBER with a number above 0."
        )
    return Letters(smoothing)


#: Read by `--plugin`: the model's name -> its loader.
MODELS = {"letters": load}
