"""A tiny random Llama with a real tokenizer, and the slow, obvious way to read a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from dpicl.models.base import LanguageModel
from dpicl.models.transformers import TransformersLM

CORPUS = [
    "Classify the news articles into the categories of World, Sports, Business, and Technology.\n\n",
    "Article: The team won the game after a long season.\nAnswer: Sports\n\n",
    "Article: Shares fell as oil prices rose again on Monday.\nAnswer: Business\n\n",
    "Article: A new chip makes computers faster.\nAnswer: Technology\n\n",
]
TEMPLATE = (
    "{% for m in messages %}<user>{{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<bot>{% endif %}"
)


def save_tiny_llama(folder: Path, max_length: int = 256, seed: int = 0) -> Path:
    """Saves a random 2-layer Llama (hidden size 32, grouped key/value heads) and a byte-level BPE tokenizer."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<s>", "</s>", "<user>", "<bot>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="</s>",
        chat_template=TEMPLATE,
    )
    fast.save_pretrained(folder)
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=len(fast),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=max_length,
        bos_token_id=fast.bos_token_id,
        eos_token_id=fast.eos_token_id,
        initializer_range=0.5,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def set_passes(
    model: TransformersLM, pass_tokens: int | None = None, memory: int | None = None
) -> TransformersLM:
    """A reader of the same weights and sizes that reads in passes of its own."""
    reader = TransformersLM(model.model, model.tokenizer, model.identity)
    reader.read_in(model.shapes)
    reader._passes.most = min(pass_tokens or model.shapes.body[-1], model.shapes.body[-1])
    reader.memory.limit = memory or reader.memory.limit
    return reader


class SlowReader:
    """Reads every prompt alone, from its first token, by a model of transformers, with no cache and no padding."""

    def __init__(self, model: Any) -> None:
        self.model = model

    @torch.inference_mode()
    def log_probs(self, prompt: Sequence[int]) -> torch.Tensor:
        """Tensor[L, V]: what follows each of the L tokens."""
        logits = self.model(torch.tensor([list(prompt)]), use_cache=False).logits[0]
        return torch.log_softmax(logits.float(), dim=-1)

    def next_token(self, prompt: Sequence[int]) -> torch.Tensor:
        """Tensor[V]."""
        return self.log_probs(prompt)[-1]

    def ending(self, context: Sequence[int], ending: Sequence[int]) -> float:
        """Sum of the log-probabilities of the ending's tokens."""
        rows = self.log_probs([*context, *ending])[len(context) - 1 : -1]
        return float(sum(row[token] for row, token in zip(rows, ending, strict=True)))

    def greedy(self, prompt: Sequence[int], count: int) -> list[int]:
        """The next `count` likeliest tokens, one after the other."""
        tokens = list(prompt)
        for _ in range(count):
            tokens.append(int(self.next_token(tokens).argmax()))
        return tokens[len(prompt) :]


def close(one: torch.Tensor, other: torch.Tensor) -> None:
    torch.testing.assert_close(one, other, atol=2e-5, rtol=0)


def assert_reads_alike(
    model: LanguageModel, other: LanguageModel, prompts: Sequence[list[int]]
) -> None:
    """In all ways of reading: whole rows, listed tokens, endings, texts, and token by token."""
    expected = other.next_token_log_probs(prompts)
    close(model.next_token_log_probs(prompts), expected)
    unlikely = expected[0].argsort()[:90].tolist()
    close(model.listed_log_probs(prompts, unlikely)[:, unlikely], expected[:, unlikely])
    endings = [other.encode(" Sports"), other.encode(" zebra"), [int(expected[0].argmax())]]
    ours, theirs = (each.score_endings([(prompts[0], endings)])[0] for each in (model, other))
    scores = [ending.log_prob for ending in theirs]
    assert [ending.log_prob for ending in ours] == pytest.approx(scores, abs=1e-4)
    assert model.generate(prompts, 6, stop=[" "]) == other.generate(prompts, 6, stop=[" "])
    decoder, second = model.decoder(prompts), other.decoder(prompts)
    decoder.append(7)
    second.append(7)
    close(decoder.log_probs, second.log_probs)
