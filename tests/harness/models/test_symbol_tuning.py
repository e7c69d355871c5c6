"""The adapter of the symbol-tuned model: what an episode shows, how it is trained, and how it is added to weights."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from benchmarks import symbol_tuning
from dpicl.core.errors import ModelError
from dpicl.models.adapter import merge
from dpicl.models.packaged import EMBEDDED
from tests.harness.models.tiny import save_tiny_llama

START = 0
COLOURS = {
    "warm": ["red as a rose", "orange light of the sun"],
    "cold": ["blue as the deep sea", "a green hill far away from here and from everything else"],
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    return save_tiny_llama(tmp_path_factory.mktemp("tiny"), max_length=2048)


@pytest.fixture
def tokenizer(tiny):
    return PreTrainedTokenizerFast.from_pretrained(tiny)


def load_model(folder: Path) -> torch.nn.Module:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def write_corpora(folder: Path) -> Path:
    folder.mkdir()
    rows = [{"text": text, "label": label} for label, texts in COLOURS.items() for text in texts]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (folder / "colours.jsonl").write_text(lines, encoding="utf-8")
    return folder


def test_an_episode_asks_for_words_that_stand_for_classes(tokenizer):
    words = symbol_tuning.find_words(tokenizer)
    draw = np.random.default_rng(3)
    episode = symbol_tuning.draw_episode([COLOURS], tokenizer, words, START, draw)
    answers = [episode.tokens[place] for place in episode.labels]
    assert episode.tokens[0] == START
    assert len(set(episode.words)) == 2 and set(episode.words) <= set(words)
    assert answers and set(answers) <= set(episode.words)
    symbols = [token for token in episode.tokens if token in episode.words]
    assert len(symbols) >= len(answers) + 2  # the first of each class are shown, not asked


def test_equal_draws_make_equal_episodes(tokenizer):
    words = symbol_tuning.find_words(tokenizer)
    first, again, other = (
        symbol_tuning.draw_episode([COLOURS], tokenizer, words, START, np.random.default_rng(seed))
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_a_stopped_training_goes_on_to_the_same_adapter(tiny, tokenizer, tmp_path, monkeypatch):
    corpora = write_corpora(tmp_path / "corpora")
    monkeypatch.setattr(symbol_tuning, "_SAVE_EVERY", 2)
    monkeypatch.setattr(symbol_tuning, "STEPS", 4)
    whole, parts = tmp_path / "whole.safetensors", tmp_path / "parts.safetensors"
    symbol_tuning.train(load_model(tiny), tokenizer, START, corpora, whole)

    def stop(words: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(symbol_tuning, "message", stop)
        with pytest.raises(KeyboardInterrupt):
            symbol_tuning.train(load_model(tiny), tokenizer, START, corpora, parts)
    assert parts.read_bytes() != whole.read_bytes()
    symbol_tuning.train(load_model(tiny), tokenizer, START, corpora, parts)
    assert parts.read_bytes() == whole.read_bytes()


def test_merged_weights_answer_as_the_adapter_does(tiny, tmp_path):
    adapted, merged = load_model(tiny), load_model(tiny)
    tokens = torch.tensor([[5, 9, 300, 17]])
    plain = merged(input_ids=tokens).logits
    layers = symbol_tuning.add_adapter(adapted)
    parts: dict[str, torch.Tensor] = {}
    with torch.no_grad():
        for name, layer in layers.items():
            layer.up.copy_(torch.randn_like(layer.up))
            parts |= {f"{name}.up": layer.up.clone(), f"{name}.down": layer.down.clone()}
        save_file(parts, tmp_path / "adapter.safetensors")
        merge(merged, tmp_path / "adapter.safetensors")
        answer, expected = (model(input_ids=tokens).logits for model in (merged, adapted))
    assert torch.allclose(answer, expected, atol=1e-3)
    assert not torch.allclose(answer, plain, atol=0.1)


@pytest.mark.parametrize("change", ["other layers", "other sizes", "a part is missing"])
def test_an_adapter_that_does_not_fit_is_refused(tiny, tmp_path, change):
    layer = "layers.9.self_attn.q_proj" if change == "other layers" else "layers.0.self_attn.q_proj"
    width = 7 if change == "other sizes" else 32
    parts = {f"{layer}.up": torch.zeros(32, 2), f"{layer}.down": torch.zeros(2, width)}
    if change == "a part is missing":
        parts.pop(f"{layer}.down")
    save_file(parts, tmp_path / "adapter.safetensors")
    with pytest.raises(ModelError, match=r"adapter\.safetensors does not fit"):
        merge(load_model(tiny), tmp_path / "adapter.safetensors")


def test_the_adapter_is_part_of_a_models_identity(tmp_path):
    adapter = tmp_path / "adapter.safetensors"
    fingerprints = {EMBEDDED.fingerprint}
    for fill in (0.0, 1.0):
        save_file({"weight": torch.full((2,), fill)}, adapter)
        fingerprints.add(replace(EMBEDDED, adapter=adapter).fingerprint)
    assert len(fingerprints) == 3
    assert load_file(adapter).keys() == {"weight"}
