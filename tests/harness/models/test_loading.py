from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import MambaConfig, MambaForCausalLM

from harness import models
from harness.errors import ModelError, UsageError
from harness.models.huggingface import _split
from harness.models.weights import file_sha256, folder_sha256


@pytest.mark.parametrize("name", ["embeded", "gpt2", "hf:", ""])
def test_unknown_name_is_an_error_that_lists_the_known_ones(name: str) -> None:
    with pytest.raises(UsageError, match="embedded, embedded-float32, hf:PATH_OR_ID, sim"):
        models.load(name)


def test_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no folder"):
        models.load(f"hf:{tmp_path / 'nothing'}")


def test_folder_without_a_model_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json") as caught:
        models.load(f"hf:{tmp_path}", device="cpu")
    assert "\n" not in str(caught.value)


def test_damaged_weights_are_an_error(tiny_folder: Path, tmp_path: Path) -> None:
    for file in tiny_folder.iterdir():
        (tmp_path / file.name).write_bytes(
            file.read_bytes()[:1000] if file.suffix == ".safetensors" else file.read_bytes()
        )
    with pytest.raises(ModelError, match="cannot be loaded"):
        models.load(f"hf:{tmp_path}", device="cpu")


def test_unknown_dtype_and_device_are_errors(tiny_folder: Path) -> None:
    with pytest.raises(UsageError, match="float32"):
        models.load(f"hf:{tiny_folder}", dtype="float33")
    with pytest.raises(UsageError, match="cuda:N"):
        models.load(f"hf:{tiny_folder}", device="abacus")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_gpu_that_is_not_there_is_an_error(tiny_folder: Path) -> None:
    with pytest.raises(ModelError, match="no CUDA device"):
        models.load(f"hf:{tiny_folder}", device="cuda")


def test_model_without_key_value_cache_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    MambaForCausalLM(MambaConfig(vocab_size=64, hidden_size=8, num_hidden_layers=1, state_size=2)).save_pretrained(
        tmp_path
    )
    for file in tiny_folder.glob("tokenizer*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(ModelError, match="key/value cache"):
        models.load(f"hf:{tmp_path}", device="cpu")


def test_revision_is_split_off_unless_the_folder_has_an_at_sign(tmp_path: Path) -> None:
    folder = tmp_path / "model@home"
    folder.mkdir()
    assert _split("owner/name@abc123") == ("owner/name", "abc123")
    assert _split("owner/name") == ("owner/name", None)
    assert _split(str(folder)) == (str(folder), None)


def test_sha256_of_a_folder_covers_all_weight_files(tmp_path: Path) -> None:
    assert folder_sha256(tmp_path) is None
    (tmp_path / "a.safetensors").write_bytes(b"a")
    alone = folder_sha256(tmp_path)
    assert alone == file_sha256(tmp_path / "a.safetensors")
    (tmp_path / "b.safetensors").write_bytes(b"b")
    assert folder_sha256(tmp_path) != alone


def test_known_models_are_listed() -> None:
    assert [entry["name"].partition(":")[0] for entry in models.known()] == [
        "embedded",
        "embedded-float32",
        "hf",
        "sim",
    ]


def test_the_model_in_float32_cannot_be_asked_for_in_another_precision() -> None:
    with pytest.raises(UsageError, match="float32 by its name; use 'embedded' for bfloat16"):
        models.load("embedded-float32", device="cpu", dtype="bfloat16")


@pytest.mark.model
def test_the_model_in_float32_is_the_embedded_one_in_full_precision() -> None:
    model = models.load("embedded-float32", device="cpu")
    assert model.identity.dtype == "float32"
    assert model.identity.name == "embedded"
