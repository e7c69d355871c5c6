"""Fixtures of plug-ins, two tasks and a model, and a server that answers as a model server does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dpicl import models
from dpicl.data import config as task_config
from dpicl.data.task import Task
from dpicl.scaffold.writing import EXAMPLES, write_example

if TYPE_CHECKING:
    from tests.harness.models.fake_server import FakeServer


@pytest.fixture
def no_plugins_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """No plug-in is known, and there is no data folder."""
    monkeypatch.setattr(task_config, "_given", {})
    monkeypatch.setattr(models, "_given", {})
    monkeypatch.delenv("DPICL_DATA", raising=False)


@pytest.fixture
def meals(tmp_path: Path) -> Path:
    """The folder of a task."""
    return write_example(EXAMPLES["task"], "meals", (), tmp_path)[0]


@pytest.fixture(scope="session")
def agnews() -> Task:
    """60 records a class, 6 to test on."""
    return Task.load("agnews", "synthetic", limit_train=60, limit_test=6)


@pytest.fixture(scope="session")
def samsum() -> Task:
    return Task.load("samsum", "synthetic", limit_train=240, limit_test=4)


@pytest.fixture(scope="session")
def sim() -> models.LanguageModel:
    return models.load("sim")


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.harness.models.tiny import (
        save_tiny_llama,
    )  # it loads torch, which tests of the core do without

    return save_tiny_llama(tmp_path_factory.mktemp("tiny-llama"), max_length=4096)


@pytest.fixture
def fake(tiny_folder: Path, own_cache: Path) -> Iterator[FakeServer]:
    """A server of the tiny model, as llama.cpp's."""
    from tests.harness.models.fake_server import run_server

    with run_server("llama.cpp", tiny_folder) as server:
        yield server
