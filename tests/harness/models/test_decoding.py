"""Sampled texts, rows that break, and rows that leave the batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from dpicl import models
from dpicl.core.errors import ModelError, UsageError
from dpicl.models.pieces import KeyValues, Memory
from tests.harness.models.tiny import SlowReader


@pytest.fixture
def sim():
    return models.load("sim")


@pytest.fixture(params=["sim", "tiny"])
def model(request):
    return request.getfixturevalue(request.param)


def sample_slowly(
    slow: SlowReader, prompt: Sequence[int], count: int, temperature: float, seed: int
) -> list[int]:
    """The Gumbel-max trick, token by token, every prefix read again."""
    generator, tokens = np.random.default_rng(seed), list(prompt)
    for _ in range(count):
        logits = slow.next_token(tokens).double().numpy() / temperature
        tokens.append(int((logits + generator.gumbel(size=len(logits))).argmax()))
    return tokens[len(prompt) :]


@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_samples_are_gumbel_argmaxes_of_the_rows_own_seed(tiny, slow, temperature):
    prompts, seeds = [[5, 9, 40], [7] * 20, [5, 9, 40]], [3, 2**60, 4]
    tiny.eos_token_id = -1
    texts = tiny.generate(prompts, 12, temperature=temperature, seeds=seeds)
    assert texts == [
        tiny.decode(sample_slowly(slow, prompt, 12, temperature, seed))
        for prompt, seed in zip(prompts, seeds, strict=True)
    ]


def test_sampled_texts_end_at_stop_strings_and_length(model):
    prompts, seeds = [model.encode("The film")] * 30, range(30)
    whole = model.generate(prompts, 12, temperature=1.0, seeds=seeds)
    assert model.generate(prompts, 12, ["e"], temperature=1.0, seeds=seeds) == [
        text.split("e")[0] for text in whole
    ]
    short = model.generate(prompts, 5, temperature=1.0, seeds=seeds)
    assert any(len(a) < len(b) for a, b in zip(short, whole, strict=True))
    assert model.generate(prompts, 0, temperature=1.0, seeds=seeds) == [""] * 30


def test_rows_that_have_ended_are_read_no_more(tiny, slow):
    prompts = [[5, 6], [7, 8], [9, 10], [11, 12]]
    tokens = [slow.greedy(prompt, 8) for prompt in prompts]
    tiny.eos_token_id = tokens[1][2]
    ends = [row.index(tiny.eos_token_id) if tiny.eos_token_id in row else 8 for row in tokens]
    assert ends[1] <= 2 and max(ends) == 8
    texts = tiny.generate(prompts, 8)
    assert texts == [tiny.decode(row[:end]) for row, end in zip(tokens, ends, strict=True)]
    assert tiny.usage.tokens_read == sum(2 + min(end, 7) for end in ends)


def test_keys_and_values_move_to_a_larger_place():
    """What one row keeps, token by token, against all of it in one piece; its memory is given back."""
    memory = Memory(limit=10**6, token=16)
    kept = KeyValues(memory, room=3)
    keys, values = torch.randn(2, 1, 2, 20, 4)
    for at in range(20):
        kept.put(0, at, keys[:, :, at : at + 1], values[:, :, at : at + 1])
        assert torch.equal(kept.read_up_to(0, at + 1)[0], keys[:, :, : at + 1])
    assert torch.equal(kept.read_up_to(0, 20)[1], values)
    kept.hold(20)
    assert memory.held == 20 * 16
    del kept
    assert memory.held == 0


@pytest.fixture
def poisoned(tiny):
    """A model whose logits are NaN in every row that has read the token POISON."""
    with torch.no_grad():
        tiny.model.get_input_embeddings().weight[POISON] = float("nan")
    return tiny


POISON = 300


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("shared", [0, 80])
def test_broken_row_ends_alone(tiny_folder, poisoned, temperature, shared):
    prompts = [
        [*range(4, 4 + shared), *own]
        for own in ([5, 6], [7, POISON, 8, 9], [10], [POISON], [11, 12, 13])
    ]
    seeds = [1, 2, 3, 4, 5]
    healthy = models.load(f"hf:{tiny_folder}", device="cpu", dtype="float32")
    expected = healthy.generate(prompts, 10, temperature=temperature, seeds=seeds)
    expected[1] = expected[3] = ""
    assert all(expected[i] for i in (0, 2, 4))
    assert (
        poisoned.generate(prompts, 10, temperature=temperature, seeds=seeds, broken="empty")
        == expected
    )
    with pytest.raises(ModelError, match="not finite"):
        poisoned.generate(prompts, 10, temperature=temperature, seeds=seeds)


def test_row_that_breaks_on_the_way_keeps_its_text(tiny, slow):
    tokens, other = slow.greedy([5, 6], 8), slow.greedy([7, 8], 8)
    at = next(i for i, token in enumerate(tokens) if token not in other)
    with torch.no_grad():
        weight = tiny.model.get_input_embeddings().weight
        weight[tokens[at]] = float("nan")
    assert tokens.index(tokens[at]) == at < 7
    written = tiny.generate([[5, 6], [7, 8]], 8, broken="empty")
    assert written == [tiny.decode(tokens[: at + 1]), tiny.decode(other)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": -0.1, "seeds": [1, 2]}, "temperature"),
        ({"temperature": float("nan"), "seeds": [1, 2]}, "temperature"),
        ({"temperature": float("inf"), "seeds": [1, 2]}, "temperature"),
        ({"temperature": 1.0}, "2 seeds, one a prompt; none given"),
        ({"temperature": 1.0, "seeds": [1]}, "2 seeds, one a prompt; 1 given"),
        ({"temperature": 1.0, "seeds": [1, -1]}, "0 or more"),
        ({"broken": "ignore"}, "'raise' or 'empty'"),
    ],
)
def test_bad_options_are_refused_before_anything_is_read(model, options, words):
    with pytest.raises(UsageError, match=words):
        model.generate([[5], [6]], 4, **options)
    assert model.usage.tokens_read == 0
