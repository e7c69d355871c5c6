"""The model of the task `ginc`: a GPT-2 that has read nothing but GINC (`dpicl.models.ginc_corpus`).

Its weights are a file of the package, since sums on another processor have other bits, and other weights other scores.
`python -m dpicl.models.ginc FILE` trains them again, on one thread of the CPU in minutes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from dpicl.core.files import file_sha256
from dpicl.core.messages import duration, message
from dpicl.models.base import ModelIdentity
from dpicl.models.ginc_corpus import VOCABULARY, language
from dpicl.models.packaged import GINC_WEIGHTS
from dpicl.models.readers import reader_of
from dpicl.models.transformers import CausalModel
from dpicl.models.weights import dtype_name

NAME = "ginc"
END, UNKNOWN = "[endoftext]", "[unknown]"
#: Of TRAINING, on an AMD EPYC with AVX2 instructions (docs/tasks-and-models.md has the command).
WEIGHTS = GINC_WEIGHTS
#: Threads of a training, whatever the process uses: sums in another order have other bits.
THREADS = 1
_DECAY, _BETAS, _LONGEST_GRADIENT = 0.1, (0.9, 0.95), 1.0
_VALIDATION = 100


@dataclass(frozen=True)
class Training:
    """A model and what it reads, once, in random order: documents of ``context`` - 1 tokens, [endoftext] before each.
    The learning rate rises for ``warm_up`` steps and falls linearly to 0."""

    layers: int = 4
    width: int = 128
    heads: int = 4
    context: int = 128
    documents: int = 24_000
    batch: int = 16
    rate: float = 2e-3
    warm_up: int = 50
    seed: int = 0

    @property
    def steps(self) -> int:
        return self.documents // self.batch


TRAINING = Training()


def load_ginc(device: str, dtype: torch.dtype | None) -> CausalModel:
    """The model. dtype: float32 unless another is given."""
    dtype, words = dtype or torch.float32, tokenizer()
    model: Any = GPT2LMHeadModel(_configuration(TRAINING, words))
    model.load_state_dict(load_file(WEIGHTS), strict=False)  # lm_head is tied to the embeddings
    model.to(device=device, dtype=dtype).eval()
    identity = ModelIdentity(
        name=NAME,
        sha256=file_sha256(WEIGHTS),
        revision=None,
        dtype=dtype_name(dtype),
        device=device,
        parameters=model.num_parameters(),
    )
    return reader_of(model, words, identity)


def _configuration(training: Training, words: PreTrainedTokenizerFast) -> GPT2Config:
    return GPT2Config(
        vocab_size=len(words),
        n_positions=training.context,
        n_embd=training.width,
        n_layer=training.layers,
        n_head=training.heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=words.bos_token_id,
        eos_token_id=words.eos_token_id,
    )


def tokenizer() -> PreTrainedTokenizerFast:
    """Words of the language by their symbols, then [endoftext], which begins every text, and [unknown]."""
    words = {word: symbol for symbol, word in enumerate((*language().words, END, UNKNOWN))}
    backend = Tokenizer(models.WordLevel(words, unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(
        single=f"{END} $A", special_tokens=[(END, words[END])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=END,
        eos_token=END,
        unk_token=UNKNOWN,
        chat_template="{% for message in messages %}{{ message['content'] }}{% endfor %}",  # it has no turns
    )


def pretrain(training: Training, target: Path) -> float:
    """Trains a model, writes its weights into a file, and returns its validation loss (nats a token)."""
    with _make_deterministic():
        torch.manual_seed(training.seed)
        model: Any = GPT2LMHeadModel(_configuration(training, tokenizer()))
        optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=training.rate,
            weight_decay=_DECAY,
            betas=_BETAS,
        )
        begun, steps = time.monotonic(), training.steps
        for step, block in enumerate(batches(training)):
            if step and step % max(steps // 20, 20) == 0:
                left = (time.monotonic() - begun) / step * (steps - step)
                message(f"    step {step:,} of {steps:,}; about {duration(left)} left")
            rate = training.rate * min((step + 1) / max(training.warm_up, 1), 1 - step / steps)
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.zero_grad()
            loss = _loss(model, block)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), _LONGEST_GRADIENT)
            optimizer.step()
        loss_now = validation_loss(model.eval(), training)
    weights = {
        f"transformer.{name}": each.contiguous()
        for name, each in model.transformer.state_dict().items()
    }
    save_file(weights, target, metadata={"format": "pt"})
    return loss_now


def batches(training: Training) -> Iterator[torch.Tensor]:
    """int64[batch, context] for every step."""
    generator = np.random.default_rng([training.seed, 1])
    blocks = language().documents(training.documents, training.context - 1, generator)
    order = generator.permutation(len(blocks))
    for at in range(0, len(order) - training.batch + 1, training.batch):
        yield _prepend_start(blocks[order[at : at + training.batch]])


@torch.no_grad()
def validation_loss(model: Any, training: Training) -> float:
    """Mean loss, in nats a token, on 100 documents that are in no training."""
    generator = np.random.default_rng([training.seed, 2])
    blocks = _prepend_start(language().documents(_VALIDATION, training.context - 1, generator))
    return float(np.mean([float(_loss(model, block)) for block in blocks.split(training.batch)]))


def _prepend_start(blocks: np.ndarray) -> torch.Tensor:
    """The blocks with [endoftext] before each."""
    return torch.from_numpy(
        np.pad(
            blocks,
            ((0, 0), (1, 0)),
            constant_values=VOCABULARY,
        )
    )


def _loss(model: Any, block: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy of every token after the first."""
    logits = model(block).logits[:, :-1]
    return torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), block[:, 1:].reshape(-1)
    )


@contextmanager
def _make_deterministic() -> Iterator[None]:
    """Inside this block torch's sums have one order, and its randomness is the block's own."""
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng(devices=[]):
        try:
            torch.set_num_threads(THREADS)
            torch.use_deterministic_algorithms(True)
            yield
        finally:
            torch.set_num_threads(threads)
            torch.use_deterministic_algorithms(strict)


if __name__ == "__main__":
    message(f"Validation loss {pretrain(TRAINING, Path(sys.argv[1])):.3f} nats a token.")
