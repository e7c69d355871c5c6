"""The model of the task `ginc`: a GPT-2 that has read nothing but GINC (`dpicl.models.ginc_corpus`).

``ginc`` is small: it is trained on the CPU when it is first asked for, in minutes, and kept in the cache. ``ginc:4``,
``ginc:12`` and ``ginc:16`` are the sizes of Xie et al. 2022 (appendix F; also Yamasaki et al. 2025), which
`dpicl ginc prepare` trains, on a GPU. Every block of tokens begins with [endoftext] and lies in one document.

Training is deterministic: the size, its seed and the machine type decide every bit of the weights.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from dpicl.core.errors import ModelError, unknown
from dpicl.core.files import file_sha256
from dpicl.core.messages import duration, message
from dpicl.core.paths import models_folder
from dpicl.models.base import ModelIdentity
from dpicl.models.cached import cached_folder, intact
from dpicl.models.ginc_corpus import SEED, VOCABULARY, language
from dpicl.models.readers import reader_of
from dpicl.models.transformers import CausalModel
from dpicl.models.weights import dtype_name

NAME = "ginc"
END, UNKNOWN = "[endoftext]", "[unknown]"
#: Raised when training changes, so that weights of another training are made again.
FORMAT = 1
#: Threads of a training on the CPU, whatever the process uses: sums in another order have other bits.
THREADS = 1
_DECAY, _BETAS, _LONGEST_GRADIENT = 0.1, (0.9, 0.95), 1.0
_VALIDATION = 100


@dataclass(frozen=True)
class Size:
    """A model and its training: ``documents`` documents of ``length`` tokens are cut into blocks of ``context`` - 1
    tokens, which are read ``epochs`` times in random order; the learning rate rises for ``warm_up`` steps and falls
    linearly to 0. on_use: whether it is trained when it is first asked for."""

    layers: int
    width: int
    heads: int
    context: int
    documents: int
    length: int
    batch: int
    rate: float
    warm_up: int
    epochs: int = 1
    dropout: float = 0.0
    on_use: bool = False
    seed: int = 0

    @property
    def steps(self) -> int:
        return self.epochs * (self.documents * (self.length // (self.context - 1)) // self.batch)


def _published(layers: int) -> Size:
    """Section 11 of the mechanisms' formulas: 768 wide, 12 heads, block 1,024, five epochs over 1,000 documents."""
    return Size(layers, 768, 12, 1024, 1000, 10_240, 8, 8e-4, 1000, epochs=5, dropout=0.1)


SIZES = {
    "small": Size(4, 128, 4, 128, 24_000, 127, 16, 2e-3, 50, on_use=True),
    **{str(layers): _published(layers) for layers in (4, 12, 16)},
}


def load_ginc(rest: str, device: str, dtype: torch.dtype | None) -> CausalModel:
    """The model of a size ('' is small), from the cache; a small one is trained where it is not there.

    dtype: float32 unless another is given. Raises UsageError for an unknown size, ModelError for one that has to be
    prepared first, and for a cache that cannot be written.
    """
    name = rest or "small"
    folder = prepared(name, device)
    dtype = dtype or torch.float32
    model: Any = GPT2LMHeadModel(GPT2Config.from_pretrained(folder))
    model.load_state_dict(load_file(folder / "model.safetensors"), strict=False)  # lm_head is tied to the embeddings
    model.to(device=device, dtype=dtype).eval()
    identity = ModelIdentity(
        name=f"{NAME}:{rest}" if rest else NAME,
        sha256=file_sha256(folder / "model.safetensors"),
        revision=None,
        dtype=dtype_name(dtype),
        device=device,
        parameters=model.num_parameters(),
    )
    return reader_of(model, tokenizer(), identity)


def prepared(name: str, device: str = "cpu", train: bool = False) -> Path:
    """The folder of a size's weights and tokenizer, trained where it is missing or damaged.

    train: also a size that is not trained on use. One process trains, and others wait for it. Whatever ends a training
    leaves nothing. Raises UsageError and ModelError as `load_ginc` does.
    """
    if name not in SIZES:
        raise unknown("size of the model ginc", name, SIZES)
    size, folder = SIZES[name], models_folder() / folder_name(SIZES[name])
    if not (train or size.on_use or intact(folder, FORMAT)):
        raise ModelError(f"The model {NAME}:{name} is not here; run `dpicl ginc prepare --size {name}` on a GPU.")
    where = "cpu" if size.on_use else device  # its bits must not depend on whether there is a GPU
    return cached_folder(folder.name, FORMAT, lambda fresh: pretrain(size, name, fresh, where))


def folder_name(size: Size) -> str:
    """The name of the folder of a size: all that its training is made of."""
    settings = f"{sorted(asdict(size).items())} {FORMAT} {SEED} {VOCABULARY} {THREADS}"
    return f"{NAME}-{sha256(settings.encode()).hexdigest()[:16]}"


def tokenizer() -> PreTrainedTokenizerFast:
    """Words of the language by their symbols, then [endoftext], which begins every text, and [unknown]."""
    words = {word: symbol for symbol, word in enumerate((*language().words, END, UNKNOWN))}
    backend = Tokenizer(models.WordLevel(words, unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(single=f"{END} $A", special_tokens=[(END, words[END])])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=END,
        eos_token=END,
        unk_token=UNKNOWN,
        chat_template="{% for message in messages %}{{ message['content'] }}{% endfor %}",  # it has no turns
    )


def pretrain(size: Size, name: str, target: Path, device: str = "cpu") -> float:
    """Trains a model, writes it and its tokenizer into a folder, and returns its validation loss (nats a token)."""
    words = tokenizer()
    with _deterministic(size, device):
        torch.manual_seed(size.seed)
        config = GPT2Config(
            vocab_size=len(words),
            n_positions=size.context,
            n_embd=size.width,
            n_layer=size.layers,
            n_head=size.heads,
            resid_pdrop=size.dropout,
            embd_pdrop=size.dropout,
            attn_pdrop=size.dropout,
            bos_token_id=words.bos_token_id,
            eos_token_id=words.eos_token_id,
        )
        model: Any = GPT2LMHeadModel(config)
        model.to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=size.rate, weight_decay=_DECAY, betas=_BETAS)
        begun = time.monotonic()
        message(
            f"Training the model {NAME} ({name}) once: {size.steps:,} steps, minutes for the small one on an idle CPU;"
            " when stopped it begins again."
        )
        for step, block in enumerate(batches(size)):
            if step and step % max(size.steps // 20, 20) == 0:
                left = (time.monotonic() - begun) / step * (size.steps - step)
                message(f"    step {step:,} of {size.steps:,}; about {duration(left)} left")
            rate = size.rate * min((step + 1) / max(size.warm_up, 1), 1 - step / size.steps)
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.zero_grad()
            loss = _loss(model, block, device)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), _LONGEST_GRADIENT)
            optimizer.step()
        found = validation_loss(model.eval(), size)
    weights = {f"transformer.{name}": each.cpu().contiguous() for name, each in model.transformer.state_dict().items()}
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(target)
    words.save_pretrained(target)
    taken = duration(time.monotonic() - begun)
    message(f"The model {NAME} ({name}) is trained: {taken}, validation loss {found:.3f}.")
    return found


def batches(size: Size) -> Iterator[torch.Tensor]:
    """int64[batch, context] for every step."""
    generator = np.random.default_rng([size.seed, 1])
    per = size.context - 1
    documents = language().documents(size.documents, size.length, generator)
    blocks = documents[:, : size.length // per * per].reshape(-1, per)
    for _ in range(size.epochs):
        order = generator.permutation(len(blocks))
        for at in range(0, len(order) - size.batch + 1, size.batch):
            yield _opened(blocks[order[at : at + size.batch]])


@torch.no_grad()
def validation_loss(model: Any, size: Size) -> float:
    """Mean loss, in nats a token, on the first block of 100 documents that are in no training."""
    generator = np.random.default_rng([size.seed, 2])
    blocks = _opened(language().documents(_VALIDATION, size.context - 1, generator))
    return float(np.mean([float(_loss(model, block, str(model.device))) for block in blocks.split(size.batch)]))


def _opened(blocks: np.ndarray) -> torch.Tensor:
    """The blocks with [endoftext] before each."""
    return torch.from_numpy(np.pad(blocks, ((0, 0), (1, 0)), constant_values=VOCABULARY))


def _loss(model: Any, block: torch.Tensor, device: str) -> torch.Tensor:
    """Mean cross-entropy of every token after the first."""
    block = block.to(device)
    logits = model(block).logits[:, :-1]
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), block[:, 1:].reshape(-1))


@contextmanager
def _deterministic(size: Size, device: str) -> Iterator[None]:
    """Inside this block torch's sums have one order, and its randomness is the block's own."""
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    gpus = [torch.device(device)] if torch.device(device).type == "cuda" else []
    if gpus:  # cuBLAS reads it when it is first used
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    with torch.random.fork_rng(devices=gpus):
        try:
            torch.set_num_threads(THREADS)
            torch.use_deterministic_algorithms(True, warn_only=bool(gpus))
            yield
        finally:
            torch.set_num_threads(threads)
            torch.use_deterministic_algorithms(strict)
