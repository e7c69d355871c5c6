"""Declared sizes of a suite: rates, events and results follow them, whatever the files hold."""

from __future__ import annotations

import json

import pytest

from dpicl.core.errors import DataError
from dpicl.data.config import load_config
from dpicl.data.task import Task
from dpicl.results.schema import from_text
from tests.harness.helpers import write
from tests.harness.local_suite import LABELS, rows_of, suite, write_records


def test_rates_sizes_and_events_come_from_the_declared_sizes(dpicl, own_cache, tmp_path, monkeypatch):
    monkeypatch.setenv("DPICL_DATA", str(write_records(tmp_path / "data", rows_of("train", 12))))
    answer = dpicl("run", suite(tmp_path, "prism"), "--results", tmp_path / "results")
    assert answer.code == 0, answer.err
    (result,) = [from_text(file.read_text()) for file in (tmp_path / "results").rglob("*.json")]
    assert result.manifest.data.sizes == result.cell.sizes == dict.fromkeys(LABELS, 40)
    assert '"rate": 0.2' in json.dumps(result.privacy.event)  # 8 of 40, and not of 12


def test_the_first_private_record_beside_a_public_part_does_not_show(monkeypatch, tmp_path):
    """With declared sizes a file that is no longer than its public part leaves a private set without records."""
    public = load_config("samsum").data.public["local"]
    rows = [
        {"dialogue": f"Ann: line {i}\nBob: reply {i}", "summary": f"They talk about {i}."} for i in range(public + 1)
    ]
    monkeypatch.setenv("DPICL_DATA", str(tmp_path))
    write(tmp_path, "samsum", "test", [{"dialogue": "T: ask", "summary": "A."}])
    for private in (0, 1):
        write(tmp_path, "samsum", "train", rows[: public + private])
        task = Task.load("samsum", "local", sizes={"": 900})
        assert (len(task.train), len(task.public), task.size) == (private, public, 900)
        if not private:
            with pytest.raises(DataError, match="public part"):
                Task.load("samsum", "local")
