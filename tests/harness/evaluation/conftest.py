from __future__ import annotations

from pathlib import Path

import pytest

from dpicl.harness import models
from dpicl.harness.models.transformers import TransformersLM
from tests.harness.models.conftest import one_thread
from tests.harness.models.tiny import save_tiny_llama

__all__ = ["one_thread"]


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_llama(tmp_path_factory.mktemp("tiny-llama"))


@pytest.fixture
def tiny(tiny_folder: Path) -> TransformersLM:
    model = models.load(f"hf:{tiny_folder}", device="cpu", dtype="float32")
    assert isinstance(model, TransformersLM)
    return model
