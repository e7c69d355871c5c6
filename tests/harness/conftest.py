"""Fixtures of plug-ins, and a server that answers as a model server does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpicl import models
from dpicl.data import config as task_config
from dpicl.scaffold.writing import TASK, write_example
from tests.harness.models.fake_server import FakeServer


@pytest.fixture
def no_plugins_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plugins of one test are unknown to the next, and there is no data folder."""
    monkeypatch.setattr(task_config, "_given", {})
    monkeypatch.setattr(models, "_given", {})
    monkeypatch.delenv("DPICL_DATA", raising=False)


@pytest.fixture
def meals(tmp_path: Path) -> Path:
    """The folder of a task."""
    return write_example(TASK, "task", "meals", (), tmp_path)[0]


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    """A server of the simulated model, as llama.cpp's."""
    server = FakeServer("llama.cpp", models.load("sim"))
    yield server
    server.shutdown()
    server.server_close()
