from __future__ import annotations

import json
import pickle
import re
from pathlib import Path

import pytest
import torch

from dpicl import models
from dpicl.core.errors import ModelError, UsageError
from dpicl.core.files import file_sha256
from dpicl.models import readers
from dpicl.models.hub import split_reference
from dpicl.models.readers import Measured
from dpicl.models.weights import folder_sha256
from dpicl.program import parse


@pytest.mark.parametrize("name", ["embeded", "gpt2", "hf:", ""])
def test_unknown_name_is_an_error_that_lists_the_known_ones(name: str) -> None:
    known = "embedded, embedded-float32, ginc, hf:PATH_OR_ID, qwen2.5-coder-0.5b, qwen2.5-coder-0.5b-float32"
    with pytest.raises(UsageError, match=re.escape(f"{known}, server:URL, sim")):
        models.load(name)


@pytest.mark.parametrize(("folder", "words"), [("nothing", "no folder"), ("", r"config\.json")])
def test_a_folder_without_a_model_is_one_sentence(tmp_path: Path, folder: str, words: str) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        models.load(f"hf:{tmp_path / folder}", device="cpu")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("how", "words"), [({"dtype": "float33"}, "float32"), ({"device": "abacus"}, "cuda:N")], ids=["dtype", "device"]
)
def test_unknown_dtype_and_device_are_errors(tiny_folder: Path, how: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        models.load(f"hf:{tiny_folder}", **how)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_gpu_that_is_not_there_is_an_error(tiny_folder: Path) -> None:
    with pytest.raises(ModelError, match="no CUDA device"):
        models.load(f"hf:{tiny_folder}", device="cuda")


def test_revision_is_split_off_unless_the_folder_has_an_at_sign(tmp_path: Path) -> None:
    folder = tmp_path / "model@home"
    folder.mkdir()
    assert split_reference("owner/name@abc123") == ("owner/name", "abc123")
    assert split_reference("owner/name") == ("owner/name", None)
    assert split_reference(str(folder)) == (str(folder), None)


def test_sha256_of_a_folder_covers_all_weight_files(tmp_path: Path) -> None:
    assert folder_sha256(tmp_path) is None
    (tmp_path / "a.safetensors").write_bytes(b"a")
    alone = folder_sha256(tmp_path)
    assert alone == file_sha256(tmp_path / "a.safetensors")
    (tmp_path / "b.safetensors").write_bytes(b"b")
    assert folder_sha256(tmp_path) != alone


def test_the_model_in_float32_cannot_be_asked_for_in_another_precision() -> None:
    with pytest.raises(UsageError, match="use 'embedded'"):
        models.load("embedded-float32", device="cpu", dtype="bfloat16")


@pytest.mark.model
def test_the_model_in_float32_is_the_embedded_one_in_full_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        readers, "find_measured", lambda model: Measured(True, True, "bits", [1024], [128])
    )  # takes long
    model = models.load("embedded-float32", device="cpu")
    assert model.identity.dtype == "float32"
    assert model.identity.name == "embedded"


def copy_files(tiny_folder: Path, folder: Path, but: tuple[str, ...] = ()) -> Path:
    for file in tiny_folder.iterdir():
        if file.name not in but:
            (folder / file.name).write_bytes(file.read_bytes())
    return folder


def read_refusal(folder: Path) -> str:
    with pytest.raises(ModelError) as caught:
        models.load(f"hf:{folder}", device="cpu")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "model.ckpt"])
def test_weights_in_pickle_are_refused_and_not_read(tiny_folder: Path, tmp_path: Path, name: str) -> None:
    class Bomb:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "exploded",))

    copy_files(tiny_folder, tmp_path, ("model.safetensors",))
    (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
    assert "pickles" in read_refusal(tmp_path)
    assert not (tmp_path / "exploded").exists()


def test_the_message_about_code_names_a_flag_that_exists(tiny_folder: Path, tmp_path: Path) -> None:
    copy_files(tiny_folder, tmp_path)
    own = {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Mine", "AutoModelForCausalLM": "mine.Mine"}}
    (tmp_path / "config.json").write_text(json.dumps(own))
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'exploded')!r}, 'w')")
    said = read_refusal(tmp_path)
    assert not (tmp_path / "exploded").exists()
    flags = re.findall(r"--[a-z-]+", said)
    assert flags and parse(["run", "quick", *(word for flag in flags for word in (flag, "x"))]) is not None


def test_a_tokenizer_with_code_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    copy_files(tiny_folder, tmp_path)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    settings |= {"tokenizer_class": "Mine", "auto_map": {"AutoTokenizer": ["mine.Mine", None]}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'exploded')!r}, 'w')")
    assert "code of its own" in read_refusal(tmp_path)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", "[" * 100_000),
        ("config.json", "[1]"),
        ("config.json", "{"),
        ("tokenizer_config.json", '{"a":' * 100_000),
        ("tokenizer.json", "{}"),
        ("tokenizer.json", "[" * 100_000),
        ("model.safetensors", ""),
        ("model.safetensors", "\x08\x00\x00\x00\x00\x00\x00\x00{}      "),
    ],
)
def test_files_that_are_damaged_are_one_sentence(tiny_folder: Path, tmp_path: Path, name: str, content: str) -> None:
    copy_files(tiny_folder, tmp_path)
    (tmp_path / name).write_text(content)
    assert read_refusal(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [("num_hidden_layers", 10**9), ("hidden_size", 10**12), ("vocab_size", 1e300), ("num_hidden_layers", "two")],
)
def test_a_config_that_would_fill_the_memory_is_one_sentence(
    tiny_folder: Path, tmp_path: Path, key: str, value: object
) -> None:
    copy_files(tiny_folder, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text()) | {key: value}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert read_refusal(tmp_path)


def test_weights_that_lack_a_part_are_refused_instead_of_drawn(tiny_folder: Path, tmp_path: Path) -> None:
    copy_files(tiny_folder, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text()) | {"num_hidden_layers": 3}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert "lack" in read_refusal(tmp_path)
