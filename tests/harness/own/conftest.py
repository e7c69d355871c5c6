"""The working folder of somebody with a file of their own."""

from pathlib import Path

import pytest

from tests.harness.own.desk import write_csv


@pytest.fixture
def desk(tmp_path, fresh_cache, monkeypatch) -> Path:
    """A folder with tickets.csv, on a machine without budgets."""
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "tickets.csv", 18)
    return tmp_path
