"""Fixtures of plug-ins."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpicl.harness import models
from dpicl.harness.data import config as task_config
from dpicl.harness.scaffold.writing import TASK, write_example


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
