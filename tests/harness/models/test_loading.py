from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
from pathlib import Path

import pytest
import torch

from dpicl import models
from dpicl.core import files
from dpicl.core.errors import ModelError, UsageError
from dpicl.core.files import folder_sha256, known_sha256
from dpicl.core.output_cache import OutputCache
from dpicl.data.task import Task
from dpicl.models import readers
from dpicl.models.readers import Measured
from dpicl.privacy.sampling_schemes import SamplingScheme
from dpicl.program import parse
from dpicl.releasing.reader import SlotReader


@pytest.mark.parametrize("name", ["embeded", "gpt2", "hf:", ""])
def test_unknown_name_is_an_error_that_lists_the_known_ones(name):
    known = "embedded, embedded-float32, ginc, hf:PATH_OR_ID, qwen2.5-coder-0.5b, qwen2.5-coder-0.5b-float32"
    with pytest.raises(UsageError, match=re.escape(f"{known}, server:URL, sim")):
        models.load(name)


@pytest.mark.parametrize(("folder", "words"), [("nothing", "no folder"), ("", r"config\.json")])
def test_a_folder_without_a_model_is_one_sentence(tmp_path, folder, words):
    with pytest.raises(ModelError, match=words) as caught:
        models.load(f"hf:{tmp_path / folder}", device="cpu")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("how", "words"),
    [({"dtype": "float33"}, "float32"), ({"device": "abacus"}, "cuda:N")],
    ids=["dtype", "device"],
)
def test_unknown_dtype_and_device_are_errors(tiny_folder, how, words):
    with pytest.raises(UsageError, match=words):
        models.load(f"hf:{tiny_folder}", **how)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_gpu_that_is_not_there_is_an_error(tiny_folder):
    with pytest.raises(ModelError, match="no CUDA device"):
        models.load(f"hf:{tiny_folder}", device="cuda")


def test_sha256_of_a_folder_covers_every_file_wherever_it_lies(tmp_path):
    folder, elsewhere = tmp_path / "model", tmp_path / "elsewhere"
    for each in (folder / "part", elsewhere):
        each.mkdir(parents=True)
    (folder / "linked").symlink_to(elsewhere)
    (folder / "circle").symlink_to(folder)
    known = {folder_sha256(folder)}
    for path in (
        "a.safetensors",
        "b.safetensors",
        "config.json",
        "part/modules.json",
        "linked/vocab.txt",
    ):
        (folder / path).write_bytes(b"1")
        known.add(folder_sha256(folder))
        (folder / path).write_bytes(b"2")
        known.add(folder_sha256(folder))
    (folder / "a.safetensors").rename(folder / "c.safetensors")
    known.add(folder_sha256(folder))
    assert len(known) == 12
    (folder / ".cache").mkdir()
    (folder / ".cache" / "lock").touch()
    assert folder_sha256(folder) in known


def test_the_remembered_hash_of_a_file_is_of_its_content(tmp_path, fresh_cache, monkeypatch):
    monkeypatch.setattr(files, "_LARGE", 0)
    path = tmp_path / "weights"
    for content in (b"1", b"2", b"3"):  # written faster than a file system's clock tells apart
        path.write_bytes(content)
        assert known_sha256(path) == hashlib.sha256(content).hexdigest()
    monkeypatch.setattr(files, "_SETTLED", -1.0)
    known_sha256(path)
    monkeypatch.setattr(files, "file_sha256", lambda path: pytest.fail("it is read again"))
    assert known_sha256(path) == hashlib.sha256(b"3").hexdigest()
    monkeypatch.undo()
    monkeypatch.setattr(files, "_LARGE", 0)
    before = path.stat()
    path.write_bytes(b"4")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as `cp -p` and `rsync -t` do
    assert known_sha256(path) == hashlib.sha256(b"4").hexdigest()


EDITS = {
    "config.json": ('"rms_norm_eps": 1e-06', '"rms_norm_eps": 0.5'),
    "tokenizer.json": ("{", "{ "),
    "tokenizer_config.json": ("{", '{"split_special_tokens": true,'),
    "chat_template.jinja": ("<user>", "<bot>"),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_file_is_another_model(tiny_folder, tmp_path, monkeypatch, name):
    monkeypatch.setenv("DPICL_CACHE", str(tmp_path / "cache"))
    measured: list[str] = []

    def note(model: readers.TransformersLM) -> Measured:
        measured.append(model.identity.pin)
        return Measured(True, True, "bits", [1024], [128])

    monkeypatch.setattr(readers, "measure", note)
    (tmp_path / "model").mkdir()
    folder = copy_files(tiny_folder, tmp_path / "model")
    before = models.load(f"hf:{folder}", device="cpu")
    text = (folder / name).read_text()
    assert EDITS[name][0] in text
    (folder / name).write_text(text.replace(*EDITS[name], 1))
    after = models.load(f"hf:{folder}", device="cpu")
    assert len({*measured}) == 2 and before.identity.pin != after.identity.pin
    assert models.identify(f"hf:{folder}") == after.identity.pin
    task, cache = Task.load("agnews", "synthetic", limit_train=2, limit_test=1), OutputCache(None)
    for model in (before, after):  # the second one finds no answer of the first
        read = model.usage.tokens_read
        reader = SlotReader(task, model, cache, SamplingScheme(1, 1, "per_query"), [])
        reader.label_scores(task.queries()[0], [task.train[:1]], calibrated=False)
        assert model.usage.tokens_read > read


@pytest.mark.parametrize(
    "place", [".weights/model.safetensors", "../elsewhere.safetensors", "missing.safetensors"]
)
def test_weights_that_are_not_in_the_folder_are_refused(tiny_folder, tmp_path, place):
    (tmp_path / "model").mkdir()
    folder = copy_files(tiny_folder, tmp_path / "model")
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"lm_head.weight": place}})
    )
    assert "not beside it" in read_refusal(folder)


def test_an_adapter_whose_model_lies_elsewhere_is_refused(tiny_folder, tmp_path):
    (copy_files(tiny_folder, tmp_path) / "adapter_config.json").write_text(
        '{"base_model_name_or_path": "/elsewhere"}'
    )
    assert "merge" in read_refusal(tmp_path)


def test_the_model_in_float32_has_no_other_precision():
    with pytest.raises(UsageError, match="use 'embedded'"):
        models.load("embedded-float32", device="cpu", dtype="bfloat16")


@pytest.mark.model
def test_the_model_in_float32_is_the_embedded_one(
    monkeypatch,
):
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


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "model.ckpt"]
)
def test_weights_in_pickle_are_refused_and_not_read(tiny_folder, tmp_path, name):
    class Bomb:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "exploded",))

    copy_files(tiny_folder, tmp_path, ("model.safetensors",))
    (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
    assert "pickles" in read_refusal(tmp_path)
    assert not (tmp_path / "exploded").exists()


def test_the_message_about_code_names_a_flag_that_exists(tiny_folder, tmp_path):
    copy_files(tiny_folder, tmp_path)
    own = {
        "model_type": "mine",
        "auto_map": {"AutoConfig": "mine.Mine", "AutoModelForCausalLM": "mine.Mine"},
    }
    (tmp_path / "config.json").write_text(json.dumps(own))
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'exploded')!r}, 'w')")
    said = read_refusal(tmp_path)
    assert not (tmp_path / "exploded").exists()
    flags = re.findall(r"--[a-z-]+", said)
    assert (
        flags
        and parse(["run", "quick", *(word for flag in flags for word in (flag, "x"))]) is not None
    )


def test_a_tokenizer_with_code_is_refused(tiny_folder, tmp_path):
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
        ("tokenizer_config.json", '{"a":' * 100_000),
        ("tokenizer.json", "{}"),
        ("model.safetensors", ""),
        ("model.safetensors", "\x08\x00\x00\x00\x00\x00\x00\x00{}      "),
    ],
)
def test_files_that_are_damaged_are_one_sentence(tiny_folder, tmp_path, name, content):
    copy_files(tiny_folder, tmp_path)
    (tmp_path / name).write_text(content)
    assert read_refusal(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_hidden_layers", 10**9),
        ("hidden_size", 10**12),
        ("vocab_size", 1e300),
        ("num_hidden_layers", "two"),
    ],
)
def test_a_config_that_would_fill_the_memory_is_one_sentence(tiny_folder, tmp_path, key, value):
    copy_files(tiny_folder, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text()) | {key: value}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert read_refusal(tmp_path)


def test_weights_that_lack_a_part_are_refused_instead_of_drawn(tiny_folder, tmp_path):
    copy_files(tiny_folder, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text()) | {"num_hidden_layers": 3}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert "lack" in read_refusal(tmp_path)
