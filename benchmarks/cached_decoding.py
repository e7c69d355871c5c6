"""PRISM's decoding with a key/value cache against reading all prompts again at every token.

    python -m benchmarks.cached_decoding --json

A batch as PRISM reads it: one public prompt and 24 prompts with a record each; every token is drawn from a softmax of
their averaged, clipped logits, with the same random numbers on both sides. The sides agree when they draw the same
tokens. The reference is `next_token_log_probs`, which reads full passes too, so only the cache differs.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch

from benchmarks._report import main, report, timed
from dpicl import models
from dpicl.data.task import Task
from dpicl.models.base import LanguageModel

CLIP = 10.0
TEMPERATURE = 0.3
LABEL = "Company"


def run(device: str = "cpu", prompts: int = 24, tokens: int = 20, dtype: str = "float32") -> dict[str, Any]:
    """Writes one text both ways from the same prompts and random numbers."""
    model = models.load("embedded", device=device, dtype=dtype)
    task = Task.load("dbpedia", "auto", limit_train=prompts, limit_test=1)
    records = [record for record in task.train if record.label == LABEL][:prompts]
    batch = [
        model.encode(task.generation_prompt(LABEL, examples, style="chat"))
        for examples in ((), *((record,) for record in records))
    ]
    model.next_token_log_probs(batch[:2])  # warm-up
    ours, our_seconds = timed(lambda: _with_cache(model, batch, tokens))
    theirs, their_seconds = timed(lambda: _reading_again(model, batch, tokens))
    return report(
        "cached_decoding",
        our_seconds,
        their_seconds,
        ours == theirs,
        device=device,
        dtype=dtype,
        prompts=len(batch),
        longest_prompt=max(map(len, batch)),
        tokens=tokens,
        source=task.source,
        tokens_per_second=round(tokens / our_seconds, 2),
    )


def _with_cache(model: LanguageModel, batch: list[list[int]], tokens: int) -> list[int]:
    """The tokens that are drawn, each prompt read once."""
    noise = np.random.default_rng(0)
    decoder = model.decoder(batch)
    drawn: list[int] = []
    while True:
        drawn.append(_choose(decoder.log_probs, noise))
        if len(drawn) == tokens:
            return drawn
        decoder.append(drawn[-1])


def _reading_again(model: LanguageModel, batch: list[list[int]], tokens: int) -> list[int]:
    """The tokens that are drawn, each prompt read from its first token every time."""
    noise = np.random.default_rng(0)
    drawn: list[int] = []
    while len(drawn) < tokens:
        drawn.append(_choose(model.next_token_log_probs([prompt + drawn for prompt in batch]), noise))
    return drawn


def _choose(log_probs: torch.Tensor, noise: np.random.Generator) -> int:
    """PRISM's draw: softmax of (mean of clipped private logits + clipped public logits) / 2 at a temperature."""
    rows = log_probs.double().numpy()
    clipped = np.maximum(rows - rows.max(axis=1, keepdims=True) + CLIP, -CLIP)
    scores = (clipped[1:].mean(axis=0) + clipped[0]) / 2
    return int((scores / TEMPERATURE + noise.gumbel(size=scores.size)).argmax())


if __name__ == "__main__":
    sys.exit(main(run))
