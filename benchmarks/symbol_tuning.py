"""Symbol tuning (Wei et al. 2023, arXiv 2305.08298): an adapter with which the embedded model reads unseen labels.

    python -m benchmarks.symbol_tuning FOLDER ADAPTER

FOLDER holds public corpora, one JSON Lines file each, of records with `text` and `label`; none is of a task of this
benchmark (`python -m benchmarks.symbol_corpora` writes them). An episode shows texts of a few classes with random words
for labels, in one of several layouts, and the loss is that of every label after the first few. Only the adapter learns:
for every linear layer of attention a product of two matrices of rank RANK, which is added to its weights when the model
is loaded. A training that was stopped goes on where it last wrote `ADAPTER.state`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from dpicl.core.messages import message
from dpicl.models.embedded import cached_model
from dpicl.models.packaged import EMBEDDED

RANK = 16
SEED = 0
STEPS = 450
EPISODES = 4
RATE = 6e-4
WARM_UP = 30
DECAY_FROM = 0.7
#: The longest text of an episode, in tokens.
LONGEST = 24
SHOTS = (8, 17)
CLASSES = (2, 7)
_SAVE_EVERY = 10
NAMES = (
    ("Text", "Label"),
    ("Input", "Output"),
    ("Sentence", "Class"),
    ("Message", "Tag"),
    ("Question", "Answer"),
    ("Document", "Type"),
    ("Query", "Intent"),
    ("Title", "Group"),
    ("Description", "Symbol"),
    ("Snippet", "Key"),
)
HEADERS = (
    "",
    "",
    "Give the {label} of each {text}: {words}.\n\n",
    "Every {text} belongs to one of {count} groups. Answer with {words}.\n\n",
    "Choose among {words}.\n\n",
)


class LowRank(nn.Module):
    """A frozen linear layer with a product of rank RANK added."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer
        width = layer.in_features
        self.down = nn.Parameter(torch.randn(RANK, width) / width**0.5)
        self.up = nn.Parameter(torch.zeros(layer.out_features, RANK))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        narrow = inputs @ self.down.T
        return self.layer(inputs) + narrow @ self.up.T


@dataclass(frozen=True)
class Episode:
    """tokens: with the start of a document. labels: places of the tokens to be learnt. words: those that may stand
    there."""

    tokens: list[int]
    labels: list[int]
    words: list[int]


def read_corpora(folder: Path) -> list[Mapping[str, list[str]]]:
    """For every file: label -> texts."""
    corpora: list[Mapping[str, list[str]]] = []
    for path in sorted(folder.glob("*.jsonl")):
        texts: dict[str, list[str]] = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            texts.setdefault(str(record["label"]), []).append(record["text"])
        corpora.append(texts)
    return corpora


def find_words(tokenizer: Any) -> list[int]:
    """Tokens that are a blank and a lower-case or capitalised word of three to nine letters."""
    words = []
    for token, number in tokenizer.get_vocab().items():
        word = token.removeprefix("Ġ")
        is_plain = word.isascii() and word.isalpha()
        is_word = word.islower() or word.istitle()
        if word != token and 3 <= len(word) <= 9 and is_plain and is_word:
            words.append(number)
    return sorted(words)


def draw_episode(
    corpora: Sequence[Mapping[str, list[str]]],
    tokenizer: Any,
    words: Sequence[int],
    start: int,
    draw: np.random.Generator,
) -> Episode:
    corpus = corpora[int(draw.integers(len(corpora)))]
    count = min(int(draw.integers(*CLASSES)), len(corpus))
    order = draw.permutation(len(corpus))[:count]
    names = [list(corpus)[at] for at in order]
    symbols = draw.choice(words, count, replace=False).tolist()
    text_name, label_name = NAMES[draw.integers(len(NAMES))]
    between = ("\n\n", "\n")[draw.integers(2)]
    header = HEADERS[draw.integers(len(HEADERS))].format(
        text=text_name.lower(),
        label=label_name.lower(),
        count=count,
        words=", ".join(tokenizer.decode([symbol]).strip() for symbol in symbols),
    )
    tokens = [start, *tokenizer.encode(header, add_special_tokens=False)]
    labels = []
    for shot in range(int(draw.integers(*SHOTS))):
        place = int(draw.integers(count))
        texts = corpus[names[place]]
        text = texts[draw.integers(len(texts))]
        ids = tokenizer.encode(f" {text}", add_special_tokens=False)[:LONGEST]
        tokens += tokenizer.encode(
            f"{between if shot else ''}{text_name}:", add_special_tokens=False
        )
        tokens += [*ids, *tokenizer.encode(f"\n{label_name}:", add_special_tokens=False)]
        if shot >= count:
            labels.append(len(tokens))
        tokens.append(symbols[place])
    return Episode(tokens, labels, symbols)


def add_adapter(model: Any) -> dict[str, LowRank]:
    """Replaces the linear layers of attention; only what is added learns."""
    model.requires_grad_(False)
    layers = {}
    for name, module in list(model.model.named_modules()):
        if isinstance(module, nn.Linear) and ".self_attn." in name:
            parent = model.model.get_submodule(name.rpartition(".")[0])
            layers[name] = LowRank(module)
            setattr(parent, name.rpartition(".")[2], layers[name])
    return layers


def measure(model: Any, episode: Episode) -> tuple[torch.Tensor, float]:
    """(mean loss of the labels, share of labels whose word is the likeliest of its episode's)."""
    tokens, places = torch.tensor(episode.tokens), torch.tensor(episode.labels)
    states = model.model(input_ids=tokens[None], use_cache=False).last_hidden_state[0]
    logits, answers = model.lm_head(states[places - 1]), tokens[places]
    among = torch.tensor(episode.words)
    chosen = among[logits[:, among].argmax(dim=1)]
    right = float((chosen == answers).float().mean())
    return nn.functional.cross_entropy(logits, answers), right


class Training:
    """The adapter of a model in training, with its optimizer; goes on from its file of state, if there is one."""

    def __init__(self, model: Any, target: Path) -> None:
        torch.manual_seed(SEED)
        layers = add_adapter(model)
        self.learnt = {
            f"{name}.{part}": getattr(layer, part)
            for name, layer in layers.items()
            for part in ("down", "up")
        }
        self.optimizer = torch.optim.AdamW(self.learnt.values(), lr=RATE, weight_decay=0.0)
        self.target = target
        self.state = target.with_suffix(".state")
        self.step = 0
        if self.state.exists():
            self._restore(torch.load(self.state))

    @torch.no_grad()
    def _restore(self, saved: Mapping[str, Any]) -> None:
        self.step = saved["step"]
        self.optimizer.load_state_dict(saved["optimizer"])
        for name, tensor in self.learnt.items():
            tensor.copy_(saved["learnt"][name])

    def save(self) -> None:
        state = {
            "step": self.step,
            "optimizer": self.optimizer.state_dict(),
            "learnt": self.learnt,
        }
        torch.save(state, self.state)
        small = {}
        for name, tensor in self.learnt.items():
            small[name] = tensor.detach().to(torch.bfloat16)
        save_file(small, self.target)

    def learn(self, model: Any, episodes: Sequence[Episode]) -> list[tuple[float, float]]:
        """One step; for each episode its loss and the share of right labels before it."""
        falling = (1 - self.step / STEPS) / (1 - DECAY_FROM)
        for group in self.optimizer.param_groups:
            group["lr"] = RATE * min((self.step + 1) / WARM_UP, 1.0, falling)
        self.optimizer.zero_grad()
        measured = []
        for episode in episodes:
            loss, right = measure(model, episode)
            (loss / len(episodes)).backward()
            measured.append((float(loss.detach()), right))
        nn.utils.clip_grad_norm_(self.learnt.values(), 1.0)
        self.optimizer.step()
        self.step += 1
        return measured


def train(model: Any, tokenizer: Any, start: int, folder: Path, target: Path) -> None:
    """Writes the adapter to target. start: the token that begins a document."""
    corpora = read_corpora(folder)
    words = find_words(tokenizer)
    training = Training(model, target)
    recent: list[tuple[float, float]] = []
    while training.step < STEPS:
        draw = np.random.default_rng([SEED, training.step])
        episodes = [draw_episode(corpora, tokenizer, words, start, draw) for _ in range(EPISODES)]
        recent += training.learn(model, episodes)
        if training.step % _SAVE_EVERY == 0 or training.step == STEPS:
            training.save()
            loss, right = np.mean(recent[-2 * _SAVE_EVERY * EPISODES :], axis=0)
            message(f"step {training.step:,} of {STEPS:,}: loss {loss:.3f}, {right:.0%} right")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("adapter", type=Path)
    arguments = parser.parse_args()
    folder = cached_model(EMBEDDED)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=torch.float32,
        attn_implementation="sdpa",
    )
    start = tokenizer.convert_tokens_to_ids(EMBEDDED.document_start)
    train(model, tokenizer, start, arguments.folder, arguments.adapter)


if __name__ == "__main__":
    main()
