"""Models of many architectures, with random weights, against transformers' own logits; also beyond their windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedConfig

from dpicl.core.together import run_together
from dpicl.models import readers
from dpicl.models.base import ModelIdentity
from dpicl.models.pieces import PIECE
from dpicl.models.transformers import CausalModel, PlainLM, TransformersLM
from tests.harness.models.test_transformers import TOLERANCE
from tests.harness.models.tiny import SlowReader

WINDOW = 24
SMALL = {
    "vocab_size": 320,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 640,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 1,
}


def make_config(name: str, **settings: Any) -> Callable[..., PreTrainedConfig]:
    return partial(getattr(transformers, f"{name}Config"), **SMALL | settings)


PACKED = {
    "llama": make_config("Llama"),
    "llama, heads of odd size": make_config(
        "Llama", hidden_size=56, head_dim=14, num_key_value_heads=4
    ),
    "llama, one group": make_config("Llama", num_key_value_heads=1),
    "qwen2": make_config("Qwen2"),
    "qwen2, window in some layers": make_config(
        "Qwen2",
        use_sliding_window=True,
        sliding_window=WINDOW,
        max_window_layers=1,
        num_hidden_layers=3,
    ),
    "qwen3": make_config("Qwen3", head_dim=16),
    "mistral": make_config("Mistral", sliding_window=WINDOW),
    "gemma2": make_config(
        "Gemma2", sliding_window=WINDOW, head_dim=8, num_hidden_layers=4, attn_logit_softcapping=2.0
    ),
    "gemma3": make_config(
        "Gemma3Text",
        sliding_window=WINDOW,
        head_dim=8,
        num_hidden_layers=6,
        query_pre_attn_scalar=8,
    ),
    "phi3": make_config("Phi3", sliding_window=WINDOW),
    "olmo2": make_config("Olmo2"),
    "smollm3": make_config("SmolLM3", num_hidden_layers=4, no_rope_layer_interval=2),
    "cohere2": make_config("Cohere2", sliding_window=WINDOW, num_hidden_layers=4),
    "gpt2": partial(
        transformers.GPT2Config,
        vocab_size=320,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=640,
        initializer_range=0.3,
    ),
    "gpt neox": make_config("GPTNeoX", rotary_pct=0.5),
}
#: Each kind of attention, of window and of positions; the slow tests have every architecture.
FAST = ("llama, heads of odd size", "qwen2, window in some layers", "gemma2", "smollm3", "gpt2")
EVERY = [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in PACKED]
PLAIN = {
    "mixtral, experts": make_config("Mixtral", num_local_experts=4, sliding_window=WINDOW),
    "mamba, recurrent": partial(
        transformers.MambaConfig,
        vocab_size=320,
        hidden_size=32,
        num_hidden_layers=2,
        state_size=4,
        pad_token_id=0,
    ),
    "falcon h1, hybrid": make_config(
        "FalconH1",
        mamba_d_ssm=32,
        mamba_n_heads=4,
        mamba_d_head=8,
        mamba_d_state=4,
        mamba_n_groups=1,
        head_dim=8,
    ),
    "phi3 with long positions": make_config(
        "Phi3",
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 10000.0,
            "short_factor": [1.0] * 4,
            "long_factor": [3.0] * 4,
            "original_max_position_embeddings": 100,
        },
    ),
    "granite with sinks": make_config("GraniteSWA", sliding_window=WINDOW, num_hidden_layers=4),
    "diffllama, two attentions a layer": make_config("DiffLlama"),
    "bloom, positions in the mask": partial(
        transformers.BloomConfig,
        vocab_size=320,
        hidden_size=32,
        n_layer=2,
        n_head=4,
        initializer_range=0.3,
    ),
}


def load(config: PreTrainedConfig, folder: Path) -> CausalModel:
    """A model with random weights, read as a model of that architecture is read."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.3)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return readers.reader_of(
        model, tokenizer, ModelIdentity("random", None, None, "float32", "cpu", 0)
    )


def rows_of(*lengths: int) -> list[list[int]]:
    random = np.random.default_rng(4)
    return [random.integers(4, 300, size=length).tolist() for length in lengths]


def assert_reads_as_transformers(model: CausalModel, rows: Sequence[Sequence[int]]) -> None:
    """In all ways of reading: at once, after a prefix, token by token, and endings in one tree."""
    slow = SlowReader(model.model)
    expected = torch.stack([slow.next_token(row) for row in rows])
    near = partial(torch.testing.assert_close, atol=TOLERANCE, rtol=0)
    near(model.next_token_log_probs(rows), expected)
    near(
        torch.cat(run_together([partial(model.next_token_log_probs, [row]) for row in rows])),
        expected,
    )
    for row, own in zip(rows, expected, strict=True):
        for begin in (1, len(row) // 2, len(row) - 1):
            near(model.next_token_log_probs([row], model.prefix(row[:begin]))[0], own)
    decoder = model.decoder(rows)
    for token in (9, 200, 31):
        decoder.append(token)
    near(decoder.log_probs, torch.stack([slow.next_token([*row, 9, 200, 31]) for row in rows]))
    endings = [[5], [6, 7, 8], [6, 7, 9, 10, 11], [200, 201]]
    for row, scored in zip(rows, model.score([(row, endings) for row in rows]), strict=True):
        assert scored == pytest.approx([slow.ending(row, ending) for ending in endings], abs=5e-4)


@pytest.fixture(scope="module", params=EVERY)
def packed(request, tiny_folder):
    """A model of each architecture that is read in packs; its rows were measured once."""
    model = load(PACKED[request.param](), tiny_folder)
    assert isinstance(model, TransformersLM)
    assert model.identity.batch_invariant is not None
    assert model.usage.tokens_read == 0
    return model


def test_packed_rows_are_read_as_transformers_reads_them(packed):
    assert_reads_as_transformers(packed, rows_of(WINDOW - 1, WINDOW + 1, 2, PIECE + 60))


def test_no_row_changes_another(packed):
    model = packed
    rows = rows_of(5, WINDOW - 1, 90, 1, PIECE + 60, 2)
    prefix = model.prefix(rows[4][:40])
    rows.append([*rows[4][:40], 9])
    alone = torch.cat([model.next_token_log_probs([row], prefix) for row in rows])
    assert torch.equal(model.next_token_log_probs(rows, prefix), alone)
    assert torch.equal(model.next_token_log_probs(rows[::-1], prefix), alone.flip(0))
    many = model.decoder(rows)
    single = [model.decoder([row]) for row in rows]
    for decoder in (many, *single):
        decoder.append(9)
    assert torch.equal(many.log_probs, torch.cat([decoder.log_probs for decoder in single]))
    asked = [(row, [[5], [6, 7], [6, 8, 9]]) for row in rows]
    assert model.score(asked, prefix) == [model.score([one], prefix)[0] for one in asked]


@pytest.mark.parametrize("name", PLAIN)
def test_other_models_are_read_one_row_a_pass(name, tiny_folder):
    model = load(PLAIN[name](), tiny_folder)
    assert isinstance(model, PlainLM)
    assert model.identity.batch_invariant
    rows = rows_of(WINDOW + 1, 2, 130)
    assert_reads_as_transformers(model, rows)
    assert torch.equal(
        model.next_token_log_probs(rows),
        torch.cat([model.next_token_log_probs([row]) for row in rows]),
    )


@pytest.mark.parametrize("length", [WINDOW - 3, PIECE - 6])
@pytest.mark.parametrize("name", ["mistral", pytest.param("gemma3", marks=pytest.mark.slow)])
def test_trees_of_endings_end_at_the_window_too(name, length, tiny_folder):
    """Where a tree lies in two pieces, its tokens are nearer to each other than their places in the row."""
    model = load(PACKED[name](), tiny_folder)
    (row,) = rows_of(length)
    endings = [*rows_of(3, 9, 14, 2, 11), rows_of(3, 9)[1][:4] + rows_of(1, 60)[1]]
    (scored,) = model.score([(row, endings)])
    slow = SlowReader(model.model)
    assert scored == pytest.approx([slow.ending(row, ending) for ending in endings], abs=1e-3)


def test_a_model_that_reads_otherwise_than_transformers_is_found(tiny_folder, caplog, monkeypatch):
    """An architecture that the packed reader seems to take, but whose keys it mixes up after a prefix."""
    monkeypatch.setattr(readers, "explain_unsupported", lambda model: None)
    model = load(PLAIN["diffllama, two attentions a layer"](), tiny_folder)
    assert isinstance(model, PlainLM)
    assert "one row a pass" in caplog.text


def test_a_measurement_is_kept_for_weights_with_a_fingerprint(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("DPICL_CACHE", str(tmp_path))
    first = readers.find_measured(tiny)
    assert first.agrees
    monkeypatch.setattr(readers, "measure", lambda model: pytest.fail("measured again"))
    assert readers.find_measured(tiny) == first
    tiny.identity = replace(tiny.identity, sha256="other")
    with pytest.raises(pytest.fail.Exception):
        readers.find_measured(tiny)
    for path in tmp_path.rglob("*.json"):
        path.write_text("[")
    tiny.identity = replace(tiny.identity, sha256=None)
    with pytest.raises(pytest.fail.Exception):
        readers.find_measured(tiny)


def shift_by_size(logits: torch.Tensor, tokens: int, wanted: torch.Tensor) -> torch.Tensor:
    return logits + 1e-6 * tokens * torch.arange(logits.shape[1])


def shift_by_place(logits: torch.Tensor, tokens: int, wanted: torch.Tensor) -> torch.Tensor:
    return logits + 1e-6 * wanted[:, None] * torch.arange(logits.shape[1])


def leaking(logits: torch.Tensor, tokens: int, wanted: torch.Tensor) -> torch.Tensor:
    """Only NaN tells: finite neighbours add nothing."""
    return logits + 0.0 * logits.roll(1, 0)


@pytest.mark.parametrize(
    ("change", "alone"), [(shift_by_size, True), (shift_by_place, False), (leaking, False)]
)
def test_passes_that_move_a_row_are_noticed(change, alone, tiny):
    """Where only their size does, passes have one size."""
    forward = tiny._passes._forward
    tiny._passes._forward = lambda tokens, positions, wanted: change(
        forward(tokens, positions, wanted), len(tokens), wanted
    )
    found = readers.measure(tiny)
    assert found.alone is alone
    assert not alone or found.body == [256]


def test_many_passes_read_one_layer_of_each_kind_at_least(tiny_folder):
    """And all layers again afterwards; a kind differs in a setting, a shape or the place of weights in memory."""
    whole = load(PACKED["llama"](num_hidden_layers=6), tiny_folder).model
    with readers._first_layers(whole):
        assert len(whole.model.layers) == 2
    assert len(whole.model.layers) == 6
    whole.model.layers[3].self_attn.scaling *= 2
    norm = whole.model.layers[4].input_layernorm
    norm.weight = torch.nn.Parameter(torch.ones(len(norm.weight) + 1)[1:], requires_grad=False)
    with readers._first_layers(whole):
        assert len(whole.model.layers) == 5
