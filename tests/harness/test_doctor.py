"""What `dpicl doctor` finds of the embedding model and of WordNet."""

from __future__ import annotations

import zipfile
from pathlib import Path

import nltk
import pytest

from dpicl.cli import doctor
from dpicl.cli.doctor import Check
from dpicl.models import embeddings


def found(name: str, checks: list[Check]) -> Check:
    (check,) = [check for check in checks if check.name == name]
    return check


def test_missing_wordnet_is_no_failure_and_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    check = found("WordNet", list(doctor._metrics()))
    assert check.ok
    assert check.remedy == "python -m nltk.downloader wordnet"


@pytest.mark.parametrize("packed", [True, False])
def test_wordnet_is_found_packed_and_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    (tmp_path / "corpora" / "wordnet").mkdir(parents=True)
    if packed:
        (tmp_path / "corpora" / "wordnet").rmdir()
        with zipfile.ZipFile(tmp_path / "corpora" / "wordnet.zip", "w") as file:
            file.writestr("wordnet/lexnames", "00 adj.all 3")
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    assert found("WordNet", list(doctor._metrics())) == Check("WordNet", True, "found", "")


@pytest.mark.parametrize("there", [True, False])
def test_embedding_model_that_is_missing_says_how_to_get_it(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "_installed", lambda: there)
    check = found("embeddings embedded", list(doctor._models()))
    assert check.remedy == ("" if there else embeddings.INSTALL)
    assert check.found.startswith("installed" if there else "missing")


def test_a_second_model_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("qwen2.5-coder-0.5b", "qwen2.5-coder-0.5b-float32")
    known = [{"name": name, "available": False, "get": "make models"} for name in (*names, "embedded")]
    monkeypatch.setattr(doctor.models, "known", lambda: known)
    checks = list(doctor._models())
    assert [found(f"model {name}", checks).ok for name in (*names, "embedded")] == [True, True, False]
